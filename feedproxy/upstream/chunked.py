"""Strict parser for the chunked transfer coding.  RFC 9112, section 7.1

Chunk extensions and trailers are skipped.
"""

import re

from feedproxy.http.field_lines import is_field_line
from feedproxy.upstream.upstream_errors import MalformedResponse

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t -~\x80-\xff]*)?\r?\n")
"""Pattern of the first line of a chunk. The line may end with a bare line feed (RFC 9112, section 2.2)."""

_LINE_MAX = 8192
"""The first line of a chunk may have at most this many bytes."""


class ChunkedParser:
    """An incremental parser. Raises MalformedResponse for invalid chunks."""

    def __init__(self, trailers_max: int, *, of_request: bool = False) -> None:
        """Create a parser. `trailers_max` limits the trailers, in bytes. If `of_request` is true, bare line feeds and
        malformed trailers are invalid."""
        self._buffered = b""
        self._strict = of_request
        self._chunk_remaining = 0
        self._begun = self._in_trailers = False
        self._trailers_left = trailers_max
        self.done = False
        self.rest = b""
        """The bytes that follow the end of the message, and do not belong to it."""

    def feed(self, data: bytes) -> list[bytes]:
        """Parse further bytes, and return the pieces of content in them. Raises MalformedResponse if the bytes break
        the chunked coding."""
        data, self._buffered = (self._buffered + data if self._buffered else data), b""
        pieces: list[bytes] = []
        at = 0
        while at < len(data) and not self.done:
            if self._chunk_remaining:
                piece = data[at : at + self._chunk_remaining]
                pieces.append(piece)
                at += len(piece)
                self._chunk_remaining -= len(piece)
                continue
            line_length = self._trailer(data, at) if self._in_trailers else self._line(data, at)
            if not line_length:
                self._buffered = data[at:]
                return pieces
            at += line_length
        self.rest = data[at:]
        return pieces

    def _line(self, data: bytes, at: int) -> int:
        """Return the number of bytes up to the end of the line with the next chunk's size, or 0 if the line is
        incomplete. The number includes the line end after the previous chunk's data. Raises MalformedResponse for
        invalid bytes."""
        start = at
        if self._begun:
            if data.startswith(b"\r", at):
                at += 1
            elif self._strict:
                raise MalformedResponse("invalid chunk: expected CRLF after its data")
            if at == len(data):
                return 0
            if not data.startswith(b"\n", at):
                raise MalformedResponse(f"invalid chunk: {data[at : at + 20]!r} follows its data, expected a line end")
            at += 1
        end = data.find(b"\n", at, at + _LINE_MAX) + 1
        if not end:
            if len(data) - at >= _LINE_MAX or not re.match(rb"[0-9A-Fa-f]|\Z", data[at : at + 16]):
                raise MalformedResponse(
                    f"invalid chunk size {data[at : at + 20]!r}: expected hexadecimal digits and a line end"
                )
            return 0
        match = _SIZE.fullmatch(data, at, end)
        if match is None or (self._strict and not data.endswith(b"\r\n", at, end)):
            raise MalformedResponse(f"invalid chunk size {data[at : at + 20]!r}: expected hexadecimal digits")
        self._begun, self._chunk_remaining = True, int(match[1], 16)
        self._in_trailers = not self._chunk_remaining
        return end - start

    def _trailer(self, data: bytes, at: int) -> int:
        """Return the length of the next trailer line, or of the empty line at the end, in bytes. Return 0 if the line
        is incomplete."""
        end = data.find(b"\n", at) + 1
        length = (end or len(data)) - at
        if length > self._trailers_left:
            raise MalformedResponse("trailers are too long")
        if not end:
            return 0
        self._trailers_left -= length
        line = data[at:end].removesuffix(b"\n").removesuffix(b"\r")
        if self._strict and (not data.endswith(b"\r\n", at, end) or (line and not is_field_line(line))):
            raise MalformedResponse("invalid trailer: expected a field line")
        self.done = not line
        return length
