"""The envelope of a value in the store: the first bytes, by which the value is recognised and checked.

The form is described in docs/reference/store-format.md. The envelope precedes the header and the content. It has a
magic number, the version, the kind, the length of the header, and a checksum. The checksum is CRC-32: it detects faults
of disks and crashes, not manipulation. For 100 KB, CRC-32 takes 20 µs, SHA-256 51 µs and BLAKE2b 92 µs.
"""

import struct
from enum import IntEnum

from feedproxy.errors import StoreError
from feedproxy.http.coding.deflate import zlib

VERSION = 1
LATER_VERSION = 2
"""Version number of stored forms that an earlier feedproxy would misread. All other stored forms have the number
VERSION."""
MAGIC = b"FPXY"

_ENVELOPE = struct.Struct(">4sBBxxII")
"""Layout: magic number, version, kind, two zero bytes, length of the header, and CRC-32 of everything except itself."""
_CHECKED = _ENVELOPE.size - 4


class EnvelopeKind(IntEnum):
    """The kind of content in an envelope."""

    RESOURCE = ord("R")
    STATE = ord("S")


class Damaged(StoreError):
    """Error for a value that is truncated, altered, or written by another program."""


class UnknownVersion(StoreError):
    """Error for a stored form of another feedproxy version that this version cannot read."""


def seal_parts(kind: EnvelopeKind, header: bytes, *parts: bytes, version: int = VERSION) -> bytes:
    """Return an envelope with the header and the parts."""
    start = _ENVELOPE.pack(MAGIC, version, kind, len(header), 0)[:_CHECKED]
    checksum = zlib.crc32(header, zlib.crc32(start))
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join((start, checksum.to_bytes(4), header, *parts))


def open_parts(kind: EnvelopeKind, data: bytes) -> tuple[memoryview, memoryview]:
    """Return the header and the content of an envelope. Raises Damaged or UnknownVersion.

    The version is checked before the checksum, because another version may have another kind of checksum.
    """
    if len(data) < _ENVELOPE.size:
        raise Damaged("invalid stored value: shorter than its envelope")
    magic, version, stored_kind, length, checksum = _ENVELOPE.unpack_from(data)
    if magic != MAGIC:
        raise Damaged(f"invalid stored value: it begins with {magic!r}, expected {MAGIC!r}")
    if version not in (VERSION, LATER_VERSION):
        raise UnknownVersion(f"unknown version {version} of a stored value: expected {VERSION} or {LATER_VERSION}")
    view = memoryview(data)
    remainder = view[_ENVELOPE.size :]
    if zlib.crc32(remainder, zlib.crc32(view[:_CHECKED])) != checksum:
        raise Damaged("invalid stored value: wrong checksum")
    if stored_kind != kind or length > len(remainder):
        raise Damaged("invalid stored value: unexpected kind")
    return remainder[:length], remainder[length:]


def seal(data: bytes) -> bytes:
    """Return the state of a part of feedproxy, such as subscriptions, in an envelope."""
    return seal_parts(EnvelopeKind.STATE, b"", data)


def unseal(data: bytes) -> bytes:
    """Return the data in an envelope made by `seal`. Raises Damaged or UnknownVersion."""
    return bytes(open_parts(EnvelopeKind.STATE, data)[1])
