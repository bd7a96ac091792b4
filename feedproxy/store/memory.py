"""The hot set: resources in memory, bounded by bytes, the least recently used going first."""

from collections import OrderedDict
from collections.abc import Iterator

from feedproxy.store.resource import Resource

RESOURCE_OVERHEAD = 1536
"""Bytes of a resource beside its variants: objects, channel, our own entry. Measured with tracemalloc."""
VARIANT_OVERHEAD = 768
VERSION_OVERHEAD = 192
LINE_OVERHEAD = 64
"""The pair that holds a field line."""


def weight(resource: Resource) -> int:
    """Bytes that a resource holds in memory: an estimate, rather too high, for nothing counts as shared."""
    total = RESOURCE_OVERHEAD + sum(VERSION_OVERHEAD + len(each.entries) for each in resource.versions)
    for variant in (*resource.variants, *resource.parts):
        total += VARIANT_OVERHEAD + variant.content.size()
        for name, value in variant.fields:
            total += LINE_OVERHEAD + len(name) + len(value)
    return total


class MemoryStore:
    """A Store that keeps nothing on disk. It is also the upper tier of the one that does.

    State (`put_state`) is not bounded: its owners bound it.
    """

    def __init__(self, memory_max: int) -> None:
        self._max = memory_max
        self._entries: OrderedDict[str, tuple[Resource, int]] = OrderedDict()
        self._state: dict[str, bytes] = {}
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes held, by estimate; never above the bound."""
        return self._size

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, target: str) -> Resource | None:
        entry = self._entries.get(target)
        if entry is None:
            return None
        self._entries.move_to_end(target)
        return entry[0]

    def keep(self, resource: Resource) -> None:
        """`put`, for those who cannot wait. What is larger than the whole bound is not kept."""
        self.drop(resource.target)
        total = weight(resource)
        if total > self._max:
            return
        self._entries[resource.target] = (resource, total)
        self._size += total
        while self._size > self._max:
            _, (_, freed) = self._entries.popitem(last=False)
            self._size -= freed

    def drop(self, target: str) -> None:
        """`delete`, for those who cannot wait."""
        entry = self._entries.pop(target, None)
        if entry is not None:
            self._size -= entry[1]

    async def put(self, resource: Resource) -> None:
        self.keep(resource)

    async def delete(self, target: str) -> None:
        self.drop(target)

    def targets(self) -> Iterator[str]:
        return iter(list(self._entries))

    def get_state(self, name: str) -> bytes | None:
        return self._state.get(name)

    async def put_state(self, name: str, data: bytes) -> None:
        self._state[name] = data

    async def flush(self) -> None:
        pass

    async def close(self) -> None:
        self._entries.clear()
        self._state.clear()
        self._size = 0
