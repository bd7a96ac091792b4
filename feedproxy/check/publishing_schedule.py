"""Checks of schedule hints: validity, contradictions between hints, and agreement with the entries' dates."""

import time
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from feedproxy.check.checked_document import CheckedDocument
from feedproxy.clock import Seconds
from feedproxy.durations_and_sizes import span
from feedproxy.feed.channel import Channel, Schedule
from feedproxy.feed.schedule_hints import is_skipped
from feedproxy.notes import Category, Level, Note

TTL_MIN = 5
"""Lowest useful ttl, in minutes: an estimate of the shortest polling interval of feed readers."""
DAY_MINUTES = 24 * 60
HOURS_LEFT_MIN = 12
"""A Note warns if skipHours and skipDays leave fewer than this many hours of a week for polling."""
_GAPS_MAX = 20
"""The publishing interval is computed from this many of the latest intervals between items."""


def check(document: CheckedDocument, channel: Channel) -> Iterator[Note]:
    schedule = channel.schedule
    for note in schedule.notes:
        yield HINT_INVALID(detail=note)
    yield from _check_ttl(document, schedule)
    yield from _check_skips(document, schedule)
    minutes = schedule.period.seconds / 60 / schedule.frequency if schedule.period is not None else 0.0
    if schedule.ttl and minutes and not 0.5 <= schedule.ttl / minutes <= 2:
        yield HINTS_DISAGREE(ttl=schedule.ttl, sy=span(60 * minutes))
    if not schedule.notes and (schedule.ttl or minutes or schedule.interval):
        yield SCHEDULE_STATED()
    if schedule.finished:
        yield FEED_FINISHED()


def publishing_interval(document: CheckedDocument) -> Seconds | None:
    """Return the median of the last _GAPS_MAX times between successive items, in seconds, or None if the items have
    fewer than four different dates."""
    times = sorted({entry.published for entry in document.entries if entry.published is not None})[-_GAPS_MAX - 1 :]
    if len(times) < 4:
        return None
    return float(median(later - earlier for earlier, later in pairwise(times)))


def delays_entries(lifetime: Seconds, interval: Seconds) -> bool:
    """Return True if readers that use a copy for `lifetime` seconds get new items late: if `lifetime` exceeds an hour
    and two publishing intervals (`interval`, in seconds)."""
    return lifetime > max(2 * interval, 3600)


class HINT_INVALID(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "A schedule hint is invalid: %(detail)s."
    advice = "Readers ignore or misinterpret an invalid hint. Correct or remove the hint."
    reference = "RSS 2.0; RSS Feed State; RSS 1.0, syndication module"


class SCHEDULE_STATED(Note, level=Level.GOOD, category=Category.SCHEDULE):
    summary = "The feed specifies a polling interval."
    reference = "RSS Feed State, TTL"


class FEED_FINISHED(Note, level=Level.INFO, category=Category.SCHEDULE):
    summary = "The feed states that it is finished."
    advice = """\
    Programs may stop polling such a feed. feedproxy polls it once a day at most. If you continue the feed, remove
    `expired` (JSON Feed), `itunes:complete`, or `complete` (podcast:updateFrequency)."""
    reference = "JSON Feed 1.1, expired; Apple, itunes:complete"


class HINTS_DISAGREE(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "ttl is %(ttl)s minutes, but the syndication module gives %(sy)s."
    advice = "Some readers use one of the two hints, some the other. Set both to the same interval, or remove one."
    reference = "RSS 2.0, ttl; RSS 1.0, syndication module"


def _check_ttl(document: CheckedDocument, schedule: Schedule) -> Iterator[Note]:
    ttl, interval = schedule.ttl, publishing_interval(document)
    if ttl is None:
        return
    if ttl < TTL_MIN:
        yield TTL_VERY_SHORT(ttl=ttl)
    elif ttl > DAY_MINUTES:
        yield TTL_VERY_LONG(ttl=ttl)
    elif interval is not None and delays_entries(60 * ttl, interval):
        yield TTL_ABOVE_CHANGE_INTERVAL(ttl=ttl, interval=span(interval))


class TTL_VERY_SHORT(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "The ttl, %(ttl)s minutes, is shorter than the polling interval of nearly all readers."
    advice = "Readers that honour such a ttl poll needlessly often. To notify readers at once, use WebSub or rssCloud."
    reference = "RSS Feed State, TTL; WebSub"


class TTL_VERY_LONG(Note, level=Level.INFO, category=Category.SCHEDULE):
    summary = "The ttl, %(ttl)s minutes, is longer than a day."
    advice = "Many programs, including feedproxy, honour a ttl for a day at most, so that a mistake does not last long."
    reference = "RSS Feed State, TTL"


class TTL_ABOVE_CHANGE_INTERVAL(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "The ttl is %(ttl)s minutes, but the feed changes about every %(interval)s."
    advice = """\
    Readers that honour ttl get new entries late. Set a ttl that is no longer than the usual time between entries."""
    reference = "RSS Feed State, TTL"


def _check_skips(document: CheckedDocument, schedule: Schedule) -> Iterator[Note]:
    if not schedule.skip_hours and not schedule.skip_days:
        return
    hours_left = (24 - len(schedule.skip_hours)) * (7 - len(schedule.skip_days))
    if hours_left < HOURS_LEFT_MIN:
        yield SKIPS_MOST_HOURS(hours=hours_left)
    times = [instant.published for instant in document.entries if instant.published is not None]
    # A date without a time of day is parsed as midnight.
    times = [instant for instant in times if instant % 86_400]
    skipped = [instant for instant in times if is_skipped(schedule, instant)]
    if len(skipped) >= 2 and 10 * len(skipped) >= len(times):
        when = f"{time.strftime('%a %d %b %H:%M', time.gmtime(max(skipped)))} GMT"
        yield ENTRIES_IN_SKIPPED_HOURS(count=len(skipped), total=len(times), when=when)


class SKIPS_MOST_HOURS(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "skipHours and skipDays leave only %(hours)s hours a week."
    advice = """\
    skipHours lists the hours in which readers should not poll. Perhaps this feed lists the hours in which they should
    poll."""
    reference = "RSS 2.0, skipHours and skipDays"


class ENTRIES_IN_SKIPPED_HOURS(Note, level=Level.WARN, category=Category.SCHEDULE):
    summary = "Entries published in hours that the feed asks readers to skip: %(count)s of %(total)s."
    advice = "The last of these entries was published on %(when)s. Hours are in GMT, not in the local time zone."
    reference = "RSS 2.0, skipHours and skipDays; RSS Feed State"
