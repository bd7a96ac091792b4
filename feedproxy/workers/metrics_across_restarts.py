"""Metrics of a worker across restarts: a snapshot in memory of the supervisor, which outlives the worker.

A worker writes its metrics every few seconds, and at each scrape. If it exits, the next worker with the same number
continues counting from the last snapshot. Snapshots are written alternately to two areas, so that one remains if a
process is killed during a write.
"""

import os
import struct
import zlib

SIZE_MAX = 1024 * 1024
"""A snapshot of more than this many bytes is not written. The metrics take about a twentieth of this size."""

_HEAD = struct.Struct("<QII")
"""Head of a snapshot: its number, the length of its data, and the CRC-32 of number and data."""


class MetricsSnapshot:
    """The last metrics of one worker, in memory that remains for the next worker with the same number. `descriptor` is
    the file descriptor of this memory."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._number = self._latest()[0]

    def write(self, data: bytes) -> None:
        """Replace the previous snapshot by `data`. If `data` has more than SIZE_MAX bytes, do nothing. Raises OSError
        if the memory cannot be written."""
        if len(data) > SIZE_MAX:
            return
        self._number += 1
        record = _HEAD.pack(self._number, len(data), _checksum(self._number, data)) + data
        os.pwrite(self._descriptor, record, self._number % 2 * (SIZE_MAX + _HEAD.size))

    def read(self) -> bytes:
        """Return the last snapshot, or empty bytes if there is no undamaged snapshot."""
        return self._latest()[1]

    def _latest(self) -> tuple[int, bytes]:
        latest = (0, b"")
        for offset in (0, SIZE_MAX + _HEAD.size):
            head = os.pread(self._descriptor, _HEAD.size, offset)
            if len(head) < _HEAD.size:
                continue
            number, length, checksum = _HEAD.unpack(head)
            if number <= latest[0] or length > SIZE_MAX:
                continue
            data = os.pread(self._descriptor, length, offset + _HEAD.size)
            if len(data) == length and _checksum(number, data) == checksum:
                latest = (number, data)
        return latest


def _checksum(number: int, data: bytes) -> int:
    return zlib.crc32(data, number & 0xFFFFFFFF)
