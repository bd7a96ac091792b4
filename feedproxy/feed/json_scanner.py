"""Scanner of JSON objects and lists, for the offsets of their members.

The standard library's decoder does not report where inner values begin and end. This module scans the outer object or
list. The callers decode the values. All functions raise ValueError for invalid JSON.
"""

import json
import re
from collections.abc import Callable


def parse_integer(text: str) -> int | None:
    """Return a decimal integer, or None if it has more digits than Python converts (4,300)."""
    try:
        return int(text)
    except ValueError:
        return None


DECODER = json.JSONDecoder(parse_int=parse_integer)

_SPACE = re.compile(r"[ \t\n\r]*")


def scan_object(text: str, read: Callable[[str, int], int]) -> None:
    """Call `read` for each member of the object at the beginning of `text`. `read` gets the member's name and the
    offset of its value, and returns the offset of the value's end."""

    def member(at: int) -> int:
        name, at = DECODER.raw_decode(text, at)
        return read(name, skip_space(text, expect(text, at, ":")))

    _scan(text, 0, "{}", member)


def scan_list(text: str, at: int, read: Callable[[int], int]) -> int:
    """Call `read` for each value of the list that begins at `at`. Return the offset of the list's end. `read` gets the
    offset of the value, and returns the offset of the value's end."""
    return _scan(text, at, "[]", read)


def expect(text: str, at: int, sign: str) -> int:
    """Skip white space at `at`, and return the offset after `sign`. Raises ValueError if `sign` is not there."""
    at = skip_space(text, at)
    if not text.startswith(sign, at):
        raise ValueError(f"invalid JSON at character {at}: expected {sign}")
    return at + 1


def skip_space(text: str, at: int) -> int:
    """Return the offset after the white space at `at`, or `at` if there is none."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _scan(text: str, at: int, brackets: str, read: Callable[[int], int]) -> int:
    opening, closing = brackets[0], brackets[1]
    at = skip_space(text, expect(text, at, opening))
    if text.startswith(closing, at):
        return at + 1
    while True:
        at = skip_space(text, read(at))
        if text.startswith(closing, at):
            return at + 1
        at = skip_space(text, expect(text, at, ","))
