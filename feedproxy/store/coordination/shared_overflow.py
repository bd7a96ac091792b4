"""Memory shared by all workers, for values that are not on the disk.

While the disk is full, read-only or locked, every worker must answer with the latest value. A worker appends such a
value to a ring buffer, and enters its position in a table. Reads search the table before the disk. The entry is removed
when the value is on the disk. If newer values have overwritten a value in the ring, all workers treat it as not stored
(docs/decisions/worker-coordination.md).
"""

import hashlib
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from feedproxy.errors import StoreError

CAPACITY = 64 * 1024 * 1024
"""Size of the ring buffer, in bytes: about two thousand feeds in all codings. Memory is allocated as the ring fills."""
VALUE_MAX = CAPACITY // 8
"""Maximum size of a value, in bytes. A target with a larger value counts as not stored."""
SLOTS = 16_384
BUCKET = 8
"""Number of slots that the table has for a name. If all are occupied, the oldest value is dropped."""

_SLOT = struct.Struct("<QQ")
"""Layout of a slot: hash of the name, and position of the value."""
_RECORD = struct.Struct("<QQIII")
"""Layout of a record: position, hash, length of the name, length of the value, and CRC-32 of name and value."""
_COUNTERS_SIZE = 16
TABLE_SIZE = _COUNTERS_SIZE + _SLOT.size * SLOTS
"""Size of the mapped memory, in bytes: the number of entries, the position of the ring's end, and the table."""

DELETED = b""
"""Placeholder for a value that was deleted or overwritten in the ring. An older value on disk must not be used."""


class SharedOverflow:
    """The ring buffer and its table. `mutex` is a lock among the threads of all processes."""

    def __init__(
        self,
        mapped: mmap.mmap,
        table: int,
        handle: int,
        start: int,
        mutex: Callable[[], AbstractContextManager[None]],
        capacity: int = CAPACITY,
    ) -> None:
        """Use the table at offset `table` of `mapped`, and the ring at offset `start` of the file `handle`.

        The ring has `capacity` bytes.
        """
        self._map, self._table, self._handle, self._start = mapped, table + _COUNTERS_SIZE, handle, start
        self._mutex, self._capacity = mutex, capacity
        self._counters = memoryview(mapped)[table : table + _COUNTERS_SIZE].cast(
            "Q"
        )  # number of entries, and end of the ring

    def __len__(self) -> int:
        return self._counters[0]

    def position(self, name: str) -> int:
        """Return the position of the value with this name, or 0 if the value on disk is the latest."""
        if not self._counters[0]:
            return 0
        return self._find(name_hash(name))[1]

    def get(self, name: str) -> bytes | None:
        """Return the value with this name, DELETED if it was deleted or overwritten, or None if it is on disk."""
        for _ in range(3):  # an entry may be replaced while it is read
            position = self.position(name)
            if not position:
                return None
            record = self._read(position)
            if record is not None and record[0] == name:
                return record[1]
        return DELETED

    def put(self, name: str, value: bytes, precondition: Callable[[], bool]) -> int:
        """Append a value, and return its position. A value of more than VALUE_MAX bytes is replaced by DELETED.

        `precondition` is called under the lock. If it returns False, nothing is appended, and the result is 0. Raises
        StoreError if no memory is available. The target then counts as not stored.
        """
        key, text = name_hash(name), name.encode("utf-8", "surrogatepass")
        if len(value) > VALUE_MAX:
            value = DELETED
        checksum = zlib.crc32(value, zlib.crc32(text))
        size = _RECORD.size + len(text) + len(value)
        with self._mutex():
            if not precondition():
                return 0
            end = max(self._counters[1], self._capacity)
            if not self._counters[0] or end % self._capacity + size > self._capacity:
                # The ring starts at its beginning again: an empty ring needs no new memory.
                end += -end % self._capacity
            record = _RECORD.pack(end, key, len(text), len(value), checksum) + text + value
            try:
                os.pwrite(self._handle, record, self._start + end % self._capacity)
            except OSError as error:
                # The entry remains: a position without a value counts as an overwritten value.
                failure: OSError | None = error
            else:
                failure = None
            self._counters[1] = end + size
            slot_offset, before = self._find(key)
            if not before and not _SLOT.unpack_from(self._map, slot_offset)[1]:
                self._counters[0] += 1
            _SLOT.pack_into(self._map, slot_offset, key, end)
        if failure is not None:
            raise StoreError(f"store: an unwritten value cannot be shared in memory: {failure}") from failure
        return end

    def clear(self, name: str, position: int) -> None:
        """Remove the entry of a name, because its value is on disk. A newer entry, with another position, stays."""
        if not position:
            return
        with self._mutex():
            slot_offset, stored_position = self._find(name_hash(name))
            if stored_position == position:
                _SLOT.pack_into(self._map, slot_offset, 0, 0)
                self._counters[0] -= 1

    def names(self) -> Iterator[tuple[str, bool]]:
        """Yield each name in the table, with True if the ring has a value, and False if it records a deletion."""
        if not self._counters[0]:
            return
        table = self._map[self._table : self._table + _SLOT.size * SLOTS]
        for _, position in _SLOT.iter_unpack(table):
            record = self._read(position) if position else None
            if record is not None:
                yield record[0], record[1] != DELETED

    def close(self) -> None:
        self._counters.release()
        del self._map

    def _find(self, key: int) -> tuple[int, int]:
        # The lowest bit of each hash is 1, and would leave every second bucket unused.
        first = self._table + (key >> 1) % (SLOTS // BUCKET) * BUCKET * _SLOT.size
        oldest = (1 << 64, first)
        for slot_offset in range(first, first + BUCKET * _SLOT.size, _SLOT.size):
            stored_key, position = _SLOT.unpack_from(self._map, slot_offset)
            if stored_key == key and position:
                return slot_offset, position
            oldest = min(oldest, (position, slot_offset))
        return oldest[1], 0

    def _read(self, position: int) -> tuple[str, bytes] | None:
        offset = self._start + position % self._capacity
        head = os.pread(self._handle, _RECORD.size, offset)
        if len(head) < _RECORD.size:
            return None
        stored_position, _, text_length, length, checksum = _RECORD.unpack(head)
        if stored_position != position or length > VALUE_MAX or text_length > VALUE_MAX:
            return None
        data = os.pread(self._handle, text_length + length, offset + _RECORD.size)
        text, value = data[:text_length], data[text_length:]
        if len(data) != text_length + length or zlib.crc32(value, zlib.crc32(text)) != checksum:
            return None
        return text.decode("utf-8", "surrogatepass"), value


def name_hash(name: str) -> int:
    """Return a hash of 64 bits that is never 0. All processes compute the same hash."""
    data = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(data, "big") | 1
