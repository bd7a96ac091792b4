"""Entry of a resource in memory: Python objects while the resource is used, and packed bytes at other times.

The packed form is the compressed header (resource_header_compression.py) and the bodies, instead of thirty objects. All
callers get the same `Resource` object as long as a caller refers to it.
"""

from itertools import chain
from weakref import ref

from feedproxy.cache.stored_response import Bodies
from feedproxy.errors import StoreError
from feedproxy.http.message import NAME_LONGEST, SHARED_LENGTH_MAX, Fields
from feedproxy.store.packing.resource_header_compression import compress_header, decompress_header
from feedproxy.store.resource import Resource
from feedproxy.store.resource_codec import header_of, restore

RESOURCE_OVERHEAD = 1152
"""Memory of an unpacked resource without its variants, in bytes. Measured by benchmarks/memory.py."""
VARIANT_OVERHEAD = 640
INSTANT_SIZE = 32
"""Memory of one instant in `Resource.changes`, in bytes."""
VERSION_RECORD_SIZE = 192
DELTA_BASE_OVERHEAD = 192
"""Memory of a `DeltaBase` without its `entries`, in bytes."""
PACKED_OVERHEAD = 512
"""Memory of a packed entry without its compressed header and its bodies, in bytes."""
BODIES_OVERHEAD = 192
"""Memory of the objects around the bodies of one variant, in bytes."""
LINE_SIZE = 78
"""Average memory of a field line, in bytes (benchmarks/store.py). Three of five lines share objects with others."""
USUAL_LINES_MAX = 32
"""`fields_size` counts this many lines of a message as LINE_SIZE bytes each, and computes the size of others."""
UNSHARED_LINE_SIZE = LINE_SIZE + 140
"""Memory of a field line that shares no objects with other responses, in bytes, without its name and value."""


def memory_size(resource: Resource) -> int:
    """Return an estimate of the memory of an unpacked resource, in bytes.

    For usual feeds, the estimate is wrong by at most 15 %. Bodies that several resources share count fully for each.
    """
    total = RESOURCE_OVERHEAD + len(resource.previous.data)
    total += INSTANT_SIZE * len(resource.changes) + VERSION_RECORD_SIZE * len(resource.version_records)
    total += sum([DELTA_BASE_OVERHEAD + len(base.entries) for base in resource.delta_bases])
    for stored in resource.responses:
        total += VARIANT_OVERHEAD + stored.content.size()
        total += fields_size(stored.fields) + fields_size(stored.vary_request)
        total += fields_size(stored.key) if len(stored.key) else 0
    return total


def fields_size(fields: Fields) -> int:
    """Return an estimate of the memory of field lines, in bytes."""
    lines = tuple(fields)
    if len(lines) <= USUAL_LINES_MAX and max(map(len, chain.from_iterable(lines)), default=0) <= NAME_LONGEST:
        return 64 + LINE_SIZE * len(lines)  # the names and values of most messages are short
    usual, further = lines[:USUAL_LINES_MAX], lines[USUAL_LINES_MAX:]
    total = 64 + LINE_SIZE * len(usual)
    for name, value in usual:
        if len(value) > SHARED_LENGTH_MAX:
            total += len(value)
        if len(name) > NAME_LONGEST:
            total += UNSHARED_LINE_SIZE - LINE_SIZE + 2 * len(name)
    return total + sum([UNSHARED_LINE_SIZE + 2 * len(name) + len(value) for name, value in further])


class MemoryEntry:
    """The entry of one resource in memory. A use sets `was_used`. The store resets it when it looks for room."""

    __slots__ = ("_bodies", "_estimated_size", "_header", "_known_header", "_previous", "_resource", "was_used")

    def __init__(self, resource: Resource, size: int | None = None, header: bytes = b"") -> None:
        """Create an unpacked entry.

        `size` is the memory of the resource in bytes, or None to estimate it. `header` is its encoded header
        (resource_codec.py), or b"" if unknown.
        """
        self._resource: Resource | ref[Resource] | None = resource
        self._header = b""
        self._bodies: Bodies | tuple[Bodies, ...] = ()
        self._known_header = header
        self.was_used = False
        self._previous = resource.previous.data
        self._estimated_size = memory_size(resource) if size is None else size

    @property
    def size(self) -> int:
        """Return the memory of the resource, in bytes. Before the header is compressed, this is an estimate."""
        if not self._header:
            return self._estimated_size
        bodies = (self._bodies,) if isinstance(self._bodies, Bodies) else self._bodies
        size = PACKED_OVERHEAD + len(self._header) + len(self._previous)
        return size + sum([BODIES_OVERHEAD + variant.size for variant in bodies])

    def resource(self, target: str) -> Resource:
        """Return the resource of `target`, unpacked if necessary."""
        alive = self._resource
        if isinstance(alive, Resource):
            return alive
        unpacked = alive() if alive is not None else None
        if unpacked is None:
            bodies = self._bodies
            unpacked = restore(
                decompress_header(self._header),
                (bodies,) if isinstance(bodies, Bodies) else bodies,
                self._previous,
                target,
            )
        return unpacked

    def unpack(self, target: str) -> Resource:
        self._resource = unpacked = self.resource(target)
        return unpacked

    def remember_header(self, resource: Resource, header: bytes) -> None:
        """Keep `header`, the encoded data of `resource` without its bodies (resource_codec.py), for `pack`."""
        if self._resource is resource and not self._header:
            self._known_header = header

    def pack(self) -> None:
        """Pack the entry. A resource that cannot be encoded stays unpacked."""
        resource = self._resource
        if not isinstance(resource, Resource):
            return
        if not self._header:
            try:
                self._header = compress_header(self._known_header or header_of(resource))
            except StoreError:
                return
            self._known_header = b""
            self._bodies = _bodies_of(resource)
            self._estimated_size = 0
        self._resource = weak = ref(resource)
        del resource
        if weak() is None:
            self._resource = None


def _bodies_of(resource: Resource) -> Bodies | tuple[Bodies, ...]:
    bodies = tuple([response.content.bodies for response in resource.responses])
    return bodies[0] if len(bodies) == 1 else bodies
