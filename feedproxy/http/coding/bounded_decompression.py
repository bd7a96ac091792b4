"""Decoding of content codings with limits against decompression bombs: small messages that expand to a large content.

Decoders work in pieces and stop at the caller's limit. Truncated content, or a wrong checksum, is an error.
"""

import io
from collections.abc import Callable, Generator

import brotli
import zstandard

from feedproxy.errors import TooLarge, Undecodable
from feedproxy.http.coding.content_coding import (
    GZIP_MAGIC,
    NOT_CODINGS,
    UnknownCoding,
    is_text,
    is_zstd_frame,
    lacks_magic_number,
    layers,
    sniff,
)
from feedproxy.http.coding.deflate import zlib

LAYERS_MAX = 4
"""Maximum number of codings that are decoded. Servers apply at most two, for example to a file that is already gzip."""

_ALWAYS_ACCEPTED = 16 * 1024 * 1024
_EXPANSION = 100
"""Maximum ratio of decoded to coded bytes, for decoded content above 16 MB.

A higher ratio indicates a decompression bomb. The most repetitive of 352 feeds has a ratio of 12.
"""

_PIECE = 4 * 1024
"""Maximum number of bytes of input in one call of a decoder.

At the end of each gzip member, the decoder copies the rest of its input. With larger pieces, these copies would take
seconds for a body of many empty members.
"""

_ONE_CALL_MAX = 256 * 1024
"""A gzip body is decoded in one call if the limit of its content is at most this many bytes."""

_OUTPUT = 64 * 1024
"""Maximum output of one call of a gzip, deflate or brotli decoder, in bytes (except `_gunzip_at_once`)."""

_ZSTD_WINDOW_MAX = 8 * 1024 * 1024
"""Maximum window of a decoded zstd stream, in bytes. The content coding zstd permits at most 8 MB (RFC 9659)."""

_ZSTD_EXPANSION = 32 * 1024
"""Maximum number of decoded bytes from each byte of a zstd block (RFC 8878, section 3.1.1.2.3)."""

_ZSTD_STEP = 4 * 1024 * 1024
"""Maximum output of one call of a zstd decoder, in bytes.

The decoder has no such limit. It therefore gets only as much input as can expand to this maximum.
"""


def unknown_codings(content_encoding: str | None) -> tuple[str, ...]:
    """Return the codings in a Content-Encoding that feedproxy cannot decode."""
    return tuple(coding for coding in layers(content_encoding) if coding not in _DECODERS)


def decode(body: bytes, content_encoding: str | None, *, limit: int) -> bytes:
    """Return the decoded content of a body.

    An empty body is returned unchanged, and so is text that is mislabelled as gzip or zstd (`lacks_magic_number`). A
    name of NOT_CODINGS is skipped if the body is text or coded in gzip or zstd.

    `limit` is the maximum size in bytes. If a body has several codings, the sizes after each decoding are added. Raises
    TooLarge above `limit`, UnknownCoding for an unknown coding, and Undecodable for truncated or damaged content, or
    for more than LAYERS_MAX codings.
    """
    codings = layers(content_encoding)
    if len(codings) > LAYERS_MAX:
        raise Undecodable(f"{len(codings)} content codings: expected at most {LAYERS_MAX}")
    remaining = limit
    # "the codings are listed in the order in which they were applied" -- section 8.4
    for coding in reversed(codings):
        if not body or lacks_magic_number(body, coding):
            continue
        if coding not in _DECODERS:
            if coding in NOT_CODINGS and (is_text(body) or sniff(body)):
                continue
            raise UnknownCoding(coding)
        body = _gunzip_at_once(body, coding, remaining) or collect(
            _DECODERS[coding](body, remaining), coding, remaining
        )
        remaining -= len(body)
    return body


def decoding_limit(length: int, limit: int) -> int:
    """Return the maximum size, in bytes, of the decoded content of a body of `length` bytes: `limit`, or less if
    content of `limit` bytes would indicate a decompression bomb."""
    return min(limit, max(_ALWAYS_ACCEPTED, _EXPANSION * length))


def collect(pieces: Generator[bytes], coding: str, limit: int) -> bytes:
    """Return the joined pieces of a decoder's output. Raises TooLarge if the content has more than `limit` bytes, and
    Undecodable if the decoder fails."""
    # A growing block is returned to the operating system as a whole; thousands of pieces would fragment the heap.
    content, piece = io.BytesIO(), b""
    try:
        for piece in pieces:
            if content.tell() + len(piece) > limit:
                raise TooLarge(f"more than {limit} bytes after decoding {coding}")
            content.write(piece)
        return content.getvalue()
    except (zlib.error, brotli.error, zstandard.ZstdError) as error:
        raise Undecodable(f"not {coding}: {error}") from error
    finally:
        # If the exception is stored, its traceback keeps these frames in memory, and with them the decoded content.
        pieces.close()
        content.close()
        piece = b""


def _gunzip_at_once(body: bytes, coding: str, limit: int) -> bytes:
    """Return the content of a single small gzip member, decoded in one call, or b"" if it must be decoded in pieces."""
    if coding != "gzip" or limit > _ONE_CALL_MAX:
        return b""
    decoder = zlib.decompressobj(wbits=31)
    try:
        content = decoder.decompress(body, limit + 1)
    except zlib.error:
        return b""
    return content if decoder.eof and not decoder.unused_data and len(content) <= limit else b""


def _gunzip(body: bytes, limit: int) -> Generator[bytes]:
    """Yield the content of consecutive gzip members (RFC 1952, section 2.2). Data after the last member is dropped."""
    return _deflated(body, "gzip", 31, next_member=GZIP_MAGIC)


def _inflate(body: bytes, limit: int) -> Generator[bytes]:
    """Yield the content of zlib data, or of a bare deflate stream, which some servers send (RFC 9110, 8.4.1.2)."""
    is_zlib = len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
    return _deflated(body, "deflate", 15 if is_zlib else -15)


def _deflated(body: bytes, coding: str, wbits: int, next_member: bytes | None = None) -> Generator[bytes]:
    """Yield the content of a deflate stream, and of consecutive streams that begin with `next_member` (unless None)."""
    decoder, offset = zlib.decompressobj(wbits), 0
    while offset < len(body):
        if decoder.eof:
            if body[offset : offset + 2] != next_member:
                return
            decoder = zlib.decompressobj(wbits)
        data = body[offset : offset + _PIECE]
        yield decoder.decompress(data, _OUTPUT)
        # At the end, unconsumed_tail may repeat unused_data: only one of the two counts.
        offset += len(data) - len(decoder.unused_data if decoder.eof else decoder.unconsumed_tail)
    while not decoder.eof and (piece := decoder.decompress(b"", _OUTPUT)):
        yield piece
    if not decoder.eof:
        raise Undecodable(f"truncated {coding}")


def _unbrotli(body: bytes, limit: int) -> Generator[bytes]:
    """Yield the content of one brotli stream (RFC 7932). Data after the stream raises an error."""
    decoder = brotli.Decompressor()
    for offset in range(0, len(body), _PIECE):
        yield decoder.process(body[offset : offset + _PIECE], output_buffer_limit=_OUTPUT)
        while not decoder.can_accept_more_data():
            yield decoder.process(b"", output_buffer_limit=_OUTPUT)
    # The decoder may still have output after all input.
    while not decoder.is_finished() and (piece := decoder.process(b"", output_buffer_limit=_OUTPUT)):
        yield piece
    if not decoder.is_finished():
        raise Undecodable("truncated br")


def _unzstd(body: bytes, limit: int) -> Generator[bytes]:
    return zstd_frames(zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX), body, limit)


def zstd_frames(
    decompressor: zstandard.ZstdDecompressor, body: bytes, limit: int, *, strict: bool = False
) -> Generator[bytes]:
    """Yield the content of consecutive zstd frames (RFC 8878, section 3), in smaller pieces near `limit` bytes.

    Data after the last frame is dropped. If `strict` is True, it raises Undecodable.
    """
    decoder, offset, remaining = decompressor.decompressobj(), 0, limit
    while offset < len(body):
        if decoder.eof:
            if not is_zstd_frame(body[offset : offset + 4]):
                if strict:
                    raise Undecodable("data after the last zstd frame")
                return
            decoder = decompressor.decompressobj()
        size = min(max(min(remaining, _ZSTD_STEP) // _ZSTD_EXPANSION, 64), _PIECE)
        piece = decoder.decompress(body[offset : offset + size])
        offset = min(offset + size, len(body)) - len(decoder.unused_data)
        remaining -= len(piece)
        yield piece
    if not decoder.eof:
        raise Undecodable("truncated zstd")


_DECODERS: dict[str, Callable[[bytes, int], Generator[bytes]]] = {
    "gzip": _gunzip,
    "deflate": _inflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}
