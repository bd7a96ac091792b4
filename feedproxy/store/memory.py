"""The hot set: resources in memory, bounded by bytes, the least recently used going first."""

import sys
from collections import OrderedDict
from collections.abc import Iterator

from feedproxy.store.common import Own
from feedproxy.store.compact import Compact
from feedproxy.store.resource import Resource

RESOURCE_OVERHEAD = 1280
"""Bytes of a resource beside its variants: objects, channel, our own entry. Measured by benchmarks/memory.py."""
VARIANT_OVERHEAD = 640


def weight(resource: Resource) -> int:
    """Bytes that a resource holds in memory: an estimate, rather too high, for nothing counts as shared.

    Its field lines are packed hereby, and take less from now on.
    """
    total = RESOURCE_OVERHEAD + sum(
        each.size for each in (resource.versions, resource.changes) if isinstance(each, Compact)
    )
    for variant in (*resource.variants, *resource.parts):
        total += VARIANT_OVERHEAD + variant.content.size() + variant.fields.pack() + variant.vary_request.pack()
    return total


class MemoryStore:
    """A Store that keeps nothing on disk. It is also the upper tier of the one that does.

    State (`put_state`) is not bounded: its owners bound it.
    """

    def __init__(self, memory_max: int, entries_max: int | None = None) -> None:
        self._max = memory_max
        self._entries_max = sys.maxsize if entries_max is None else entries_max
        self._entries: OrderedDict[str, Resource] = OrderedDict()
        self._state: dict[str, bytes] = {}
        self._size = 0
        self.common = Own()

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
        return entry

    def peek(self, target: str) -> Resource | None:
        return self._entries.get(target)

    newest = get

    def keep(self, resource: Resource, size: int | None = None) -> None:
        """`put`, for those who cannot wait. What is larger than the whole bound is not kept.

        `size` is its weight, where that is known.
        """
        self.drop(resource.target)
        total = weight(resource) if size is None else size
        if total > self._max:
            return
        self._entries[resource.target] = resource
        self._size += total
        while self._size > self._max or len(self._entries) > self._entries_max:
            _, oldest = self._entries.popitem(last=False)
            self._size -= weight(oldest)

    def drop(self, target: str) -> None:
        """`delete`, for those who cannot wait."""
        entry = self._entries.pop(target, None)
        if entry is not None:
            self._size -= weight(entry)

    async def put(self, resource: Resource, still: object = None) -> None:
        self.keep(resource)
        self.common.tell()

    async def delete(self, target: str) -> None:
        self.drop(target)
        self.common.tell()

    def clear(self) -> None:
        """Forget every resource."""
        self._entries.clear()
        self._size = 0

    def targets(self) -> Iterator[str]:
        return iter(list(self._entries))

    def get_state(self, name: str) -> bytes | None:
        return self._state.get(name)

    async def put_state(self, name: str, data: bytes) -> None:
        self._state[name] = data

    async def written(self, target: str) -> None:
        pass

    async def flush(self) -> None:
        pass

    async def close(self) -> None:
        self.clear()
        self._state.clear()
