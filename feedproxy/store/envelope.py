"""The envelope of every value in the store: docs/reference/store-format.md.

Magic, version, kind, length of the header and a checksum stand before the header and the content.
CRC-32 guards against what disks and crashes do, not against people; it was the cheapest of those measured
(20 us for 100 KB, where SHA-256 takes 51 us and BLAKE2b 92 us).
"""

import struct
import zlib
from enum import IntEnum

from feedproxy.errors import StoreError

VERSION = 1
LATER = 2
"""The version of values that an earlier feedproxy would read wrongly; all others are written as `VERSION`."""
MAGIC = b"FPXY"

_ENVELOPE = struct.Struct(">4sBBxxII")
"""Magic, version, kind, two bytes of zero, length of the header, CRC-32 of everything but itself."""
_CHECKED = _ENVELOPE.size - 4


class Kind(IntEnum):
    """What an envelope holds."""

    RESOURCE = ord("R")
    STATE = ord("S")


class Damaged(StoreError):
    """The value is not what was written: truncated, altered, or never ours."""


class UnknownVersion(StoreError):
    """The value was written by another version of feedproxy, in a form that this one does not read."""


def seal_parts(kind: Kind, header: bytes, *parts: bytes, version: int = VERSION) -> bytes:
    """Header and parts in one envelope."""
    start = _ENVELOPE.pack(MAGIC, version, kind, len(header), 0)[:_CHECKED]
    checksum = zlib.crc32(header, zlib.crc32(start))
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join((start, checksum.to_bytes(4), header, *parts))


def open_parts(kind: Kind, data: bytes) -> tuple[memoryview, memoryview]:
    """Header and content. Raises Damaged or UnknownVersion.

    The version is looked at before the checksum: another version may have another checksum.
    """
    if len(data) < _ENVELOPE.size:
        raise Damaged("a stored value is shorter than its envelope")
    magic, version, found, length, checksum = _ENVELOPE.unpack_from(data)
    if magic != MAGIC:
        raise Damaged("a stored value does not begin as ours do")
    if version not in (VERSION, LATER):
        raise UnknownVersion(f"a stored value has version {version}; this feedproxy reads {VERSION} and {LATER}")
    view = memoryview(data)
    rest = view[_ENVELOPE.size :]
    if zlib.crc32(rest, zlib.crc32(view[:_CHECKED])) != checksum:
        raise Damaged("a stored value's checksum does not fit")
    if found != kind or length > len(rest):
        raise Damaged("a stored value is of another kind")
    return rest[:length], rest[length:]


def seal(data: bytes) -> bytes:
    """State of other parts, enclosed."""
    return seal_parts(Kind.STATE, b"", data)


def unseal(data: bytes) -> bytes:
    """What `seal` was given. Raises Damaged or UnknownVersion."""
    return bytes(open_parts(Kind.STATE, data)[1])
