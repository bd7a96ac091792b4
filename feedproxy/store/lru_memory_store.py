"""The resources in memory, limited in bytes. Resources that were not used lately are removed first.

To make room, the resources are examined in the order in which they were stored. A resource that was used since the last
examination moves to the end of this order (the clock algorithm). A use therefore only sets a flag.

Recently used resources are Python objects. All others are packed into bytes (memory_entry.py), and unpacked in 50 µs.
"""

import sys
from collections import OrderedDict
from collections.abc import Iterator

from feedproxy.store.coordination.coordination_interface import LocalCoordination
from feedproxy.store.packing.memory_entry import MemoryEntry
from feedproxy.store.resource import Resource

RESOURCES_MAX = 65_536
"""Maximum number of resources, of any size, in memory in front of a disk. Clients wait while the garbage collector
visits each resource."""

UNPACKED_MAX = 1024
"""Maximum number of unpacked resources, 2 to 10 KB each: as many as clients, updates and refreshes use at once."""

REMOVED_BATCH = 64
"""Number of resources that are removed together to make room, or one in 128 of all resources if that is less. After a
removal, it takes up to half a millisecond to find the first entry of a large dictionary again."""

MOVED_MAX = 1024
"""Maximum number of used resources that one removal moves to the end of the order, in about a millisecond. Further
resources are removed even if they were used."""


class MemoryStore:
    """A Store in memory, which is also the upper tier of `TieredStore`.

    `memory_max` limits the size of the resources. Callers of `put_state` limit the size of the state.
    """

    def __init__(self, memory_max: int, entries_max: int | None = None) -> None:
        self._max = memory_max
        self._entries_max = sys.maxsize if entries_max is None else entries_max
        self._entries: dict[str, MemoryEntry] = {}
        self._unpacked: OrderedDict[str, MemoryEntry] = OrderedDict()
        self._state: dict[str, bytes] = {}
        self.size = 0
        """Estimated memory in use, in bytes. It never exceeds `memory_max`."""
        self.coordination = LocalCoordination()
        self.unwritten_count = 0

    def __len__(self) -> int:
        return len(self._entries)

    async def load(self, target: str) -> None:
        pass

    def get(self, target: str) -> Resource | None:
        entry = self._entries.get(target)
        if entry is None:
            return None
        entry.was_used = True
        if target in self._unpacked:
            self._unpacked.move_to_end(target)
            return entry.resource(target)
        resource = entry.unpack(target)
        self._keep_unpacked(target, entry)
        return resource

    def peek(self, target: str) -> Resource | None:
        entry = self._entries.get(target)
        return entry.resource(target) if entry is not None else None

    get_latest = get

    def holds(self, target: str) -> bool:
        return target in self._entries

    def version(self, target: str, *, used: bool = False) -> object | None:
        """Return an object that identifies the target's resource until it is replaced, or None if there is none."""
        entry = self._entries.get(target)
        if used and entry is not None:
            entry.was_used = True
        return entry

    def put_now(self, resource: Resource, size: int | None = None, header: bytes = b"") -> None:
        """Store this resource at once, unless it is larger than `memory_max`.

        `size` is the memory of the resource in bytes, or None to estimate it. `header` is its encoded header
        (resource_codec.py), or b"" if unknown.
        """
        target = resource.target
        self.drop(target)
        entry = MemoryEntry(resource, size, header)
        if entry.size > self._max:
            return
        self._make_room(entry.size)
        self._entries[target] = entry
        self.size += entry.size
        self._keep_unpacked(target, entry)

    def _make_room(self, size: int) -> None:
        moves_left = MOVED_MAX
        while self._entries and (self.size + size > self._max or len(self._entries) >= self._entries_max):
            batch = min(REMOVED_BATCH, 1 + len(self._entries) // 128)
            used, unused = list[str](), list[str]()
            for target, entry in self._entries.items():
                if len(unused) == batch:
                    break
                (used if entry.was_used and len(used) < moves_left else unused).append(target)
            for target in used:
                entry = self._entries.pop(target)
                entry.was_used = False
                self._entries[target] = entry
            moves_left -= len(used)
            for target in unused:
                self.drop(target)

    def remember_header(self, resource: Resource, header: bytes) -> None:
        entry = self._entries.get(resource.target)
        if entry is not None:
            entry.remember_header(resource, header)

    def _keep_unpacked(self, target: str, entry: MemoryEntry) -> None:
        self._unpacked[target] = entry
        if len(self._unpacked) > UNPACKED_MAX:
            _, packed_entry = self._unpacked.popitem(last=False)
            self.size -= packed_entry.size
            packed_entry.pack()
            self.size += packed_entry.size

    def drop(self, target: str) -> None:
        entry = self._entries.pop(target, None)
        if entry is not None:
            self.size -= entry.size
            self._unpacked.pop(target, None)

    async def put(self, resource: Resource, precondition: object = None) -> None:
        self.put_now(resource)
        self.coordination.record_change()

    async def delete(self, target: str, token_max: int | None = None) -> None:
        if token_max is not None and (resource := self.peek(target)) and resource.fencing_token > token_max:
            return
        self.drop(target)
        self.coordination.record_change()

    def clear(self) -> None:
        self._entries.clear()
        self._unpacked.clear()
        self.size = 0

    def targets(self) -> Iterator[str]:
        return iter(list(self._entries))

    def get_state(self, name: str) -> bytes | None:
        return self._state.get(name)

    async def read_state(self, name: str) -> bytes | None:
        return self.get_state(name)

    async def put_state(self, name: str, data: bytes) -> None:
        self._state[name] = data

    async def wait_written(self, target: str) -> None:
        pass

    async def flush(self) -> None:
        pass

    async def close(self) -> None:
        self.clear()
        self._state.clear()
