"""Parsing and formatting of HTTP-date.  RFC 9110, section 5.6.7

A date in another form, or in another zone than GMT, is invalid (RFC 9111, section 4.2). Names are case-insensitive. The
name of the day is ignored, because servers often get it wrong.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from feedproxy.clock import Instant
from feedproxy.http.memoize import memoize_short

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_NUMBER = {name.lower(): number for number, name in enumerate(MONTHS, 1)}

_DAY = "(?:mon|tue|wed|thu|fri|sat|sun)"
_LONG_DAY = "(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
_MONTH = "(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_TIME = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT",  # IMF-fixdate
        rf"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT",  # rfc850-date
        rf"{_DAY} {_MONTH} (?P<day>[0-9]{{2}}| [0-9]) {_TIME} (?P<year>[0-9]{{4}})",  # asctime-date
    )
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ERA = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
"""Value of `now` if the caller of `parse_http_date` gives none."""


def parse_http_date(value: str, now: Instant | None = None) -> Instant | None:
    """Return the instant of an HTTP-date, or None if the date is invalid.

    `now` decides the century of an rfc850-date. A leap second (`:60`) counts as the first second of the next minute.
    """
    parsed = _parse(value)
    if parsed is None or isinstance(parsed, float):
        return parsed
    # "MUST interpret a timestamp that appears to be more than 50 years in the future as representing the
    # most recent year in the past that had the same last two digits" -- RFC 9110, section 5.6.7
    year, month, day, hour, minute, second = parsed
    reference = _EPOCH + timedelta(seconds=_ERA if now is None else now)
    for candidate in range(reference.year - reference.year % 100 + 100 + year, 0, -100):
        instant = _instant(candidate, month, day, hour, minute, second)
        if instant is not None and instant <= _years_later(reference, 50):
            return instant
    return None


@memoize_short()
def _parse(value: str) -> Instant | tuple[int, int, int, int, int, int] | None:
    """Return the instant of a date, or None if the date is invalid.

    For a year of two digits, return the six numbers of date and time. The caller chooses the century.
    """
    value = value.strip(" \t")
    for form in _FORMS:
        if match := form.fullmatch(value):
            month = _MONTH_NUMBER[match["month"].lower()]
            year, day, hour, minute, second = (int(match[part]) for part in ("year", "day", "hour", "minute", "second"))
            if len(match["year"]) == 2:
                return year, month, day, hour, minute, second
            return _instant(year, month, day, hour, minute, second)
    return None


def _instant(year: int, month: int, day: int, *time: int) -> Instant | None:
    hour, minute, second = time
    if second > 60:
        return None
    try:
        minutes = datetime(year, month, day, hour, minute, tzinfo=UTC) - _EPOCH
    except ValueError:
        return None
    return minutes.total_seconds() + second


def _years_later(moment: datetime, years: int) -> Instant:
    """Return the instant `years` after `moment`, on 1 March if the later year has no 29 February."""
    try:
        later = moment.replace(year=moment.year + years)
    except ValueError:
        later = moment.replace(year=moment.year + years, month=3, day=1)
    return later.timestamp()


_last: tuple[int, str] = (0, "Thu, 01 Jan 1970 00:00:00 GMT")


def format_http_date(instant: Instant) -> str:
    global _last  # noqa: PLW0603 -- one pair, replaced whole: most dates written are of this second
    second = math.floor(instant)
    cached_second, text = _last  # read once: another thread may replace it
    if second == cached_second:
        return text
    # strftime would write the names in the language of the process.
    text = format_datetime(_EPOCH + timedelta(seconds=second), usegmt=True)
    _last = (second, text)
    return text


def format_rfc3339(instant: Instant) -> str:
    """Return an instant in the form of RFC 3339, in whole seconds: `2026-01-31T12:00:00Z`."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
