"""Is a feed to be asked for before a reader has to wait for it?  Pure decisions of the schedule.

A feed that is read is refreshed shortly before its copy may no longer answer: when its freshness ends, or what holds
it beyond (DESIGN, section 6). So the interval is whatever freshness comes from, the publisher's word or what was
learned from the feed's history; the schedule adds nothing of its own. (`learned_patience` is of the freshness, too:
feed_freshness.py.) Three things keep it modest:

* It asks only for what is read. How often that is, is reckoned from how many readers came within the last hour, or
  within one lifetime of the copy where that is longer. Where a refresh would serve few of them (`refresh_per_poll`),
  the feed is left alone until somebody asks.
* It never asks in an hour or on a day that the publisher wants to be skipped, whatever HTTP says.
* It never asks for what no copy may answer: no-cache, no-store, what has moved or ended.

Floor, spacing, Retry-After and back-off bind it as they bind everybody (throttle.py).
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

from feedproxy.cache.freshness import Freshness, span
from feedproxy.clock import Instant, Seconds
from feedproxy.feed.schedule import next_unskipped
from feedproxy.refresh.policy import relocation, throttle
from feedproxy.refresh.policy.feed_freshness import rests_until
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

LEAD = 0.05
LEAD_MAX: Seconds = 60
"""A refresh comes this part of a lifetime ahead of its end, a minute at most: time enough for a slow origin, and
little of what the publisher granted is given away. A random half of it keeps feeds apart that came together."""

SPREAD: Seconds = 10
"""What waited for the end of a skipped stretch, or of a pause, goes within so many seconds after it: at midnight
thousands may have waited."""

GAP_MIN: Seconds = 30
"""The schedule asks no oftener than this, whatever the floor: copies that are good for less are fetched by readers."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """The origin is to be asked now."""

    words: str


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing is to be done before `at`; then it is decided anew."""

    at: Instant
    words: str


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing is to be done until a reader, a ping or the operator has the origin asked."""

    words: str


type Plan = Refresh | Later | Rest

type Audience = Callable[[Seconds], int]
"""How many readers asked for the feed within the last so many seconds, each counted once."""


def plan(
    resource: Resource | None,
    freshness: Freshness | None,
    audience: Audience,
    now: Instant,
    settings: Settings,
    *,
    permission: throttle.Permission,
    jitter: float,
) -> Plan:
    """What the schedule has to do for one feed. `freshness` is that of its newest stored response, `permission` the
    planner's, `jitter` a number in [0, 1] that is the feed's own.
    """
    if not settings.refresh_ahead:
        return Rest("refresh_ahead is off: the next reader's request")
    if resource is None or resource.channel is None or not resource.variants or freshness is None:
        return Rest("no copy of a feed is held")
    if reason := _unusable(resource, freshness, now, settings):
        return Rest(reason)
    end = max(
        freshness.held.until if freshness.held is not None else freshness.expires,
        rests_until(resource, resource.variants[-1], freshness, settings),
    )
    granted = end - (freshness.expires - freshness.lifetime)
    due = _due(resource, end, granted, now, settings, jitter)
    if due > now:
        return Later(due, "refreshed then, if it is still read")
    if reason := _unread(audience, max(granted, GAP_MIN), settings):
        return Rest(reason)
    if isinstance(permission, throttle.Deferred):
        return Later(permission.until + SPREAD * jitter / 10, permission.reason)
    return Refresh("its copy's time is over" if now >= end else "its copy's time is over soon")


def own_jitter(target: str) -> float:
    """A number in [0, 1) that is the same for a feed in every process and at every start."""
    return zlib.crc32(target.encode("utf-8", "surrogatepass")) / 2**32


def _unusable(resource: Resource, freshness: Freshness, now: Instant, settings: Settings) -> str:
    """Why no refresh would spare a reader the wait; empty where one would."""
    newest, control = resource.variants[-1], freshness.control
    if control.no_cache or control.no_store or control.private or newest.authorized:
        return "HTTP wants every use of it validated: the next reader's request"
    if newest.invalid:
        return "its copy was invalidated: the next reader's request"
    if (
        freshness.lifetime < GAP_MIN
        and freshness.held is None
        and not rests_until(resource, newest, freshness, settings)
    ):
        return "its copy is never good for long: the next reader's request"
    if relocation.active_relocation(resource.relocation, now, settings, target=resource.target) is not None:
        return "it has moved or ended"
    return ""


def _due(
    resource: Resource, end: Instant, granted: Seconds, now: Instant, settings: Settings, jitter: float
) -> Instant:
    lead = min(LEAD * max(granted, 0.0), LEAD_MAX) * (1 + jitter) / 2
    due = max(end - lead, resource.fetched + GAP_MIN)
    pause = resource.failures.next_try
    if pause > due:
        due = pause + SPREAD * jitter
    if settings.feed_hints != "off" and resource.channel is not None:
        # What is overdue, after a stop or a pause, is due now.
        free = next_unskipped(resource.channel.schedule, max(due, now))
        if free > max(due, now):
            due = free + SPREAD * jitter
    return due


def _unread(audience: Audience, granted: Seconds, settings: Settings) -> str:
    """Why its readers are too few for a refresh ahead; empty where they are not."""
    window = max(granted, float(settings.refresh_idle_after))
    readers = audience(window)
    if readers == 0:
        return f"nobody has asked for it for {span(window)}: the next reader's request"
    if readers * granted / window * settings.refresh_per_poll < 1:
        return "its readers come too seldom for its short lifetime: the next one's request"
    return ""
