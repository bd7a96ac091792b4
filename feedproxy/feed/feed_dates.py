"""Parsing of dates in feeds, which is lenient, and formatting of dates for each format.

Dates have the form of RFC 822 in RSS, of RFC 3339 in Atom, and of the W3C's profile of ISO 8601 in Dublin Core. Each
form occurs in the other formats, too. An invalid date counts as absent: a guess would put an item into the wrong year.
"""

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from feedproxy.http.date import MONTHS, format_http_date, format_rfc3339

_ISO = re.compile(
    r"(\d{4})-?(\d\d)(?:-?(\d\d)"
    r"(?:[T ]\s*(\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,]\d+)?)?)?\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?)?)?",
    re.IGNORECASE,
)
_YEAR = re.compile(r"\d{4}")
_USUAL = re.compile(
    r"(?:[A-Z][a-z]{2}, )?(\d{1,2}) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) (?:GMT|UTC?|Z|([+-]\d\d)(\d\d))"
)
_MONTH_NUMBERS = {name: number for number, name in enumerate(MONTHS, 1)}
_ZONES = {"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500", "MST": "-0700", "MDT": "-0600"}
_EARLIEST, _LATEST = -2_208_988_800, 7_258_118_400
"""Range of valid dates in Unix seconds: 1900 to 2200. Dates outside it are placeholders."""


def parse(text: str) -> int | None:
    """Return the instant of a feed's date in whole Unix seconds. Return None if the date is invalid.

    A date without a zone is in GMT, and a date without a day is the first of the month or year.
    """
    text = " ".join(text.split())
    if not text or len(text) > 80:
        return None
    moment = _iso(text) or _rfc822(text)
    if moment is None:
        return None
    instant = math.floor(moment.timestamp())
    return instant if _EARLIEST <= instant <= _LATEST else None


def _iso(text: str) -> datetime | None:
    match = _ISO.fullmatch(text)
    if match is None:
        if _YEAR.fullmatch(text) and "1900" <= text <= "2199":
            return datetime(int(text), 1, 1, tzinfo=UTC)
        return None
    year, month, day, hour, minute, second = (int(match[at] or 0) for at in range(1, 7))
    zone = (match[7] or "Z").upper()
    offset = "+00:00" if zone in ("Z", "UTC", "GMT") else zone
    try:
        # Python does not accept a leap second: it becomes the last second of its minute.
        normalised = f"{year:04}-{month:02}-{day or 1:02}T{hour % 24:02}:{minute:02}:{min(second, 59):02}{offset}"
        return datetime.fromisoformat(normalised)
    except ValueError:
        return None


def _usual(text: str) -> datetime | None:
    """Parse a date of RFC 822 in its usual form. Return None for other forms. This takes a fifth of the lenient
    parser's time.
    """
    match = _USUAL.fullmatch(text)
    if match is None or match[2] not in _MONTH_NUMBERS:
        return None
    day, year, hour, minute, second = int(match[1]), int(match[3]), int(match[4]), int(match[5]), int(match[6])
    zone = UTC
    if match[7] and (match[7], match[8]) != ("+00", "00"):
        sign = -1 if match[7][0] == "-" else 1
        zone = timezone(sign * timedelta(hours=int(match[7][1:]), minutes=int(match[8])))
    return datetime(year, _MONTH_NUMBERS[match[2]], day, hour, minute, second, tzinfo=zone)


def _rfc822(text: str) -> datetime | None:
    try:
        if (usual := _usual(text)) is not None:
            return usual
    except ValueError:
        pass  # not a calendar date, or a leap second
    first, _, zone = text.rpartition(" ")
    if zone.upper() in _ZONES:
        text = f"{first} {_ZONES[zone.upper()]}"
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def rfc822(instant: int) -> str:
    """Return the date in the form of RSS: `Sat, 21 Nov 2026 08:00:00 GMT`."""
    return format_http_date(instant)


def rfc3339(instant: int) -> str:
    """Return the date in the form of Atom, JSON Feed and Dublin Core: `2026-11-21T08:00:00Z`."""
    return format_rfc3339(instant)
