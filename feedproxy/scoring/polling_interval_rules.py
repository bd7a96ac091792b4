"""Rules on the time between polls.  RFC 9111, section 4.2; RSS 2.0; RSS 1.0 syndication module.

The latest answer states the interval that a reader should wait, counted from the origin's answer: the Age of a cache's
answer is subtracted. No interval is longer than a day, so a reader that polls once a day is never too early.

An empty verdict means that the request keeps the rule. None means that the rule does not apply to the request.
"""

import math

from feedproxy.clock import DAY, Seconds
from feedproxy.durations_and_sizes import exact_span
from feedproxy.feed.schedule_hints import is_skipped, next_update
from feedproxy.http.date import WEEKDAYS
from feedproxy.notes import Category, Level, Note
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rule_weights import NO_VIOLATIONS, Observation, Verdict, violation
from feedproxy.scoring.scored_request import REFUSALS, Poll

DEFAULT_WAIT: Seconds = 900
"""A reader should wait this many seconds between two polls of a feed that specifies no interval, and after a 503
without Retry-After. The usual intervals of half an hour and an hour are longer."""

REFUSAL_WAIT: Seconds = 3600
"""A reader should wait this many seconds after a 429 without Retry-After."""

FAILURE_WAIT: Seconds = 300
"""A reader should wait at least this many seconds between a failure and the next poll. Usual polling intervals are
longer, so that only immediate retries are marked."""

RETRY_AFTER_MAX: Seconds = 2 * DAY
"""A Retry-After of more than this many seconds counts as this number. Longer values are mistakes of the server."""

HOUR_EDGE: Seconds = 10
"""A poll less than this many seconds after the full hour counts as on the hour. Most cron jobs start in this time."""

HOURS_MIN = 6
"""The rule HOUR applies from this many polls on. Fewer polls can come on the hour by chance."""

ON_THE_HOUR_SHARE = 0.5
"""A reader breaks the rule HOUR if at least this share of its polls come on the hour."""


def timer_tolerance(wait: Seconds) -> Seconds:
    """Return how many seconds too early a poll may come: 5 % of `wait`, at least 30 s, at most half of `wait`."""
    return min(wait / 2, max(30.0, wait / 20))


def evaluate(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation for each interval of the feed that had not passed since the last success (`timer_tolerance`).

    The interval is DEFAULT_WAIT if the feed specifies none, or if the Age of the answer exceeds all intervals. If the
    request is a duplicate of the previous request, return only the violation DUPLICATE_REQUEST. Return None if there
    was no success yet, or if the request is part of the previous poll.
    """
    if state.last_success is None or state.belongs_to_previous(poll):
        return None
    if state.is_duplicate(poll):
        return violation(DUPLICATE_REQUEST, "the same request was sent less than a second before")
    gap = poll.at - state.last_success
    intervals = [interval for interval in _polling_intervals(state) if interval[0] > 0]
    if not intervals:
        intervals = [(DEFAULT_WAIT, POLLED_TOO_OFTEN, "the feed specifies no interval, or nothing of it remained")]
    return tuple(
        Observation(kind, f"{exact_span(gap)} after the last success; {reason}", {"wait": exact_span(wait)})
        for wait, kind, reason in intervals
        if gap < wait - timer_tolerance(wait)
    )


def _polling_intervals(state: ReaderState) -> list[tuple[Seconds, type[Note], str]]:
    """Return the intervals that the last successful response and its feed specify.

    Each element has the seconds to wait after the response, the kind of Note for a violation, and the reason. From an
    interval within the feed (ttl, sy:*), the response's Age is subtracted, so that the seconds can be negative.
    """
    assert state.last_success is not None
    # "a number of minutes that indicates how long a channel can be cached before refreshing from the source" -- RSS 2.0
    fetched = state.last_success - state.age
    schedule, intervals = state.schedule, list[tuple[Seconds, type[Note], str]]()
    if state.lifetime > 0:
        intervals.append(
            (state.lifetime, POLLED_WITHIN_MAX_AGE, f"the answer was fresh for {exact_span(state.lifetime)}")
        )
    if schedule.ttl is not None:
        intervals.append((60.0 * schedule.ttl - state.age, POLLED_WITHIN_TTL, f"ttl is {schedule.ttl} minutes"))
    steps = [schedule.interval] if schedule.interval else []
    if (update := next_update(schedule, fetched)) is not None:
        length = {"hourly": DAY / 24}.get(str(schedule.period), DAY) / schedule.frequency
        # A poll is on time right after an update computed from sy:updateBase, or a whole period after the last poll.
        steps.append(min(update - fetched, length))
    intervals += [
        (step - state.age, POLLED_WITHIN_UPDATE_PERIOD, f"the feed is updated every {exact_span(step)}")
        for step in steps
    ]
    return [(min(wait, DAY), kind, reason) for wait, kind, reason in intervals]


def evaluate_skips(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation if the poll falls in skipHours or on skipDays. Return None if the feed has neither hint, if
    there was no success yet, or if the request is part of the previous poll."""
    schedule = state.schedule
    if state.last_success is None or state.belongs_to_previous(poll) or not (schedule.skip_hours or schedule.skip_days):
        return None
    if not is_skipped(schedule, poll.at):
        return NO_VIOLATIONS
    hour, day = math.floor(poll.at / 3600) % 24, (math.floor(poll.at / DAY) + 3) % 7
    if day in schedule.skip_days:
        return violation(POLLED_ON_SKIP_DAY, f"on a {WEEKDAYS[day]}")
    return violation(POLLED_IN_SKIP_HOUR, f"in hour {hour} GMT")


def evaluate_refusal(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation if the poll came too soon after a refusal or failure. Return None if neither occurred, or if
    the request is part of the previous poll."""
    refusal = state.refusal
    if refusal is None or state.belongs_to_previous(poll):
        return None
    gap, failure = poll.at - refusal.at, f"after {refusal.answer}"
    if refusal.wait is not None and refusal.status in (*REFUSALS, 413):
        wait = min(refusal.wait, RETRY_AFTER_MAX)
        if gap < wait - min(30.0, wait / 20):
            reason = f"{exact_span(gap)} {failure} with Retry-After: {exact_span(math.ceil(wait))}"
            return violation(RETRY_AFTER_IGNORED, reason)
        return NO_VIOLATIONS
    if refusal.status in REFUSALS:
        wait = REFUSAL_WAIT if refusal.status == 429 else DEFAULT_WAIT
        if gap < wait - timer_tolerance(wait):
            return violation(RETRIED_SOON_AFTER_REFUSAL, f"{exact_span(gap)} {failure}")
        return NO_VIOLATIONS
    return (
        violation(RETRIED_SOON_AFTER_FAILURE, f"{exact_span(gap)} {failure}")
        if gap < FAILURE_WAIT - timer_tolerance(FAILURE_WAIT)
        else NO_VIOLATIONS
    )


def is_on_the_hour(poll: Poll) -> bool:
    """Return True if the poll came in the last second before a full hour, or less than HOUR_EDGE seconds after it."""
    return (poll.at + 1) % 3600 < HOUR_EDGE + 1


class POLLED_WITHIN_MAX_AGE(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "%(times)s came while the reader's last response was still fresh according to Cache-Control or Expires."
    advice = """\
    The publisher promises no new content for %(wait)s, and a cache would answer from its copy. Store the expiry time
    with the feed and do not poll before it."""
    reference = "RFC 9111, section 4.2"


class POLLED_WITHIN_TTL(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "%(times)s came before the channel's `ttl` had passed."
    advice = """\
    `ttl` is the number of minutes for which a feed may be cached: here %(wait)s. Poll again after this time."""
    reference = "RSS 2.0, ttl; RSS Feed State, TTL"


class POLLED_WITHIN_UPDATE_PERIOD(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "%(times)s came more often than the feed is updated."
    advice = """\
    `sy:updatePeriod` and `sy:updateFrequency` (in CDF: SCHEDULE) say how often the feed is updated: every %(wait)s.
    More frequent polls find nothing new. One poll a day is always fine."""
    reference = "RSS 1.0 syndication module"


class POLLED_TOO_OFTEN(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "%(times)s came less than 15 minutes after the last success."
    advice = """\
    The feed specifies no interval, or nothing of the interval remained because a cache sent an old answer (Age). Poll
    at most every half hour, and less often if the feed seldom changes."""
    reference = "docs/explanation/grades.md"


class DUPLICATE_REQUEST(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "%(times)s repeated the previous request within a second."
    advice = """\
    The second answer cannot differ from the first. Start no second fetch of a feed while a fetch of this feed is in
    progress, and subscribe to each address only once."""
    reference = "docs/explanation/grades.md"


class POLLED_WHEN_DUE(Note, level=Level.GOOD, category=Category.SCHEDULE):
    summary = "Every poll waited until the feed was due."
    advice = "%(times)s kept the interval that the feed specifies, or 15 minutes where it specifies none."
    reference = "RFC 9111, section 4.2; RSS 2.0, ttl"


class POLLED_IN_SKIP_HOUR(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "%(times)s came in an hour that the feed's skipHours list."
    advice = "The hours are GMT, from 0 to 23. Delay the poll until the first hour that is not listed."
    reference = "RSS 2.0, skipHours"


class POLLED_ON_SKIP_DAY(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "%(times)s came on a day that the feed's skipDays list."
    advice = "Days begin and end in GMT. Delay the poll until the first day that is not listed."
    reference = "RSS 2.0, skipDays"


class SKIPPED_TIMES_OBEYED(Note, level=Level.GOOD, category=Category.SCHEDULE):
    summary = "No request came in skipHours or on skipDays."
    advice = "%(times)s came at hours and on days that the feed does not skip."
    reference = "RSS 2.0, skipHours and skipDays"


class POLLED_ON_THE_HOUR(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "%(times)s came within seconds of the full hour."
    advice = """\
    Many readers start by cron or a timer at the full hour, so that servers get the requests of all these readers at
    once. Choose a random minute once, and poll at that minute."""
    reference = "docs/explanation/grades.md"


class RETRY_AFTER_IGNORED(Note, level=Level.BAD, category=Category.FAILURES):
    summary = "%(times)s came before the time in Retry-After had passed."
    advice = """\
    Store the time with the feed, or better for the whole site. Send no request before that time, whether from a
    timer, a button or a restart. Parse both forms of Retry-After, seconds and date. Waits above two days may be cut
    to two days."""
    reference = "RFC 9110, section 10.2.3; RFC 6585, section 4"


class RETRIED_SOON_AFTER_REFUSAL(Note, level=Level.BAD, category=Category.FAILURES):
    summary = "%(times)s came too soon after the server had refused a request (429, 503)."
    advice = """\
    A refusal without Retry-After also asks the reader to slow down. Wait an hour after 429 and 15 minutes after 503.
    Wait longer after each further refusal."""
    reference = "RFC 6585, section 4; RFC 9110, section 15.6.4"


class RETRIED_SOON_AFTER_FAILURE(Note, level=Level.WARN, category=Category.FAILURES):
    summary = "%(times)s came within minutes of a failure."
    advice = """\
    A request that failed usually fails again if it is repeated at once. Keep the stored copy, and poll at the usual
    time or later."""
    reference = "RFC 9110, section 15.6"


class WAITED_AFTER_FAILURES(Note, level=Level.GOOD, category=Category.FAILURES):
    summary = "The reader waited after refusals and failures."
    advice = "%(times)s waited long enough after a 429, a 503 or a failure."
    reference = "RFC 9110, section 10.2.3"
