"""Detection of a document's encoding, and conversion to UTF-8.

As in XML 1.0, appendix F, the byte order mark decides first, then the pattern of bytes of value 0 (as in UTF-16), then
the declaration. The `charset` of Content-Type comes last, because many servers add the same charset to every file. JSON
is in UTF-8 (RFC 8259, section 8.1).
"""

import codecs
import re
from contextlib import suppress

from msgspec import Struct

from feedproxy.feed.encoding_labels import codec_of, is_wide, superset_of

_BYTE_ORDER_MARKS = (
    # UTF-32 comes first: its little-endian mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf_32_le"),
    (codecs.BOM_UTF32_BE, "utf_32_be"),
    (codecs.BOM_UTF8, "utf_8"),
    (codecs.BOM_UTF16_LE, "utf_16_le"),
    (codecs.BOM_UTF16_BE, "utf_16_be"),
)

_ZERO_BYTE_PATTERNS = (
    # "<", "{" or white space with its zero bytes.
    (re.compile(rb"\0\0\0[<{[\s]"), "utf_32_be"),
    (re.compile(rb"[<{[\s]\0\0\0"), "utf_32_le"),
    (re.compile(rb"\0[<{[\s]\0[^\0]"), "utf_16_be"),
    (re.compile(rb"[<{[\s]\0[^\0]\0"), "utf_16_le"),
)

_PLAIN = re.compile(rb"[\x01-\x7f]{4}")
"""Pattern of the beginning of a document in ASCII, without a byte order mark and without bytes of value 0."""

_DECLARATION = re.compile(rb"""<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:\-]{1,40})["']""")

_FEED_ROOT = re.compile(rb"<(?:[\w.\-]+:)?(?:rss|rdf|feed|channel)[\s>]", re.IGNORECASE)
"""Pattern of the root element of a feed. After it, a text like an XML declaration belongs to an item."""

_JSON_START = re.compile(rb"\s*[{\[]")

_HIGH_CONTROLS = re.compile(rb"[\x80-\x9f]")
"""Pattern of bytes that are control characters in ISO 8859, and letters or quotation marks in Windows encodings."""

_ISO_8859 = frozenset({"latin_1", "iso8859_9", "iso8859_11", "tis_620"})
"""Encodings that decode the bytes of _HIGH_CONTROLS to control characters."""

_DECLARATION_SEARCH_MAX = 1024
"""Number of bytes at the beginning in which the declaration is searched for. Warnings of PHP can precede it."""


class Utf8Text(Struct, frozen=True):
    """The result of a conversion to UTF-8."""

    data: bytes
    """The document in UTF-8, without a byte order mark."""
    encoding: str
    """Python's name of the original document's codec, such as `utf_16_le`."""
    sound: bool
    """True if the document's encoding is known, and every byte was valid."""


def encoding_by_bytes(body: bytes) -> tuple[str, int] | None:
    """Return the codec that a byte order mark or the bytes of value 0 indicate, and the length of the mark in bytes.

    The length is 0 if there is no mark. Return None if the first bytes indicate no codec.
    """
    if _PLAIN.match(body):
        return None
    for mark, name in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return name, len(mark)
    for pattern, name in _ZERO_BYTE_PATTERNS:
        if pattern.match(body):
            return name, 0
    return None


def declared_encoding(body: bytes) -> str | None:
    """Return the encoding that the XML declaration names, as written, or None if it names none."""
    match = _DECLARATION.search(body, 0, _DECLARATION_SEARCH_MAX)
    if match is None or _FEED_ROOT.search(body, 0, match.start()):
        return None
    return match[1].decode("ascii")


def to_utf8(body: bytes, charset: str | None = None) -> Utf8Text:
    """Return `body` in UTF-8. Invalid bytes are replaced, and make `sound` False. `charset` is that of Content-Type."""
    detected = encoding_by_bytes(body)
    if detected:
        name, mark = detected
        return _decode(body[mark:], name)
    if _JSON_START.match(body):
        return _decode(body, "utf_8")
    codec = codec_of(declared_encoding(body) or charset or "utf-8")
    if codec == "utf_7":
        codec = None  # UTF-7 can hide markup from filters
    if codec is None or is_wide(codec):
        # The declared encoding is unknown or wrong: a document in a wide encoding is recognised above by its zero
        # bytes.
        text = _decode(body, "utf_8")
        return Utf8Text(text.data, text.encoding, sound=codec is not None and text.sound)
    return _decode(body, codec)


def _decode(body: bytes, codec: str) -> Utf8Text:
    if codec == "utf_8" or (codec == "ascii" and body.isascii()):
        # The common case needs no copy.
        if _is_utf8(body):
            return Utf8Text(body, codec, sound=True)
        return _decode_invalid_utf8(body)
    if codec in _ISO_8859 and _HIGH_CONTROLS.search(body):
        with suppress(UnicodeError):
            return Utf8Text(_encode(body.decode(superset_of(codec))), superset_of(codec), sound=True)
    try:
        return Utf8Text(_encode(body.decode(codec)), codec, sound=True)
    except UnicodeError:
        fallback = "utf_8" if codec == "ascii" and _is_utf8(body) else superset_of(codec)
        return Utf8Text(_encode(body.decode(fallback, "replace")), fallback, sound=False)


def _decode_invalid_utf8(body: bytes) -> Utf8Text:
    """Decode a document that should be in UTF-8, but has invalid bytes, which are replaced. If most characters beyond
    ASCII are invalid UTF-8, the document is decoded as windows-1252."""
    text = body.decode("utf-8", "replace")
    invalid_count = text.count("\ufffd")
    valid_count = len(text) - len(text.encode("ascii", "ignore")) - invalid_count
    if valid_count > invalid_count:
        return Utf8Text(text.encode(), "utf_8", sound=False)
    return Utf8Text(body.decode("cp1252", "replace").encode(), "cp1252", sound=False)


def _is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeError:
        return False
    return True


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")
