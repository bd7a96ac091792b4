"""Compression dictionaries: earlier responses as dictionaries, and the content coding `dcz`. RFC 9842

A response offers itself as a dictionary with Use-As-Dictionary. A client that has stored it sends the SHA-256 of its
content in Available-Dictionary, and `dcz` in Accept-Encoding. The server may then compress a later response with the
dictionary. An invalid field counts as absent.
"""

import hashlib
from typing import TypeGuard

import zstandard
from msgspec import Struct

from feedproxy.errors import Undecodable
from feedproxy.http.coding import bounded_decompression
from feedproxy.http.field_values import field_parser
from feedproxy.http.message import Fields
from feedproxy.http.structured_fields import Token, parse_dictionary, parse_item, string_text

DCZ = "dcz"

MAGIC = bytes.fromhex("5e 2a 4d 18 20 00 00 00")
"""First bytes of a `dcz` stream: the start of a Zstandard frame that decoders skip (RFC 9842, section 5)."""

HASH_BYTES = 32
HEADER_BYTES = len(MAGIC) + HASH_BYTES

ID_MAX = 1024
"""Maximum length of a server identifier, in characters (RFC 9842, section 2.1.3)."""

WINDOW_MIN = 8 * 1024 * 1024
"""Window, in bytes, that every client must be able to decode with any dictionary (RFC 9842, section 5)."""
WINDOW_MAX = 128 * 1024 * 1024
"""Largest window, in bytes, that every client must be able to decode with a large dictionary (RFC 9842, section 5)."""

LEVEL = 9
"""Zstandard level: the smallest result at about 5 ms for 250 KB of content. 986 updates of ten feeds have 25.3 MB in
gzip, and 3.04 MB in `dcz` at level 9. Level 19 gives 2.84 MB, but takes 110 ms."""

_PATTERN_SIGNS = frozenset("*+?{}()\\")
"""Characters with a special meaning in a URL pattern, except the colon."""


class UseAsDictionary(Struct, frozen=True):
    """The offer of a response as a dictionary: a value of Use-As-Dictionary (RFC 9842, section 2.1)."""

    match: str
    """The URL pattern of the requests that may use the dictionary, relative to the URL of the response."""
    id: str = ""
    """The identifier that the server gave the dictionary, or "". A client sends it back in Dictionary-ID."""


def use_as_dictionary(pattern: str) -> str:
    """Return the value of Use-As-Dictionary for a URL pattern. Raises ValueError for non-ASCII characters."""
    return f"match={string_text(pattern)}"


@field_parser(too_long=None, entries=1024)
def parse_use_as_dictionary(value: str) -> UseAsDictionary | None:
    """Return the offer in Use-As-Dictionary, or None if it is invalid or too long, or if its type or pattern forbids
    feedproxy to use the dictionary."""
    members = parse_dictionary(value)
    if members is None:
        return None
    match, destinations = members.get("match"), members.get("match-dest", ())
    identifier, kind = members.get("id", ""), members.get("type", Token("raw"))
    if not _is_string(match) or not _is_string(identifier) or len(identifier) > ID_MAX:
        return None
    if not isinstance(destinations, tuple) or not all(map(_is_string, destinations)):
        return None
    # "If a client receives a dictionary with a type that it does not understand, it MUST NOT use the dictionary" --
    # section 2.1.4. "If PATTERN has regexp groups, then return FALSE" -- section 2.1.1
    if kind != "raw" or not isinstance(kind, Token) or _has_regexp_groups(match):
        return None
    return UseAsDictionary(match, identifier)


@field_parser(too_long=None, entries=1024)
def parse_available_dictionary(value: str) -> bytes | None:
    """Return the SHA-256 in Available-Dictionary (RFC 9842, section 2.2), or None for an invalid or too long value."""
    digest = parse_item(value)
    return digest if isinstance(digest, bytes) and len(digest) == HASH_BYTES else None


def dictionary_hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def without_dictionary(request: Fields) -> Fields:
    """Return the fields of a request without Available-Dictionary, Dictionary-ID, and `dcz` in Accept-Encoding, or
    unchanged if Available-Dictionary is absent."""
    if "available-dictionary" not in request:
        return request
    codings = request.combined("accept-encoding") or ""
    accepted = [coding for coding in map(str.strip, codings.split(",")) if coding.partition(";")[0].strip() != DCZ]
    fields = request.without("available-dictionary", "dictionary-id", *([] if accepted else ["accept-encoding"]))
    return fields.with_field("Accept-Encoding", ", ".join(accepted)) if accepted else fields


def exact_pattern(path: str) -> str | None:
    """Return a URL pattern for `path`, which can include a query, or None if no pattern can express it.

    With a query, the pattern matches only this path with this query. Without one, it matches this path with any query
    or none.
    """
    head, mark, query = path.partition("?")
    if not path.startswith("/") or "#" in path or (mark and head.endswith(":")):
        return None  # a question mark after a group would make the group optional
    pattern = _literal(head) + mark + _literal(query)
    return pattern if pattern.isascii() and pattern.isprintable() else None


def window_limit(dictionary_size: int) -> int:
    """Return the largest window, in bytes, that clients must decode with this dictionary size (RFC 9842, section 5)."""
    return min(max(WINDOW_MIN, dictionary_size * 5 // 4), WINDOW_MAX)


def encode(content: bytes, dictionary: bytes, *, level: int = LEVEL) -> bytes:
    """Return the content as a `dcz` stream. Equal arguments give equal bytes."""
    return MAGIC + dictionary_hash(dictionary) + compress(content, dictionary, level=level)


def decode(body: bytes, dictionary: bytes, *, limit: int) -> bytes:
    """Return the content of a `dcz` stream.

    Raises TooLarge if the content has more than `limit` bytes. Raises Undecodable if the stream is truncated or
    damaged, belongs to another dictionary, or needs a window larger than `window_limit`.
    """
    if len(body) < HEADER_BYTES or not body.startswith(MAGIC):
        raise Undecodable("not dcz: the header is missing")
    # "The dictionary hash MUST be validated before use." -- section 2.1.3
    if body[len(MAGIC) : HEADER_BYTES] != dictionary_hash(dictionary):
        raise Undecodable("dcz made with another dictionary")
    return decompress(body[HEADER_BYTES:], dictionary, limit=limit)


def compress(content: bytes, dictionary: bytes, *, level: int) -> bytes:
    """Return the content compressed with a dictionary, as a Zstandard stream without the header of `dcz`."""
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level,
        window_log=_window_log(len(content), len(dictionary)),
        source_size=len(content),
        dict_size=len(dictionary),
    )
    compressor = zstandard.ZstdCompressor(dict_data=_raw_dictionary(dictionary), compression_params=parameters)
    # The copy frees memory: zstandard's own object occupies the size of the whole content.
    return bytes(memoryview(compressor.compress(content)))


def decompress(stream: bytes, dictionary: bytes, *, limit: int) -> bytes:
    """Return the content of a Zstandard stream that was compressed with this dictionary. Raises TooLarge above `limit`
    bytes, and Undecodable for an invalid stream."""
    decompressor = zstandard.ZstdDecompressor(
        dict_data=_raw_dictionary(dictionary), max_window_size=window_limit(len(dictionary))
    )
    if not stream:
        raise Undecodable("truncated dcz")
    pieces = bounded_decompression.zstd_frames(decompressor, stream, limit, strict=True)
    return bounded_decompression.collect(pieces, DCZ, limit)


def _raw_dictionary(dictionary: bytes) -> zstandard.ZstdCompressionDict:
    """Return a raw dictionary, even if the bytes look like a trained dictionary (RFC 8878, section 5)."""
    return zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _window_log(size: int, dictionary_size: int) -> int:
    """Return the binary logarithm of a window for the whole content, as far as `window_limit` permits.

    A client can use the dictionary only "until the size of the input exceeds the compression window" (RFC 9842).
    """
    limit = window_limit(dictionary_size)
    if size < limit:
        return max(zstandard.WINDOWLOG_MIN, (size - 1).bit_length() if size else 0)
    return (limit - 1).bit_length() - 1


def _is_string(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and not isinstance(value, Token)


def _literal(text: str) -> str:
    return "".join(r"{\:}" if sign == ":" else f"\\{sign}" if sign in _PATTERN_SIGNS else sign for sign in text)


def _has_regexp_groups(pattern: str) -> bool:
    """Return True if a URL pattern has an unescaped `(`, or ends in an escape without a character."""
    signs = iter(pattern)
    return any(sign == "(" or (sign == "\\" and next(signs, None) is None) for sign in signs)
