"""Values that the disk does not have, or not yet, in memory that all workers share.

While the disk is full, read-only or locked, all workers must answer with what one of them has stored. A value that
cannot be written, or not soon, is therefore appended to a ring of bytes in the workers' common memory; a table has its
position. Reads look into the table before the disk. A later write that succeeds removes the entry. A value that the
ring has overwritten is lost: its target counts as not stored, in all workers.

(docs/decisions/worker-coordination.md)
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
"""Bytes of the ring, allocated as they are used: about two thousand feeds in all their codings."""
VALUE_MAX = CAPACITY // 8
"""Bytes of one value; a larger one counts as lost."""
SLOTS = 16_384
BUCKET = 8
"""Slots that a name may be in. If all are taken, the value that was appended first is dropped."""

_SLOT = struct.Struct("<QQ")
"""Hash of the name, position."""
_RECORD = struct.Struct("<QQIII")
"""Position, hash, length of the name, length of the value, CRC-32 of both."""
_COUNTERS_SIZE = 16
TABLE_SIZE = _COUNTERS_SIZE + _SLOT.size * SLOTS
"""Bytes of mapped memory: how many entries there are, where the ring ends, and the table."""

DELETED = b""
"""Stands for a value that was deleted, or that the ring has lost. The disk has an older one, which must not be used."""


class SharedOverflow:
    """The ring and its table. `mutex` lets one thread of one process at a time write to them."""

    def __init__(
        self,
        mapped: mmap.mmap,
        table: int,
        handle: int,
        start: int,
        mutex: Callable[[], AbstractContextManager[None]],
        capacity: int = CAPACITY,
    ) -> None:
        """Use the table in `mapped` at `table`, and the ring in the file `handle` from `start` on."""
        self._map, self._table, self._handle, self._start = mapped, table + _COUNTERS_SIZE, handle, start
        self._mutex, self._capacity = mutex, capacity
        self._counters = memoryview(mapped)[table : table + _COUNTERS_SIZE].cast("Q")  # entries, end of the ring

    def __len__(self) -> int:
        return self._counters[0]

    def position(self, name: str) -> int:
        """Return the position of a value; 0 if the disk is up to date."""
        if not self._counters[0]:
            return 0
        return self._find(_hash(name))[1]

    def get(self, name: str) -> bytes | None:
        """Return the value, or DELETED; None if the disk is up to date."""
        for _ in range(3):  # an entry may be replaced while it is read
            position = self.position(name)
            if not position:
                return None
            found = self._read(position)
            if found is not None and found[0] == name:
                return found[1]
        return DELETED

    def put(self, name: str, value: bytes, precondition: Callable[[], bool]) -> int:
        """Append a value, or DELETED. Return its position, or 0 if `precondition`, called last, returns False."""
        key, text = _hash(name), name.encode("utf-8", "surrogatepass")
        if len(value) > VALUE_MAX:
            value = DELETED
        checksum = zlib.crc32(value, zlib.crc32(text))
        size = _RECORD.size + len(text) + len(value)
        with self._mutex():
            if not precondition():
                return 0
            end = max(self._counters[1], self._capacity)
            if not self._counters[0] or end % self._capacity + size > self._capacity:
                # From the ring's start: an empty ring needs no new memory.
                end += -end % self._capacity
            record = _RECORD.pack(end, key, len(text), len(value), checksum) + text + value
            try:
                os.pwrite(self._handle, record, self._start + end % self._capacity)
            except OSError as error:
                # The entry stays: a position without a value counts as a lost value.
                failure: OSError | None = error
            else:
                failure = None
            self._counters[1] = end + size
            place, before = self._find(key)
            if not before and not _SLOT.unpack_from(self._map, place)[1]:
                self._counters[0] += 1
            _SLOT.pack_into(self._map, place, key, end)
        if failure is not None:
            raise StoreError(f"cannot share an unwritten value in memory: {failure}") from failure
        return end

    def clear(self, name: str, position: int) -> None:
        """Remove the entry, because the disk is up to date, unless a value was appended after this position."""
        if not position:
            return
        with self._mutex():
            place, found = self._find(_hash(name))
            if found == position:
                _SLOT.pack_into(self._map, place, 0, 0)
                self._counters[0] -= 1

    def names(self) -> Iterator[tuple[str, bool]]:
        """Yield the table's names, and whether each has a value."""
        if not self._counters[0]:
            return
        table = self._map[self._table : self._table + _SLOT.size * SLOTS]
        for _, position in _SLOT.iter_unpack(table):
            found = self._read(position) if position else None
            if found is not None:
                yield found[0], found[1] != DELETED

    def close(self) -> None:
        """Release the mapped memory."""
        self._counters.release()
        del self._map

    def _find(self, key: int) -> tuple[int, int]:
        """Return the name's place in the table and its position. An unknown name gets the place to overwrite, and 0."""
        first = self._table + key % (SLOTS // BUCKET) * BUCKET * _SLOT.size
        oldest = (1 << 64, first)
        for place in range(first, first + BUCKET * _SLOT.size, _SLOT.size):
            stored_key, position = _SLOT.unpack_from(self._map, place)
            if stored_key == key and position:
                return place, position
            oldest = min(oldest, (position, place))
        return oldest[1], 0

    def _read(self, position: int) -> tuple[str, bytes] | None:
        """Return name and value at this position; None if the ring has overwritten it."""
        offset = self._start + position % self._capacity
        head = os.pread(self._handle, _RECORD.size, offset)
        if len(head) < _RECORD.size:
            return None
        found, _, text_length, length, checksum = _RECORD.unpack(head)
        if found != position or length > VALUE_MAX or text_length > VALUE_MAX:
            return None
        data = os.pread(self._handle, text_length + length, offset + _RECORD.size)
        text, value = data[:text_length], data[text_length:]
        if len(data) != text_length + length or zlib.crc32(value, zlib.crc32(text)) != checksum:
            return None
        return text.decode("utf-8", "surrogatepass"), value


def _hash(name: str) -> int:
    data = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(data, "big") | 1
