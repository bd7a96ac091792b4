"""A resource in the hot set: awake while it is used, packed while it is not.

A feed that nobody has asked for in a while lies in memory as its header in few bytes (header_compression.py) and its
bodies; awake it has thirty objects. Whoever got the resource before and holds it still (an update under way) and
whoever gets it again have the same object: what has not been replaced is not two.
"""

from weakref import ref

from feedproxy.cache.stored_response import Bodies
from feedproxy.errors import StoreError
from feedproxy.store.codec import header_of, restore
from feedproxy.store.packing.header_compression import compress_header, decompress_header
from feedproxy.store.packing.packed_sequences import PackedSequence
from feedproxy.store.resource import Resource

RESOURCE_OVERHEAD = 1280
"""Bytes of a resource beside its variants: objects, channel, our own entry. Measured by benchmarks/memory.py."""
VARIANT_OVERHEAD = 640
PACKED_OVERHEAD = 512
"""Bytes of an entry that is packed beside its header and its first variant's bodies: objects, target, its place."""
BODIES_OVERHEAD = 192
"""Bytes of further bodies beside what they are."""


def weight(resource: Resource) -> int:
    """Bytes that a resource holds in memory: an estimate, rather too high, for nothing counts as shared.

    Its field lines are packed hereby, and take less from now on.
    """
    total = RESOURCE_OVERHEAD + sum(
        each.size for each in (resource.delta_bases, resource.changes) if isinstance(each, PackedSequence)
    )
    total += len(resource.previous.data)
    for stored in resource.responses:
        total += VARIANT_OVERHEAD + stored.content.size() + stored.fields.pack() + stored.vary_request.pack()
        total += stored.key.pack() if len(stored.key) else 0
    return total


class MemoryEntry:
    """One resource. `size` is what it counts for: the bytes that it takes packed, as soon as that is known."""

    __slots__ = ("_alive", "_bodies", "_header", "_known", "_previous", "size")

    def __init__(self, resource: Resource, size: int | None = None, header: bytes = b"") -> None:
        """Awake. `size` is its weight, and `header` its header (codec.py), where they are known."""
        self._alive: Resource | ref[Resource] | None = resource
        self._header = compress_header(header) if header else b""
        self._bodies: Bodies | tuple[Bodies, ...] = ()
        self._known = b""
        self._previous = resource.previous.data
        if header:
            self._bodies = _bodies_of(resource)
            self.size = self._packed_size(resource)
        else:
            self.size = weight(resource) if size is None else size

    @property
    def resource(self) -> Resource:
        """The resource; one unpacked for this occasion, where nobody holds it and it is not awake."""
        alive = self._alive
        if isinstance(alive, Resource):
            return alive
        found = alive() if alive is not None else None
        if found is None:
            bodies = self._bodies
            found = restore(
                decompress_header(self._header), (bodies,) if isinstance(bodies, Bodies) else bodies, self._previous
            )
        return found

    def unpack(self) -> Resource:
        """The resource, from now on unpacked."""
        self._alive = found = self.resource
        return found

    def remember_header(self, resource: Resource, header: bytes) -> None:
        """The header of this resource, which it need not be asked for when it falls asleep."""
        if self._alive is resource and not self._header:
            self._known = header

    def pack(self) -> None:
        """Take few bytes from now on, unless somebody else holds the resource. What has no packed form stays awake."""
        resource = self._alive
        if not isinstance(resource, Resource):
            return
        if not self._header:
            try:
                self._header = compress_header(self._known or header_of(resource))
            except StoreError:
                return
            self._known = b""
            self._bodies = _bodies_of(resource)
            self.size = self._packed_size(resource)
        self._alive = left = ref(resource)
        del resource
        if left() is None:
            self._alive = None

    def _packed_size(self, resource: Resource) -> int:
        several = len(resource.responses)
        return PACKED_OVERHEAD + BODIES_OVERHEAD * several + len(self._header) + resource.size()


def _bodies_of(resource: Resource) -> Bodies | tuple[Bodies, ...]:
    found = tuple([each.content.bodies for each in resource.responses])
    assert all(isinstance(each, Bodies) for each in found)
    return found[0] if len(found) == 1 else found  # type: ignore[return-value] # as it was just said
