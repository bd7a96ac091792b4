"""Values that the disk does not have, or not yet, in memory that all workers share.

While the disk is full, read-only or locked, what one worker has stored has to be what the others answer with. So a
value that cannot be written, or not soon, is appended to a ring of bytes in the workers' common memory, and a table
says under which position. Whoever reads asks the table before the disk. A later write that succeeds takes the entry
out. What the ring has overwritten since is lost: its target counts as not stored, for all alike.

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
"""Bytes of the ring, which take up memory as they are used: about two thousand feeds in all their codings."""
VALUE_MAX = CAPACITY // 8
"""Bytes of one value; a larger one counts as lost."""
SLOTS = 16_384
BUCKET = 8
"""Slots that a name may be in. Where all are taken, the value that was appended first is forgotten."""

_SLOT = struct.Struct("<QQ")
"""Hash of the name, position."""
_RECORD = struct.Struct("<QQIII")
"""Position, hash, length of the name, length of the value, CRC-32 of both."""
_WORDS = 16
TABLE_SIZE = _WORDS + _SLOT.size * SLOTS
"""Bytes of mapped memory: how many entries there are, where the ring ends, and the table."""

DELETED = b""
"""Instead of a value: it was deleted, or the ring has it no more. The disk has an older one, which must not be used."""


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
        """The table is in `mapped` at `table`; the ring is in the file `handle`, from `start` on."""
        self._map, self._table, self._handle, self._start = mapped, table + _WORDS, handle, start
        self._mutex, self._capacity = mutex, capacity
        self._words = memoryview(mapped)[table : table + _WORDS].cast("Q")  # entries, end of the ring

    def __len__(self) -> int:
        return self._words[0]

    def position(self, name: str) -> int:
        """Where its value is; 0 where the disk is right."""
        if not self._words[0]:
            return 0
        return self._find(_hash(name))[1]

    def get(self, name: str) -> bytes | None:
        """The value, or LOST; None where the disk is right."""
        for _ in range(3):  # an entry may be replaced while it is read
            position = self.position(name)
            if not position:
                return None
            found = self._read(position)
            if found is not None and found[0] == name:
                return found[1]
        return DELETED

    def put(self, name: str, value: bytes, wanted: Callable[[], bool]) -> int:
        """Append a value, or LOST; its position. 0 where it is not `wanted` at the last moment."""
        key, text = _hash(name), name.encode("utf-8", "surrogatepass")
        if len(value) > VALUE_MAX:
            value = DELETED
        checksum = zlib.crc32(value, zlib.crc32(text))
        size = _RECORD.size + len(text) + len(value)
        with self._mutex():
            if not wanted():
                return 0
            end = max(self._words[1], self._capacity)
            if not self._words[0] or end % self._capacity + size > self._capacity:
                # From the ring's start: where nothing is left in it, no new memory is needed.
                end += -end % self._capacity
            record = _RECORD.pack(end, key, len(text), len(value), checksum) + text + value
            try:
                os.pwrite(self._handle, record, self._start + end % self._capacity)
            except OSError as error:
                # The entry stays: a position with no value is a value that was lost.
                failure: OSError | None = error
            else:
                failure = None
            self._words[1] = end + size
            place, before = self._find(key)
            if not before and not _SLOT.unpack_from(self._map, place)[1]:
                self._words[0] += 1
            _SLOT.pack_into(self._map, place, key, end)
        if failure is not None:
            raise StoreError(f"a value that the disk does not take cannot be shared: {failure}") from failure
        return end

    def clear(self, name: str, position: int) -> None:
        """The disk is right, unless a later value was appended than that at this position."""
        if not position:
            return
        with self._mutex():
            place, found = self._find(_hash(name))
            if found == position:
                _SLOT.pack_into(self._map, place, 0, 0)
                self._words[0] -= 1

    def names(self) -> Iterator[tuple[str, bool]]:
        """What the table has, and whether there is a value."""
        if not self._words[0]:
            return
        table = self._map[self._table : self._table + _SLOT.size * SLOTS]
        for _, position in _SLOT.iter_unpack(table):
            found = self._read(position) if position else None
            if found is not None:
                yield found[0], found[1] != DELETED

    def close(self) -> None:
        """Used no more."""
        self._words.release()
        del self._map

    def _find(self, key: int) -> tuple[int, int]:
        """The name's place in the table and its position; else the place to be taken, and 0."""
        first = self._table + key % (SLOTS // BUCKET) * BUCKET * _SLOT.size
        oldest = (1 << 64, first)
        for place in range(first, first + BUCKET * _SLOT.size, _SLOT.size):
            there, position = _SLOT.unpack_from(self._map, place)
            if there == key and position:
                return place, position
            oldest = min(oldest, (position, place))
        return oldest[1], 0

    def _read(self, position: int) -> tuple[str, bytes] | None:
        """Name and value at this position; None where the ring has come round to it."""
        at = self._start + position % self._capacity
        head = os.pread(self._handle, _RECORD.size, at)
        if len(head) < _RECORD.size:
            return None
        found, _, text_length, length, checksum = _RECORD.unpack(head)
        if found != position or length > VALUE_MAX or text_length > VALUE_MAX:
            return None
        data = os.pread(self._handle, text_length + length, at + _RECORD.size)
        text, value = data[:text_length], data[text_length:]
        if len(data) != text_length + length or zlib.crc32(value, zlib.crc32(text)) != checksum:
            return None
        return text.decode("utf-8", "surrogatepass"), value


def _hash(name: str) -> int:
    data = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(data, "big") | 1
