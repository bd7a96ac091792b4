"""A single byte range, for resumed downloads: Range and If-Range (RFC 9110, sections 14 and 13.1.5).

A request for several ranges gets the whole content: "A server MAY ignore the Range header field" (section 14.2).
"""

import math
import re

from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import EntityTag, parse_tag, strong_match
from feedproxy.http.message import Fields

_RANGE = re.compile(r"bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*", re.IGNORECASE)
_BEYOND = 10**18
"""A position beyond any content, in bytes. It replaces numbers that are too long for Python to parse."""


class Unsatisfiable(Struct, frozen=True):
    """The decision to respond with 416 and `Content-Range: bytes */length`."""

    length: int

    @property
    def content_range(self) -> str:
        return f"bytes */{self.length}"


def if_range_holds(
    fields: Fields, tag: EntityTag | None, last_modified: Instant | None, date: Instant | None = None
) -> bool:
    """Return True if the request has no If-Range, or if its condition holds (RFC 9110, section 13.1.5).

    `tag` is the tag of the bytes that would be sent. A date in If-Range must equal Last-Modified, which must be at
    least one second before the response's `date` (section 8.8.2.2).
    """
    condition = fields.combined("if-range")
    if condition is None:
        return True
    if '"' in condition[:3]:
        condition_tag = parse_tag(condition)
        return condition_tag is not None and tag is not None and strong_match(condition_tag, tag)
    limit = parse_http_date(condition)
    if limit is None or last_modified is None or (date is not None and date - last_modified < 1):
        return False
    return limit == math.floor(last_modified)


def select(value: str | None, length: int) -> tuple[int, int] | Unsatisfiable | None:
    """Return the positions of the first and last byte that a Range selects in a content of `length` bytes.

    `value` is the Range of a GET, or None if If-Range forbids the range (`if_range_holds`). Return None if Range is
    absent or ignored: the response is then 200 with the whole content. Return Unsatisfiable if no selected byte exists.
    """
    if value is None:
        return None
    match = _RANGE.fullmatch(value.strip(" \t").rstrip(", \t"))
    if match is None:
        return None  # several ranges, another unit, or an invalid range
    first, last = (_number(digits) for digits in match.groups())
    if first is None:
        if last is None:
            return None
        if last == 0:
            return Unsatisfiable(length)
        # A suffix is satisfiable even for an empty content (section 14.1.2), but Content-Range could not express it.
        return (max(0, length - last), length - 1) if length else None
    if last is not None and last < first:
        return None
    if first >= length:
        return Unsatisfiable(length)
    return first, length - 1 if last is None else min(last, length - 1)


def _number(digits: str) -> int | None:
    if not digits:
        return None
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= 18 else _BEYOND
