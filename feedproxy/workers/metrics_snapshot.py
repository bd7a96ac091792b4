"""What a worker has counted, in memory that outlives it.

The memory belongs to the supervisor. A worker writes there what it has counted whenever somebody looks, and every few
seconds; the next worker in the same seat goes on from that. Two places take turns, so that a process that is killed
while it writes leaves the one before.
"""

import os
import struct
import zlib

SIZE_MAX = 1024 * 1024
"""Bytes of one snapshot: some twenty times what metrics come to."""

_HEAD = struct.Struct("<QII")
"""Number, length, CRC-32 of number and data."""


class MetricsSnapshot:
    """The memory of one seat, by its descriptor."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._number = self._latest()[0]

    def write(self, data: bytes) -> None:
        """Replace what was written before. Raises OSError; what is too large is not written."""
        if len(data) > SIZE_MAX:
            return
        self._number += 1
        record = _HEAD.pack(self._number, len(data), _checksum(self._number, data)) + data
        os.pwrite(self._handle, record, self._number % 2 * (SIZE_MAX + _HEAD.size))

    def read(self) -> bytes:
        """What was written last; empty where nothing was."""
        return self._latest()[1]

    def _latest(self) -> tuple[int, bytes]:
        found = (0, b"")
        for place in (0, SIZE_MAX + _HEAD.size):
            head = os.pread(self._handle, _HEAD.size, place)
            if len(head) < _HEAD.size:
                continue
            number, length, checksum = _HEAD.unpack(head)
            if number <= found[0] or length > SIZE_MAX:
                continue
            data = os.pread(self._handle, length, place + _HEAD.size)
            if len(data) == length and _checksum(number, data) == checksum:
                found = (number, data)
        return found


def _checksum(number: int, data: bytes) -> int:
    return zlib.crc32(data, number & 0xFFFFFFFF)
