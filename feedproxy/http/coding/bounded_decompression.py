"""Decoding of content codings with limits. A decompression bomb is a small message that expands to a large content.

Decoders work in pieces: the output of all layers exceeds the caller's limit by at most one piece. Truncated content,
and content with a wrong checksum, is an error.

Content labelled gzip or zstd is taken as uncoded if it lacks the format's magic number and looks like XML or JSON. The
labels br and deflate are always trusted: these formats have no magic number.
"""

import io
from collections.abc import Callable, Generator

import brotli
import zstandard

from feedproxy.errors import TooLarge, Undecodable
from feedproxy.http.coding.content_coding import GZIP_MAGIC, ZSTD_MAGIC, UnknownCoding, layers
from feedproxy.http.coding.deflate import zlib

LAYERS_MAX = 4
"""Maximum number of codings applied to one content. Two codings occur, for example if a server compresses the transfer
of a gzip file. More codings indicate an attack or a loop."""

_ALWAYS_ACCEPTED = 16 * 1024 * 1024
_EXPANSION = 100
"""Maximum ratio of decoded to coded bytes, for content above 16 MB. A higher ratio indicates a decompression bomb:
the most repetitive of 352 feeds shrinks to a twelfth."""

_PIECE = 4 * 1024
"""Bytes of input for each call of a decoder. At the end of a gzip member, the decoder copies the rest of the piece,
and a member may have only 20 bytes. With larger pieces, a body of empty members would take seconds."""

_ONE_CALL_MAX = 256 * 1024
"""Maximum size, in bytes, of the content of a gzip body that is decoded in one call. A content that may be larger is
decoded in pieces."""

_OUTPUT = 64 * 1024
"""Number of bytes to which the output of one call of a decoder is limited."""

_ZSTD_WINDOW_MAX = 8 * 1024 * 1024
"""Maximum window of zstd, in bytes. As a content coding, zstd has a window of at most 8 MB, and a decoder may refuse
a larger one.  RFC 9659"""

_ZSTD_EXPANSION = 32 * 1024
"""Maximum expansion of a zstd block, in output bytes for each input byte: 4 bytes can give 128 KiB (RFC 8878,
section 3.1.1.2.3)."""

_ZSTD_STEP = 4 * 1024 * 1024
"""Maximum number of bytes that one call of a zstd decoder may produce. The decoder has no limit of its own. Each call
therefore gets only as many bytes of input as can expand to this size (_ZSTD_EXPANSION)."""


def decode(body: bytes, content_encoding: str | None, *, limit: int) -> bytes:
    """Decode `body` and return the content. An empty body is returned unchanged, whatever `content_encoding` is.

    `limit` is the maximum size in bytes, for all layers together. Raises TooLarge above `limit`, UnknownCoding for an
    unknown coding, and Undecodable for truncated, damaged or mislabelled content.
    """
    codings = layers(content_encoding)
    for coding in codings:
        if coding not in _DECODERS:
            raise UnknownCoding(coding)
    if len(codings) > LAYERS_MAX:
        raise Undecodable(f"{len(codings)} content codings: expected at most {LAYERS_MAX}")
    remaining = limit
    # "the codings are listed in the order in which they were applied" -- section 8.4
    for coding in reversed(codings):
        if not body or _is_mislabelled(body, coding):
            continue
        body = _gunzip_at_once(body, coding, remaining) or collect(
            _DECODERS[coding](body, remaining), coding, remaining
        )
        remaining -= len(body)
    return body


def decoding_limit(length: int, limit: int) -> int:
    """Return the maximum size to which `length` coded bytes may be decoded, in bytes. It is `limit`, or less if a
    content of that size would indicate a decompression bomb."""
    return min(limit, max(_ALWAYS_ACCEPTED, _EXPANSION * length))


def _is_mislabelled(body: bytes, coding: str) -> bool:
    """Return True if the body is not in the coding that Content-Encoding states: the coding's magic number is missing,
    and the body begins like XML or JSON."""
    if coding == "gzip":
        return not body.startswith(GZIP_MAGIC) and _is_text(body)
    if coding == "zstd":
        return not _is_zstd_frame(body) and _is_text(body)
    return False


def _is_text(body: bytes) -> bool:
    start = body[:512].removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    # UTF-16 with its byte order mark, then the first bytes of XML and JSON.
    return start.startswith((b"\xff\xfe", b"\xfe\xff", b"<", b"{", b"["))


def _is_zstd_frame(data: bytes) -> bool:
    # The magic number of a skippable frame ends in any of sixteen nibbles (RFC 8878, section 3.1.2).
    return data.startswith(ZSTD_MAGIC) or (data[1:4] == b"\x2a\x4d\x18" and data[0] >> 4 == 5)


def collect(pieces: Generator[bytes], coding: str, limit: int) -> bytes:
    """Join the pieces of a decoder and return the content.

    Raises TooLarge if the content has more than `limit` bytes, and Undecodable if the decoder fails.
    """
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
    """Decode a single small gzip member in one call and return its content.

    Return empty bytes if the body must be decoded in pieces.
    """
    if coding != "gzip" or limit > _ONE_CALL_MAX:
        return b""
    decoder = zlib.decompressobj(wbits=31)
    try:
        content = decoder.decompress(body, limit + 1)
    except zlib.error:
        return b""
    return content if decoder.eof and not decoder.unused_data and len(content) <= limit else b""


def _gunzip(body: bytes, limit: int) -> Generator[bytes]:
    """Decode consecutive gzip members (RFC 1952, section 2.2) and yield their content.

    Data after the last member is dropped.
    """
    decoder, offset = zlib.decompressobj(wbits=31), 0
    while offset < len(body):
        if decoder.eof:
            if body[offset : offset + 2] != GZIP_MAGIC:
                return
            decoder = zlib.decompressobj(wbits=31)
        data = body[offset : offset + _PIECE]
        yield decoder.decompress(data, _OUTPUT)
        # At the end, unconsumed_tail may repeat unused_data: only one of the two counts.
        offset += len(data) - len(decoder.unused_data if decoder.eof else decoder.unconsumed_tail)
    yield from _remaining_output(decoder)
    if not decoder.eof:
        raise Undecodable("truncated gzip")


def _inflate(body: bytes, limit: int) -> Generator[bytes]:
    """Decode the zlib format, or the bare deflate stream that some servers send, and yield the content.

    RFC 9110, section 8.4.1.2
    """
    is_zlib = len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
    decoder, offset = zlib.decompressobj(wbits=15 if is_zlib else -15), 0
    while offset < len(body) and not decoder.eof:
        data = body[offset : offset + _PIECE]
        yield decoder.decompress(data, _OUTPUT)
        offset += len(data) - len(decoder.unconsumed_tail)
    yield from _remaining_output(decoder)
    if not decoder.eof:
        raise Undecodable("truncated deflate")


def _remaining_output(decoder: "zlib._Decompress") -> Generator[bytes]:
    """Yield the output that remains in a decoder after all input."""
    while not decoder.eof and (piece := decoder.decompress(b"", _OUTPUT)):
        yield piece


def _unbrotli(body: bytes, limit: int) -> Generator[bytes]:
    """Decode one brotli stream (RFC 7932) and yield its content. The decoder refuses data after the stream."""
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
    """Decode consecutive zstd frames (RFC 8878, section 3) and yield their content.

    Data after the last frame is dropped. If `strict` is True, such data raises Undecodable. The decoder does not limit
    its output. Each piece of input is therefore so small that its output cannot exceed the limit by much.
    """
    decoder, offset, remaining = decompressor.decompressobj(), 0, limit
    while offset < len(body):
        if decoder.eof:
            if not _is_zstd_frame(body[offset : offset + 4]):
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
