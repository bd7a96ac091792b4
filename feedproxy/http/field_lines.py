"""The grammar of field lines: a name, a colon and a value, and the characters that they permit.

RFC 9110, section 5; RFC 9112, section 5; RFC 9113, section 8.2. In responses, harmless mistakes are corrected.
"""

import re
from collections.abc import Callable, Iterable

from feedproxy.errors import FeedproxyError
from feedproxy.http import field_values

type Line = tuple[bytes, bytes]
"""The name and the value of a field, as bytes."""

TOKEN = re.compile(field_values.TOKEN.pattern.encode("ascii"))
VALUE = re.compile(rb"[\t -~\x80-\xff]*")
"""Pattern of a field value: visible ASCII, space, tab, and obs-text (RFC 9110, section 5.5)."""
_VALUE_TEXT = re.compile("[\t -~\x80-\xff]*")
_CONTROLS = bytes.maketrans(bytes([*range(1, 9), *range(11, 32), 127]), b" " * 30)


def parse_field_lines(
    lines: Iterable[bytes], error: Callable[[str], FeedproxyError], *, of_response: bool = False
) -> list[Line]:
    """Return the names and values of field lines.

    An invalid line raises `error`: BadRequest for a request, MalformedResponse for a response. The message does not
    repeat the line, because messages are logged, and the line can contain a password or a cookie. If `of_response` is
    True, white space before the colon is removed, and control characters except NUL and bare CR become spaces.
    """
    parsed: list[Line] = []
    for number, line in enumerate(lines, 1):
        if line[:1] in {b" ", b"\t"}:
            # "replace each received obs-fold with one or more SP octets" -- RFC 9112, section 5.2
            if not parsed:
                raise error("white space before the first field line")
            name, value = parsed[-1]
            parsed[-1] = name, (value + b" " + _value(line, of_response, error)).strip(b" ")
            continue
        name, colon, value = line.partition(b":")
        if of_response:
            # "A proxy MUST remove any such whitespace from a response message" (before the colon) -- section 5.1
            name = name.rstrip(b" \t")
        if not colon or not TOKEN.fullmatch(name):
            raise error(f"invalid field line {number}: expected a name, a colon and a value")
        parsed.append((name, _value(value, of_response, error)))
    return parsed


def _value(value: bytes, of_response: bool, error: Callable[[str], FeedproxyError]) -> bytes:
    if of_response:
        return replace_controls(value, error)
    if not VALUE.fullmatch(value):
        raise error("invalid field value: control characters")
    return value.strip(b" \t")


def replace_controls(value: bytes, error: Callable[[str], FeedproxyError]) -> bytes:
    """Return a response's field value or reason phrase with spaces in place of control characters.

    NUL, CR and LF raise `error`.
    """
    # "CR, LF, or NUL ... either reject the message or replace" -- RFC 9110, section 5.5. A NUL or a bare
    # CR suggests an attack, and is rejected. Other control characters are replaced.
    if b"\0" in value or b"\r" in value or b"\n" in value:
        raise error("invalid field value: NUL or bare CR")
    return value.translate(_CONTROLS).strip(b" \t")


def is_field_line(line: bytes) -> bool:
    """Return True if the bytes are a valid field line, without a line end."""
    name, colon, value = line.partition(b":")
    return bool(colon) and TOKEN.fullmatch(name) is not None and VALUE.fullmatch(value) is not None


def is_field(name: str, value: str) -> bool:
    """Return True if name and value are valid for a field. Each character stands for one byte."""
    return field_values.is_token(name) and _VALUE_TEXT.fullmatch(value) is not None
