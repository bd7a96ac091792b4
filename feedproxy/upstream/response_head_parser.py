"""Strict parser for the head of a response: status line and field lines.  RFC 9112, sections 2 to 5

A parsed head is unambiguous: it has no folded line and only one framing.
"""

import re
from functools import lru_cache

from msgspec import Struct

from feedproxy.http.field_lines import Line, parse_field_lines, replace_controls
from feedproxy.http.message import SHARED_LENGTH_MAX
from feedproxy.upstream.message_framing import find_framing_error, frame_message, is_persistent, members
from feedproxy.upstream.upstream_errors import MalformedResponse

# "A recipient MAY recognize a single LF as a line terminator" -- RFC 9112, section 2.2; old scripts send it.
_HEAD = re.compile(rb"(?:[^\n]*+\n(?!\r?\n))*+[^\n]*+\n\r?\n")
"""Pattern of all lines up to the first empty line. A search for two line ends would take three times as long."""
_LINE_END = re.compile(rb"\r?\n")
_STATUS = re.compile(rb"HTTP/1\.([0-9]) +([1-5][0-9]{2})(?: (.*))?", re.DOTALL)
_PLAIN = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]++):([\t -~\x80-\xff]*+)")
"""Pattern of a field line that is valid and unfolded, with groups for its name and value."""

LINES_MAX = 512
"""At most this many field lines are cached. Most lines of an origin's responses are the same in all its responses, and
responses with equal lines share one object."""
STATUS_LINES_MAX = 64
"""At most this many status lines are cached."""

_NO_CONTENT = frozenset({204, 304})


class ResponseHead(Struct, frozen=True):
    """The checked head of a response. Lines have their original order and case."""

    minor: int
    status: int
    reason: bytes
    lines: tuple[Line, ...]
    reusable: bool
    """True if the connection may be used again: the framing was unambiguous, and the origin keeps the connection
    open."""
    chunked: bool = False
    length: int | None = None
    """Length of the content in bytes, or None if the content is chunked or ends with the connection."""
    framing_anomaly: str = ""
    """The tolerated error in the framing, or "" if there is none."""

    @property
    def is_interim(self) -> bool:
        """Return True for an interim response (1xx, RFC 9110, section 15.2)."""
        return self.status < 200

    def has_content(self, method: str) -> bool:
        """Return True if the response to `method` may have content (RFC 9112, section 6.3, rule 1)."""
        return method != "HEAD" and self.status >= 200 and self.status not in _NO_CONTENT

    def fields(self) -> list[tuple[str, str]]:
        """Return the lines as str, decoded as Latin-1."""
        return [
            (_decode if len(line[0]) + len(line[1]) <= SHARED_LENGTH_MAX else _decode.__wrapped__)(line)
            for line in self.lines
        ]


@lru_cache(LINES_MAX)
def _decode(line: Line) -> tuple[str, str]:
    name, value = line
    return name.decode("latin-1"), value.decode("latin-1")


@lru_cache(LINES_MAX)
def _plain_line(line: bytes) -> Line | None:
    """Return the name and the value of a line that is valid and unfolded, or None for any other line."""
    match = _PLAIN.fullmatch(line)
    return None if match is None else (match[1], match[2].strip(b" \t"))


@lru_cache(STATUS_LINES_MAX)
def _parse_status_line(line: bytes) -> tuple[int, int, bytes]:
    """Return the minor version, the status and the reason phrase of a status line. Raises MalformedResponse for another
    line."""
    match = _STATUS.fullmatch(line.removesuffix(b"\n").removesuffix(b"\r").rstrip(b" \t"))
    if match is None:
        raise MalformedResponse(f"invalid status line {line[:12]!r}: expected HTTP/1")
    # A higher minor version is treated as the highest known minor version (RFC 9110, section 2.5).
    return min(1, int(match[1])), int(match[2]), replace_controls(match[3] or b"", MalformedResponse)


def find_end(data: bytes | bytearray) -> int:
    """Return the length of the head in `data` with its empty line, or 0 if the head is incomplete."""
    match = _HEAD.match(data)
    return match.end() if match else 0


def could_be_http(data: bytes | bytearray) -> bool:
    """Return True if `data` can be the beginning of a status line. HTTP/0.9 responses have no status line."""
    return b"HTTP/1."[: len(data)] == bytes(data[:7])


def _plain_lines(data: bytes) -> tuple[Line, ...] | None:
    """Return the field lines at the end of a head, or None if not all of them are valid and unfolded."""
    if not data.endswith(b"\r\n\r\n"):
        return None
    lines: list[Line] = []
    for line in data[:-4].split(b"\r\n"):
        plain = _plain_line(line) if len(line) <= SHARED_LENGTH_MAX else _plain_line.__wrapped__(line)
        if plain is None:
            return None
        lines.append(plain)
    return tuple(lines)


def parse_head(data: bytes) -> ResponseHead:
    """Parse one head and return it. Raises MalformedResponse for errors that RFC 9112 does not permit a proxy to
    correct."""
    end = data.find(b"\n") + 1
    parse_status = _parse_status_line if end <= SHARED_LENGTH_MAX else _parse_status_line.__wrapped__
    minor, status, reason = parse_status(data[:end])
    lines = _plain_lines(data[end:])
    if lines is None:
        rest = data[end:].rstrip(b"\r\n")
        lines = tuple(parse_field_lines(_LINE_END.split(rest) if rest else [], MalformedResponse, of_response=True))
    names = {name.lower() for name, _ in lines}
    framing_anomaly, reusable, chunked, length = "", True, False, None
    if b"transfer-encoding" in names or b"content-length" in names:
        codings, lengths = members(lines, b"transfer-encoding"), members(lines, b"content-length")
        framing_anomaly = find_framing_error(codings, lengths)
        lines, reusable, chunked, length = frame_message(lines, minor, codings, lengths)
    if minor == 0 or b"connection" in names:
        reusable = reusable and is_persistent(lines, minor)
    if status in _NO_CONTENT and (chunked or length):
        # An origin that announces content may send it later, in place of the next response.
        reusable = False
    return ResponseHead(
        minor,
        status,
        reason,
        lines,
        reusable,
        chunked,
        length,
        framing_anomaly,
    )
