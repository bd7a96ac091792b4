"""Until when a feed's own hints allow a copy of it to be kept: pure rules of time, in GMT.

RSS Feed State: `ttl` "is telling the RSS reader that the feed data is good for so many minutes and that it
only needs to refresh from source when the TTL is exceeded"; the syndication module is "similar to TTL", a
schedule of updates; skipHours and skipDays tell readers "when to avoid reading the RSS feed".

So the two sorts work differently. ttl, sy and CDF's interval give an end, counted from when the copy was got;
the latest of them holds. skipHours and skipDays give no end of their own: when whatever end there is (or the
present moment, once it has passed) falls into a skipped stretch, it moves to where the stretch ends. Both are
capped: a hint is a wish, and a wish for months is a mistake.
"""

import math
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.channel import Period, Schedule

_HOUR = 3600.0
_DAY = 24 * _HOUR
_WEEK_HOURS = 7 * 24
_EPOCH_DAY = 3  # 1970-01-01 was a Thursday, and 0 is Monday
_RECENT_GAPS = 12
"""Times between changes that count as the last ones: of a feed that has become livelier, what is new outweighs what
was before after six of them."""
_PERIOD_NOUNS = {
    Period.HOURLY: "hour",
    Period.DAILY: "day",
    Period.WEEKLY: "week",
    Period.MONTHLY: "month",
    Period.YEARLY: "year",
}

_PERIOD_LENGTHS = {Period.HOURLY: _HOUR, Period.DAILY: _DAY, Period.WEEKLY: 7 * _DAY}


@dataclass(frozen=True, slots=True)
class HintExpiry:
    """How long the hints allow the copy to be kept, and which of them."""

    until: Instant
    detail: str
    """`ttl-hint`, `sy-hint`, `cdf-hint`, `skip-hours` or `skip-days`."""
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
    """What the hints allow beyond HTTP; None when that is nothing.

    `base` is the moment from which the copy's age counts, `expires` the end of HTTP's own lifetime, None
    where HTTP is silent. A hint reaches at most `hint_max` beyond `base`, a skipped stretch counts for at
    most `skip_max` from its beginning. What is returned may have passed: then the copy's time is over.
    """
    longest = max(_lifetime_expiries(schedule, base, hint_max), key=lambda found: found.until, default=None)
    if longest and expires is not None and longest.until <= expires:
        longest = None
    end = longest.until if longest else base if expires is None else expires
    quiet = _skip_expiry(schedule, end, skip_max)
    if max(end, quiet.until if quiet else end) < now:
        quiet = _skip_expiry(schedule, now, skip_max) or quiet
    if longest is None and quiet and quiet.until <= now:
        return None  # a stretch that is over held the copy and gave it no lifetime
    return quiet or longest


def is_skipped(schedule: Schedule, instant: Instant) -> bool:
    """Whether the publisher asks not to be read at this moment."""
    return _week(schedule.skip_hours, schedule.skip_days)[_week_hour(instant)]


def next_unskipped(schedule: Schedule, instant: Instant) -> Instant:
    """The first moment from `instant` on at which the publisher may be asked."""
    for _ in range(_WEEK_HOURS):
        if not is_skipped(schedule, instant):
            break
        instant = (math.floor(instant / _HOUR) + 1) * _HOUR
    return instant


def skipped_until(schedule: Schedule, instant: Instant, skip_max: Seconds) -> Instant | None:
    """The end of the skipped stretch around `instant`; None outside, and beyond its first `skip_max`."""
    found = _skip_expiry(schedule, instant, skip_max)
    return found.until if found else None


def next_update(schedule: Schedule, after: Instant) -> Instant | None:
    """The next moment at which the syndication module's schedule has an update; None without such a schedule.

    Without sy:updateBase the schedule is counted from `after` itself. Months and years go by the calendar,
    cut into sy:updateFrequency equal parts.
    """
    if schedule.period is None:
        return None
    start = after if schedule.base is None else schedule.base
    length = _PERIOD_LENGTHS.get(schedule.period)
    if length is None:
        months = 12 if schedule.period is Period.YEARLY else 1
        start, end = _calendar_period(start, after, months)
        length = end - start
    step = length / schedule.frequency
    found = start + (math.floor((after - start) / step) + 1) * step
    return found if found > after else after + step


def learned_lifetime(
    changes: Sequence[Instant],
    now: Instant,
    *,
    hourly: Seconds,
    default: Seconds,
    minimum: Seconds,
    maximum: Seconds,
) -> Seconds | None:
    """A lifetime from when the feed's content has changed before; None where nothing can be learned.

    `hourly` for a feed that usually changes once an hour, and for others by the cube root of how seldom they do: so
    a given number of requests, shared out among many feeds, leaves readers the least behind. (A feed that changes
    every T and is asked every L is behind by L²/6T on average, and costs 1/L; of the feeds together the least comes
    where L³ goes by T.)

    "Usual" is the median of the last ones, since one holiday says little, or the time that the feed has been quiet
    now, where that is longer. That is all a single change teaches, and nothing while it comes to less than `default`.
    """
    times = sorted(set(changes))
    if not times:
        return None
    quiet = max(0.0, now - times[-1])
    gaps = sorted(later - earlier for earlier, later in pairwise(times[-_RECENT_GAPS - 1 :]))
    usual = gaps[len(gaps) // 2] if gaps else 0.0
    lifetime: Seconds = hourly * math.cbrt(max(usual, quiet) / _HOUR)
    if not gaps and lifetime <= default:
        return None
    return min(max(lifetime, minimum), maximum)


def _lifetime_expiries(schedule: Schedule, base: Instant, hint_max: Seconds) -> list[HintExpiry]:
    ends = []
    latest = base + hint_max
    if schedule.ttl is not None:
        reason = f"ttl of {_count_noun(schedule.ttl, 'minute')}"
        ends.append(HintExpiry(min(base + 60.0 * schedule.ttl, latest), "ttl-hint", reason))
    if (update := next_update(schedule, base)) is not None:
        noun = _PERIOD_NOUNS[schedule.period or Period.DAILY]
        reason = f"sy: {_count_noun(schedule.frequency, 'update')} per {noun}"
        ends.append(HintExpiry(min(update, latest), "sy-hint", reason))
    if schedule.interval is not None:
        reason = f"CDF schedule of {_count_noun(round(schedule.interval / 60), 'minute')}"
        ends.append(HintExpiry(min(base + schedule.interval, latest), "cdf-hint", reason))
    return ends


def _skip_expiry(schedule: Schedule, instant: Instant, skip_max: Seconds) -> HintExpiry | None:
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
    # What ends the stretch is what its last hour was skipped for; a whole day says more than an hour.
    day, _ = divmod(_week_hour(until - 1), 24)
    kind = "skip-days" if day in schedule.skip_days else "skip-hours"
    reason = "skipDays" if kind == "skip-days" else "skipHours"
    moment = datetime.fromtimestamp(until, UTC)
    capped = ", where our patience ends" if until < end else ""
    return HintExpiry(until, kind, f"{reason}: not to be read until {moment:%a %H:%M} GMT{capped}")


@lru_cache(maxsize=1024)
def _week(skip_hours: frozenset[int], skip_days: frozenset[int]) -> tuple[bool, ...]:
    """Every hour of the week from Monday 00:00 GMT: skipped or not. Of a week without a free one, none is."""
    week = tuple(day in skip_days or hour in skip_hours for day in range(7) for hour in range(24))
    return (False,) * _WEEK_HOURS if all(week) else week


def _week_hour(instant: Instant) -> int:
    return (math.floor(instant / _HOUR) + 24 * _EPOCH_DAY) % _WEEK_HOURS


def _calendar_period(anchor: Instant, instant: Instant, months: int) -> tuple[Instant, Instant]:
    """The period around `instant`, of so many calendar months, of a schedule that began at `anchor`."""
    start, moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at) for at in (anchor, instant))
    periods = ((moment.year - start.year) * 12 + moment.month - start.month) // months
    if _months_later(start, periods * months) > moment:
        periods -= 1
    first = _months_later(start, periods * months)
    return first.timestamp(), _months_later(start, (periods + 1) * months).timestamp()


def _months_later(start: datetime, months: int) -> datetime:
    """The same day of a later month; its last day where the month is shorter (31 January, 28 February)."""
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    return start.replace(year=year, month=month + 1, day=min(start.day, monthrange(year, month + 1)[1]))


def _count_noun(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
