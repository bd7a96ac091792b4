"""The envelope of every value in the store: docs/reference/store-format.md.

Magic, version, kind, length of the header and a checksum stand before the header and the content. CRC-32 detects faults
of disks and crashes, not manipulation. It was the fastest of those measured: 20 µs for 100 KB, where SHA-256 takes 51
µs and BLAKE2b 92 µs.
"""

import struct
import zlib
from enum import IntEnum

from feedproxy.errors import StoreError

VERSION = 1
LATER = 2
"""Version of values that an earlier feedproxy would misread; all others are written as `VERSION`."""
MAGIC = b"FPXY"

_ENVELOPE = struct.Struct(">4sBBxxII")
"""Magic, version, kind, two bytes of zero, length of the header, CRC-32 of everything but itself."""
_CHECKED = _ENVELOPE.size - 4


class Kind(IntEnum):
    """Contents of an envelope."""

    RESOURCE = ord("R")
    STATE = ord("S")


class Damaged(StoreError):
    """The value is not as it was written: it is truncated or altered, or from another program."""


class UnknownVersion(StoreError):
    """The value was written by another version of feedproxy, in a form that this one does not read."""


def seal_parts(kind: Kind, header: bytes, *parts: bytes, version: int = VERSION) -> bytes:
    """Return header and parts in one envelope."""
    start = _ENVELOPE.pack(MAGIC, version, kind, len(header), 0)[:_CHECKED]
    checksum = zlib.crc32(header, zlib.crc32(start))
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join((start, checksum.to_bytes(4), header, *parts))


def open_parts(kind: Kind, data: bytes) -> tuple[memoryview, memoryview]:
    """Return header and content. Raises Damaged or UnknownVersion.

    The version is read before the checksum: another version may have another checksum.
    """
    if len(data) < _ENVELOPE.size:
        raise Damaged("a stored value is shorter than its envelope")
    magic, version, found, length, checksum = _ENVELOPE.unpack_from(data)
    if magic != MAGIC:
        raise Damaged(f"a stored value begins with {magic!r}: expected {MAGIC!r}")
    if version not in (VERSION, LATER):
        raise UnknownVersion(f"a stored value has version {version}; this feedproxy reads {VERSION} and {LATER}")
    view = memoryview(data)
    rest = view[_ENVELOPE.size :]
    if zlib.crc32(rest, zlib.crc32(view[:_CHECKED])) != checksum:
        raise Damaged("a stored value has a wrong checksum")
    if found != kind or length > len(rest):
        raise Damaged("a stored value is of another kind")
    return rest[:length], rest[length:]


def seal(data: bytes) -> bytes:
    """Return the state of another part in an envelope."""
    return seal_parts(Kind.STATE, b"", data)


def unseal(data: bytes) -> bytes:
    """Return the data that `seal` was given. Raises Damaged or UnknownVersion."""
    return bytes(open_parts(Kind.STATE, data)[1])
