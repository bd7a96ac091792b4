"""Parsers of virtual time on the command line: instants, durations, and schedules of faults."""

import math
import re
from datetime import UTC, datetime
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.clock import Instant, Seconds
from feedproxy.errors import UsageError

LAST: Instant = datetime(9000, 1, 1, tzinfo=UTC).timestamp()
"""Latest virtual instant. The margin is for Expires: HTTP dates end with the year 9999."""

_UNITS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1, "": 1}
_LENGTH = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?[wdhms])+|[0-9]+(?:\.[0-9]+)?")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)([wdhms]?)")
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)%")
_NUMBERS = re.compile(r"#([0-9]+)(?:\.\.([0-9]*))?")


def parse_length(text: str) -> Seconds:
    """Return the seconds of a duration such as `90`, `90s`, `1h30m` or `2d`. Raises UsageError if the text is
    invalid."""
    if not _LENGTH.fullmatch(text):
        raise UsageError(f"invalid duration {text!r}: expected one such as 90s, 1h30m or 2d")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def parse_instant(text: str, first: Instant) -> Instant:
    """Return the instant that a text names: ISO 8601 (in UTC if the text has no zone), `@` and Unix seconds, or
    `+LENGTH` after `first`. Raises UsageError for any other text."""
    try:
        instant = _parse_time(text, first)
    except ValueError:
        instant = math.nan
    if not 0 <= instant <= LAST:
        raise UsageError(f"invalid time {text!r}: expected one such as 2026-11-21T12:00:00Z, @1795262400 or +2d")
    return instant


def _parse_time(text: str, first: Instant) -> Instant:
    if text.startswith("+"):
        return first + parse_length(text[1:])
    if text.startswith("@"):
        return float(text[1:])
    parsed = datetime.fromisoformat(text)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


class FaultSchedule(Struct, frozen=True):
    """The period, the share of the requests, and the range of request numbers in which a fault is active. All three
    conditions must hold."""

    begin: Instant | None = None
    end: Instant | None = None
    share: float = 1.0
    numbers: tuple[int, int | None] = (1, None)

    def holds(self, now: Instant, number: int, random: Random) -> bool:
        """Return True if the fault is active for the request with this number at the instant `now`. `random` decides
        whether the request belongs to the share."""
        first, last = self.numbers
        return (
            (self.begin is None or self.begin <= now)
            and (self.end is None or now < self.end)
            and first <= number
            and (last is None or number <= last)
            and (self.share >= 1 or random.random() < self.share)
        )


def parse_when(text: str, start: Instant) -> FaultSchedule:
    """Return the schedule of a text such as `2h` (from then on), `2h..3h`, `2026-11-21T12:00Z..`, `10%` or `#3..5`.

    Commas join several conditions, and "" means always. Durations count from `start`. Raises UsageError if the text is
    invalid.
    """
    schedule = FaultSchedule()
    kinds: set[str] = set()
    for part in filter(None, text.split(",")):
        kind = "percentage" if "%" in part else "range of requests" if "#" in part else "period"
        if kind in kinds:
            raise UsageError(f"{text!r}: expected at most one {kind}")
        kinds.add(kind)
        if match := _SHARE.fullmatch(part):
            schedule = replace(schedule, share=_parse_share(part, match))
        elif match := _NUMBERS.fullmatch(part):
            schedule = replace(schedule, numbers=_parse_numbers(part, match))
        else:
            opening, _, closing = part.partition("..")
            begin = _instant(opening, start) if opening else None
            end = _instant(closing, start) if closing else None
            if begin is not None and end is not None and end <= begin:
                raise UsageError(f"{text!r} ends before it begins")
            schedule = replace(schedule, begin=begin, end=end)
    return schedule


def _parse_share(part: str, match: re.Match[str]) -> float:
    share = float(match[1]) / 100
    if not 0 < share <= 1:
        raise UsageError(f"{part!r}: expected a percentage above 0 and up to 100")
    return share


def _parse_numbers(part: str, match: re.Match[str]) -> tuple[int, int | None]:
    """Return the first and the last number of a range such as `#3..5`. The last is None for a range without end, such
    as `#3..`."""
    first = int(match[1])
    last = first if match[2] is None else int(match[2]) if match[2] else None
    if not first or (last is not None and last < first):
        raise UsageError(f"{part!r}: expected numbers of requests such as #3, #3..5 or #2.., counted from 1")
    return first, last


def _instant(text: str, start: Instant) -> Instant:
    return start + parse_length(text) if _LENGTH.fullmatch(text) else parse_instant(text, start)
