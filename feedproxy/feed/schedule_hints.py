"""Expiry of a stored copy by the feed's own hints (docs/explanation/freshness.md).

`ttl`, the syndication module and CDF's interval each give an expiry, counted from the instant at which the copy's age
was 0. The latest counts. If it lies in skipped hours (in GMT), the expiry is the end of these hours.
"""

import math
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from msgspec import Struct

from feedproxy.clock import Instant, Seconds
from feedproxy.durations_and_sizes import count_noun
from feedproxy.feed.channel import NO_HINTS, Period, Schedule

_HOUR = 3600.0
_WEEK_HOURS = 7 * 24
STEP_MIN: Seconds = 60
"""Minimum time between two updates in the syndication module's schedule, in seconds: a minute, the unit of `ttl`. A
mistaken sy:updateFrequency, such as 86400 an hour, would otherwise give a lifetime of almost 0."""
_EPOCH_DAY = 3  # 1970-01-01 was a Thursday, and 0 is Monday


class HintExpiry(Struct, frozen=True):
    """The instant at which a copy expires according to the hints, and the hint that determines it."""

    until: Instant
    detail: str
    """Token of the hint: `ttl-hint`, `sy-hint`, `cdf-hint`, `finished`, `skip-hours` or `skip-days`."""
    reason: str


def hint_expiry(
    schedule: Schedule,
    *,
    base: Instant,
    expires: Instant | None,
    now: Instant,
    hint_max: Seconds,
    skip_max: Seconds,
) -> HintExpiry | None:
    """Return the expiry by the hints, or None if the hints do not extend HTTP's freshness lifetime.

    `base` is the instant at which the copy's age was 0. `expires` is the end of HTTP's freshness lifetime, or None if
    there is none. An expiry by ttl, the syndication module or CDF is at most `hint_max` seconds after `base`. Skipped
    hours count for at most `skip_max` seconds from their beginning. If the result is in the past, the copy is
    stale.
    """
    if schedule == NO_HINTS:
        return None
    longest = max(_lifetime_expiries(schedule, base, hint_max), key=lambda expiry: expiry.until, default=None)
    if longest and expires is not None and longest.until <= expires:
        longest = None
    end = longest.until if longest else base if expires is None else expires
    quiet = _skip_expiry(schedule, end, skip_max)
    if max(end, quiet.until if quiet else end) < now:
        quiet = _skip_expiry(schedule, now, skip_max) or quiet
    if longest is None and quiet and quiet.until <= now:
        return None  # skipped hours that are over do not extend the lifetime
    return quiet or longest


def is_skipped(schedule: Schedule, instant: Instant) -> bool:
    """Return True if the publisher asks clients not to poll at this instant."""
    return _week(schedule.skip_hours, schedule.skip_days)[_week_hour(instant)]


def next_unskipped(schedule: Schedule, instant: Instant) -> Instant:
    """Return the first instant, at or after `instant`, at which the schedule permits a fetch."""
    if not schedule.skip_hours and not schedule.skip_days:
        return instant  # planning one refresh calls this function some 50 times
    for _ in range(_WEEK_HOURS):
        if not is_skipped(schedule, instant):
            break
        instant = (math.floor(instant / _HOUR) + 1) * _HOUR
    return instant


def next_update(schedule: Schedule, after: Instant) -> Instant | None:
    """Return the first update later than `after` in the syndication module's schedule, or None if there is none.

    If sy:updateBase is missing, the schedule starts at `after`. Months and years are those of the calendar, divided
    into sy:updateFrequency equal parts, each of STEP_MIN or longer.
    """
    if schedule.period is None:
        return None
    start = after if schedule.base is None else schedule.base
    length = schedule.period.seconds
    if schedule.period in (Period.MONTHLY, Period.YEARLY):
        months = 12 if schedule.period is Period.YEARLY else 1
        start, end = _calendar_period(start, after, months)
        length = end - start
    step = max(STEP_MIN, length / schedule.frequency)
    update = start + (math.floor((after - start) / step) + 1) * step
    return update if update > after else after + step


def _lifetime_expiries(schedule: Schedule, base: Instant, hint_max: Seconds) -> list[HintExpiry]:
    ends = []
    latest = base + hint_max
    if schedule.finished:
        ends.append(HintExpiry(latest, "finished", "the feed states that it is finished"))
    if schedule.ttl is not None:
        reason = f"ttl of {count_noun(schedule.ttl, 'minute')}"
        ends.append(HintExpiry(min(base + 60.0 * schedule.ttl, latest), "ttl-hint", reason))
    if (update := next_update(schedule, base)) is not None:
        noun = (schedule.period or Period.DAILY).noun
        reason = f"sy: {count_noun(schedule.frequency, 'update')} per {noun}"
        ends.append(HintExpiry(min(update, latest), "sy-hint", reason))
    if schedule.interval is not None:
        reason = f"CDF schedule of {count_noun(round(schedule.interval / 60), 'minute')}"
        ends.append(HintExpiry(min(base + schedule.interval, latest), "cdf-hint", reason))
    return ends


def _skip_expiry(schedule: Schedule, instant: Instant, skip_max: Seconds) -> HintExpiry | None:
    if not schedule.skip_hours and not schedule.skip_days:
        return None
    week = _week(schedule.skip_hours, schedule.skip_days)
    current = _week_hour(instant)
    if not week[current]:
        return None
    hours_before = next(hours for hours in range(_WEEK_HOURS) if not week[current - hours - 1])
    hours_after = next(hours for hours in range(1, _WEEK_HOURS) if not week[(current + hours) % _WEEK_HOURS])
    hour = math.floor(instant / _HOUR)
    end = (hour + hours_after) * _HOUR
    until = min(end, (hour - hours_before) * _HOUR + skip_max)
    if until <= instant:
        return None
    # The hint that skips the last hour is named; skipDays precedes skipHours.
    day, _ = divmod(_week_hour(until - 1), 24)
    kind = "skip-days" if day in schedule.skip_days else "skip-hours"
    reason = "skipDays" if kind == "skip-days" else "skipHours"
    moment = datetime.fromtimestamp(until, UTC)
    capped = ", the end of skip_max" if until < end else ""
    return HintExpiry(until, kind, f"{reason}: no polls until {moment:%a %H:%M} GMT{capped}")


@lru_cache(maxsize=1024)
def _week(skip_hours: frozenset[int], skip_days: frozenset[int]) -> tuple[bool, ...]:
    """Return a boolean for each hour of the week, from Monday 00:00 GMT: True if the hour is skipped.

    A schedule that skips all hours counts as one that skips none.
    """
    week = tuple(day in skip_days or hour in skip_hours for day in range(7) for hour in range(24))
    return (False,) * _WEEK_HOURS if all(week) else week


def _week_hour(instant: Instant) -> int:
    return (math.floor(instant / _HOUR) + 24 * _EPOCH_DAY) % _WEEK_HOURS


def _calendar_period(anchor: Instant, instant: Instant, months: int) -> tuple[Instant, Instant]:
    start, moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at) for at in (anchor, instant))
    periods = ((moment.year - start.year) * 12 + moment.month - start.month) // months
    if _months_later(start, periods * months) > moment:
        periods -= 1
    first = _months_later(start, periods * months)
    return first.timestamp(), _months_later(start, (periods + 1) * months).timestamp()


def _months_later(start: datetime, months: int) -> datetime:
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    return start.replace(year=year, month=month + 1, day=min(start.day, monthrange(year, month + 1)[1]))
