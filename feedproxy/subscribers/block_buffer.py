"""Buffers and checksums for the stored forms of the subscriber counts and the poll rhythms. Each form can take a
hundred megabytes.

`bytes.join` releases Python's interpreter lock while it copies bytes objects, but not while it copies a bytearray. `+`
never releases the lock. With a bytearray of 90 MB, hits waited 90 ms.
"""

import zlib
from collections.abc import Iterable

from feedproxy.errors import StoreError

BLOCK_SIZE = 1024 * 1024
"""A block has at least this many bytes, except the last block."""


class BlockBuffer:
    """Bytes to which parts are appended, kept in blocks."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._last = bytearray()

    def append(self, part: bytes) -> None:
        self._last += part
        if len(self._last) >= BLOCK_SIZE:
            self._blocks.append(bytes(self._last))
            self._last.clear()

    def blocks(self) -> list[bytes]:
        return [*self._blocks, bytes(self._last)]

    def __bool__(self) -> bool:
        return bool(self._blocks or self._last)


def with_checksum(magic: bytes, parts: Iterable[bytes]) -> bytes:
    """Return a stored form: `magic` (the name of the form), the CRC-32 of the parts in 4 bytes, and the parts."""
    parts, checksum = list(parts), 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join([magic, checksum.to_bytes(4, "little"), *parts])


def without_checksum(magic: bytes, data: bytes, name: str) -> bytes:
    """Return the joined parts from a result of `with_checksum`. Raises StoreError, with `name` in its message, for
    damaged data and for other forms."""
    if not data.startswith(magic):
        raise StoreError(f"{name} of an unknown form")
    start = len(magic) + 4
    content = data[start:]
    if zlib.crc32(content).to_bytes(4, "little") != data[len(magic) : start]:
        raise StoreError(f"damaged {name}")
    return content
