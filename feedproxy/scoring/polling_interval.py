"""Rules on the time of polls.  RFC 9111, section 4.2; RSS 2.0; the syndication module.

The latest answer determines the interval, up to a day: a reader that polls once a day is never too early.
"""

import math

from feedproxy.clock import Seconds
from feedproxy.feed.schedule import is_skipped, next_update
from feedproxy.findings import Category, Level, Note
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rules import NO_VIOLATIONS, Observation, Verdict
from feedproxy.scoring.scored_request import REFUSALS, Poll

DAY: Seconds = 86_400

DEFAULT_WAIT: Seconds = 900
"""Seconds between polls of a feed that gives no interval. Most readers poll every half hour or hour."""

REFUSAL_WAIT: Seconds = 3600
"""Seconds to wait after a 429 without Retry-After."""

FAILURE_WAIT: Seconds = 300
"""Seconds to wait after a failure; less than the usual intervals, more than an immediate retry."""

HOUR_EDGE: Seconds = 10
"""Seconds after the full hour in which most cron jobs run."""

HOURS_MIN = 6
"""Polls needed before the rule HOUR applies."""


def timer_tolerance(wait: Seconds) -> Seconds:
    """Return the seconds by which a timer may be early: 5 %, at least half a minute, at most half of the wait."""
    return min(wait / 2, max(30.0, wait / 20))


def evaluate(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation for each interval that the poll did not wait for; None before the first success."""
    if state.last_success is None or state.follows(poll):
        return None
    gap = poll.at - state.last_success
    waits = _waits(state)
    if not waits:
        waits = [(DEFAULT_WAIT, POLLED_OFTEN, "no polling interval given")]
    return tuple(
        Observation(
            kind, f"{format_duration(gap)} after the last good answer; {reason}", {"wait": format_duration(wait)}
        )
        for wait, kind, reason in waits
        if gap < wait - timer_tolerance(wait)
    )


def _waits(state: ReaderState) -> list[tuple[Seconds, type[Note], str]]:
    """Return the intervals that a feed asks for, each with the note on a violation and the reason."""
    assert state.last_success is not None
    schedule, waits = state.schedule, list[tuple[Seconds, type[Note], str]]()
    if state.lifetime > 0:
        waits.append((state.lifetime, POLLED_WITHIN_MAX_AGE, f"it was fresh for {format_duration(state.lifetime)}"))
    if schedule.ttl is not None:
        waits.append((60.0 * schedule.ttl, POLLED_WITHIN_TTL, f"ttl is {schedule.ttl}"))
    steps = [schedule.interval] if schedule.interval else []
    if (update := next_update(schedule, state.last_success)) is not None:
        length = {"hourly": DAY / 24}.get(str(schedule.period), DAY) / schedule.frequency
        # A poll right after an update by the base, or a whole period after the last poll, is on time.
        steps.append(min(update - state.last_success, length))
    waits += [(step, POLLED_WITHIN_SY, f"it is updated every {format_duration(step)}") for step in steps]
    return [(min(wait, DAY), kind, reason) for wait, kind, reason in waits]


def evaluate_skips(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation if the poll falls in skipHours or on skipDays; None if the feed has neither."""
    schedule = state.schedule
    if state.last_success is None or state.follows(poll) or not (schedule.skip_hours or schedule.skip_days):
        return None
    if not is_skipped(schedule, poll.at):
        return NO_VIOLATIONS
    hour, day = math.floor(poll.at / 3600) % 24, (math.floor(poll.at / DAY) + 3) % 7
    if day in schedule.skip_days:
        return (Observation(POLLED_ON_SKIP_DAY, f"on a {_DAYS[day]}"),)
    return (Observation(POLLED_IN_SKIP_HOUR, f"in hour {hour} GMT"),)


def evaluate_refusal(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation if the poll came too soon after a refusal or failure; None without one."""
    refusal = state.refusal
    if refusal is None or state.follows(poll):
        return None
    gap, failure = poll.at - refusal.at, f"after {refusal.status or 'no answer'}"
    if refusal.wait is not None and refusal.status in (*REFUSALS, 413):
        if gap < refusal.wait - min(30.0, refusal.wait / 20):
            return (
                Observation(
                    RETRY_AFTER_IGNORED,
                    f"{format_duration(gap)} {failure}, which asked for {format_duration(refusal.wait)}",
                ),
            )
        return NO_VIOLATIONS
    if refusal.status in REFUSALS:
        wait = REFUSAL_WAIT if refusal.status == 429 else DEFAULT_WAIT
        if gap < wait - timer_tolerance(wait):
            return (Observation(HURRIED_AFTER_REFUSAL, f"{format_duration(gap)} {failure}"),)
        return NO_VIOLATIONS
    return (
        (Observation(HAMMERED, f"{format_duration(gap)} {failure}"),)
        if gap < FAILURE_WAIT - timer_tolerance(FAILURE_WAIT)
        else NO_VIOLATIONS
    )


def is_on_the_hour(poll: Poll) -> bool:
    """Return True if the poll came within HOUR_EDGE seconds of the full hour."""
    return (poll.at + 1) % 3600 < HOUR_EDGE + 1


def format_duration(seconds: Seconds) -> str:
    """Return a duration in one or two units."""
    total = round(max(0.0, seconds))
    for size, unit, small_size, small_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if total >= size:
            rest = total % size // small_size
            return f"{total // size} {unit} {rest} {small_unit}" if rest else f"{total // size} {unit}"
    return f"{total} s"


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class POLLED_WITHIN_MAX_AGE(Note):
    level = Level.WARN
    category = Category.SCHEDULE
    summary = "%(times)s came while the copy was still fresh by Cache-Control or Expires."
    advice = """\
    The publisher said that nothing else is to be had for %(wait)s. A cache would have answered by itself: keep the
    time with the feed, and skip it until then."""
    reference = "RFC 9111, section 4.2"


class POLLED_WITHIN_TTL(Note):
    level = Level.WARN
    category = Category.SCHEDULE
    summary = "%(times)s came before the channel's `ttl` was over."
    advice = "`ttl` is the number of minutes for which the feed is good: here %(wait)s. Ask when it has passed."
    reference = "RSS 2.0, ttl; RSS Feed State, TTL"


class POLLED_WITHIN_SY(Note):
    level = Level.WARN
    category = Category.SCHEDULE
    summary = "%(times)s came more often than the feed says that it is updated."
    advice = """\
    `sy:updatePeriod` and `sy:updateFrequency` (in CDF: SCHEDULE) say how often there can be news: every %(wait)s.
    Asking more often, but for once a day, finds nothing."""
    reference = "RSS 1.0 syndication module"


class POLLED_OFTEN(Note):
    level = Level.WARN
    category = Category.SCHEDULE
    summary = "%(times)s came less than a quarter of an hour after the last good answer."
    advice = """\
    The publisher says nothing of when to come. Then every half hour is plenty, and less often is better for a feed that
    seldom changes."""
    reference = "docs/explanation/grades.md"


class KEEPS_PACE(Note):
    level = Level.GOOD
    category = Category.SCHEDULE
    summary = "No request came before the feed was due."
    advice = "%(times)s kept to what the publisher says, or to a pace that costs nobody much."
    reference = "RFC 9111, section 4.2; RSS 2.0, ttl"


class POLLED_IN_SKIP_HOUR(Note):
    level = Level.WARN
    category = Category.SCHEDULE
    summary = "%(times)s came in an hour that the feed's skipHours name."
    advice = "The hours are GMT, 0 to 23. Let the poll wait until the first hour that is not named."
    reference = "RSS 2.0, skipHours"


class POLLED_ON_SKIP_DAY(Note):
    level = Level.WARN
    category = Category.SCHEDULE
    summary = "%(times)s came on a day that the feed's skipDays name."
    advice = "Days begin and end in GMT. Let the poll wait until the first day that is not named."
    reference = "RSS 2.0, skipDays"


class HEEDS_SKIPPED(Note):
    level = Level.GOOD
    category = Category.SCHEDULE
    summary = "No request came in skipHours or on skipDays."
    advice = "%(times)s came when the publisher is there."
    reference = "RSS 2.0, skipHours and skipDays"


class ON_THE_HOUR(Note):
    level = Level.WARN
    category = Category.SCHEDULE
    summary = "%(times)s came within seconds of the full hour."
    advice = """\
    So do those of everybody else who runs it by cron or a timer that starts on the hour. Spread them: take a minute
    by chance once, and keep it."""
    reference = "docs/explanation/grades.md"


class RETRY_AFTER_IGNORED(Note):
    level = Level.BAD
    category = Category.FAILURES
    summary = "%(times)s came before the time that Retry-After had named."
    advice = """\
    Keep the time with the feed, better with the whole site, and let nothing ask before: no timer, no button, no
    restart. Read both forms, seconds and date; nobody expects more than two days."""
    reference = "RFC 9110, section 10.2.3; RFC 6585, section 4"


class HURRIED_AFTER_REFUSAL(Note):
    level = Level.BAD
    category = Category.FAILURES
    summary = "%(times)s came soon after the server had refused (429, 503)."
    advice = """\
    A refusal without Retry-After is a word about the pace all the same. Wait an hour after 429, a quarter of an hour
    after 503, and longer each time."""
    reference = "RFC 6585, section 4; RFC 9110, section 15.6.4"


class HAMMERED(Note):
    level = Level.WARN
    category = Category.FAILURES
    summary = "%(times)s came within minutes of a failure."
    advice = "What has failed mostly fails again at once. Keep the copy, and ask at the usual time, or later."
    reference = "RFC 9110, section 15.6"


class LEAVES_IN_PEACE(Note):
    level = Level.GOOD
    category = Category.FAILURES
    summary = "After refusals and failures the server was left in peace."
    advice = "%(times)s after a 429, 503 or failure kept to what was asked."
    reference = "RFC 9110, section 10.2.3"
