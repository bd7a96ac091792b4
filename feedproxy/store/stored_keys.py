"""The keys on disk, in two bytes each, so that a miss of an unknown key reads no disk.

Without this filter, each first fetch of a feed would cause a read, which takes 0.2 ms of CPU time in a thread.
"""

import threading
from collections.abc import Iterator
from itertools import islice

from feedproxy.errors import StoreError

BITS = 1 << 24
"""Size of the filter: 2 MiB. With a million stored keys, 1.3 % of all other keys count as stored, with four million 14
%. The disk is then read without need."""

STEP = 256
"""Number of keys that one step reads from the disk, in half a millisecond (PAGE_ROWS in sqlite_rows.py)."""


class StoredKeys:
    """A Bloom filter of the stored keys. Until all keys on disk have been read, every key counts as possibly stored.

    Deleted keys stay in the filter. Any thread may call the methods, but only one may call `read_some`.
    """

    def __init__(self, on_disk: Iterator[str]) -> None:
        """Create a filter of the keys that `on_disk` yields. `add` must be called before any other key is stored."""
        self._on_disk: Iterator[str] | None = on_disk
        self._bits = bytearray(BITS // 8)
        self._lock = threading.Lock()
        self._is_complete = False
        self.is_paused = False
        """True while `read_some` must read nothing."""

    def may_contain(self, key: str) -> bool:
        """Return True if the key can be stored, and False if it is certainly not stored."""
        return not self._is_complete or self._has(key)

    def add(self, key: str) -> None:
        if not self._has(key):
            with self._lock:
                for position in _positions(key):
                    self._bits[position >> 3] |= 1 << (position & 7)

    def read_some(self) -> bool:
        """Read the next keys from the disk. Return True if more keys remain. If the disk fails, nothing is read until
        the next call of `read_again`."""
        on_disk = self._on_disk
        if on_disk is None or self._is_complete or self.is_paused:
            return False
        try:
            keys = list(islice(on_disk, STEP))
        except StoreError:
            self._on_disk = None
            return False
        for key in keys:
            self.add(key)
        with self._lock:
            self._is_complete = not keys and on_disk is self._on_disk
        return not self._is_complete

    def read_again(self, on_disk: Iterator[str]) -> None:
        """Read all keys again, because keys may have been stored without a call of `add`."""
        with self._lock:
            self._on_disk, self._is_complete = on_disk, False

    def _has(self, key: str) -> bool:
        first, second = _positions(key)
        return bool(self._bits[first >> 3] >> (first & 7) & self._bits[second >> 3] >> (second & 7) & 1)


def _positions(key: str) -> tuple[int, int]:
    value = hash(key)
    return value % BITS, (value >> 32) % BITS
