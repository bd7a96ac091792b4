"""A map with limits in bytes and entries. It evicts the least recently used entry first."""

import sys
from collections import OrderedDict

ENTRY_OVERHEAD = 512
"""Each entry counts this many bytes in addition to its value, for the key and the map. 460 bytes were measured."""


class LRU[K, V]:
    """Values by key: at most `bytes_max` bytes and `entries_max` entries."""

    def __init__(self, bytes_max: int = sys.maxsize, entries_max: int = sys.maxsize) -> None:
        self._bytes_max = bytes_max
        self._entries_max = entries_max
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.size = 0
        """The bytes of all entries, including ENTRY_OVERHEAD for each."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Return the value and mark it as the most recently used, or return None for an unknown key."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def values(self) -> list[V]:
        return [value for value, _ in self._entries.values()]

    def put(self, key: K, value: V, size: int = 0) -> None:
        """Store a value of `size` bytes in place of the key's former value, and evict other values to make room. If the
        value and ENTRY_OVERHEAD exceed `bytes_max`, remove the former value, and store nothing."""
        self.drop(key)
        size += ENTRY_OVERHEAD
        if size > self._bytes_max:
            return
        self._entries[key] = value, size
        self.size += size
        self._make_room()

    def drop(self, key: K) -> None:
        if (former := self._entries.pop(key, None)) is not None:
            self.size -= former[1]

    def resize(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._make_room()

    def _make_room(self) -> None:
        while self.size > self._bytes_max or len(self._entries) > self._entries_max:
            self.size -= self._entries.popitem(last=False)[1][1]
