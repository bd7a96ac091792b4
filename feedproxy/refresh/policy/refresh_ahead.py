"""The next refresh of a feed ahead of its readers, within the limits of HTTP, the feed's hints and the origin.

For readers with regular polls, a refresh must save more staleness than a request costs (expected_polls_and_price.py).
For other readers, the feed is refreshed shortly before its copy expires, but not more often than these readers poll.
The following limits apply:

* No refresh during a lifetime that the publisher states: max-age, Expires, ttl or sy:*.
* No refresh during a push lease (polling_with_push.py).
* No refresh in an hour or on a day that the publisher wants to be skipped.
* No refresh of a feed if a new copy could not answer: after no-cache, no-store, a move or an end.
* Minimum intervals, Retry-After and back-off (min_interval_and_back_off.py) apply as to all other requests.
"""

import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct

from feedproxy.cache.freshness import Freshness, Source, may_extend_lifetime
from feedproxy.clock import Instant, Seconds
from feedproxy.durations_and_sizes import span
from feedproxy.feed.schedule_hints import next_unskipped
from feedproxy.http import uri
from feedproxy.http.memoize import memoize_short
from feedproxy.refresh.policy import expected_polls_and_price, moved_and_gone
from feedproxy.refresh.policy.freshness_by_hints_and_history import rate_of
from feedproxy.refresh.policy.min_interval_and_back_off import Deferred, Permission
from feedproxy.refresh.policy.stale_while_refreshing import rests_until
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from feedproxy.subscribers.poll_rhythms import ExpectedPoll

LEAD_FRACTION = 0.05
"""Time from the start of a refresh to the end of a copy's lifetime, as a fraction of the lifetime. Jitter shortens the
time by up to a half."""

LEAD_MAX: Seconds = 60
"""Longest time from the start of a refresh to the end of a copy's lifetime, in seconds."""

SPREAD: Seconds = 10
"""After skipped hours or a pause, when many feeds are due together, refreshes are spread over this many seconds."""

GAP_MIN: Seconds = 30
"""Two scheduled refreshes of a feed are at least this many seconds apart."""


class Refresh(Struct, frozen=True):
    """The plan to refresh now."""

    reason: str


class Later(Struct, frozen=True):
    """The plan to decide again at the instant `at`. If `is_earliest` is true, no poll of a reader can cause an earlier
    refresh."""

    at: Instant
    reason: str
    is_earliest: bool = False


class Rest(Struct, frozen=True):
    """The plan to make no scheduled refresh until a client, a ping or the operator causes a fetch."""

    reason: str


type Plan = Refresh | Later | Rest

IDLE: Seconds = 3600
"""A feed is no longer refreshed ahead of its readers after this many seconds without a request. If the copy has a
longer lifetime, the lifetime applies instead."""

REVIEW: Seconds = 6 * 3600
"""If a refresh costs more than it saves, the feed is considered again after this many seconds."""

STATED = frozenset({Source.TARGETED, Source.S_MAXAGE, Source.MAX_AGE, Source.EXPIRES, Source.HINT})
"""Sources of lifetimes that the publisher states. All other lifetimes are estimates."""


class Audience(Protocol):
    """The readers of one feed."""

    def recent(self, window: Seconds) -> int:
        """Return the number of readers without a known rhythm that polled the feed in the last `window` seconds."""
        ...

    def expected_polls(self, until: Instant) -> Sequence[ExpectedPoll]:
        """Return the expected polls before the instant `until`, in order of time."""
        ...


def plan(
    resource: Resource | None,
    freshness: Freshness | None,
    audience: Audience,
    now: Instant,
    settings: Settings,
    *,
    permission: Callable[[], Permission],
    jitter: float,
    price_factor: float = 1.0,
) -> Plan:
    """Return the plan of the refresh schedule for one feed.

    `freshness` is the freshness of the feed's newest stored response. `permission` returns the result of
    `check_fetch_allowed`, and is called only if a refresh is due. `jitter` is the feed's own number in [0, 1).
    `price_factor` multiplies the price of a request (refresh/policy/origin_rate_limits.py).
    """
    if settings.polling == "off":
        return Rest("polling is off")
    if resource is None or resource.channel is None or not resource.variants or freshness is None:
        return Rest("no copy of a feed is stored")
    if reason := _unusable_reason(resource, freshness, now, settings):
        return Rest(reason)
    bounds = _bounds(resource, freshness, now, settings, jitter)
    expected = audience.expected_polls(now + expected_polls_and_price.HORIZON)
    next_refresh = _worthwhile_refresh(resource, bounds, expected, now, settings, price_factor, jitter)
    if next_refresh is None or bounds.early_refresh < next_refresh.at:
        is_later = bounds.early_refresh > now and not expected
        unread_reason = "" if is_later else _unread_reason(audience, bounds)
        if not unread_reason:
            next_refresh = Later(bounds.early_refresh, "refreshed then, if it is still read")
        elif next_refresh is None:
            if not expected:
                return Rest(unread_reason)
            next_refresh = Later(now + REVIEW, "no refresh is worth its price yet")
    if next_refresh.at > now:
        return Later(next_refresh.at, next_refresh.reason, is_earliest=next_refresh.at <= bounds.earliest)
    if isinstance(allowed := permission(), Deferred):
        return Later(allowed.until + SPREAD * jitter / 10, allowed.reason)
    return Refresh(next_refresh.reason if next_refresh.at != bounds.early_refresh else "its copy expires soon")


class _Bounds(Struct, frozen=True):
    """The instants between which a feed may be refreshed ahead."""

    end: Instant
    """Last instant at which the copy may answer."""
    granted: Seconds
    """Seconds from the making of a copy to the last instant at which it may answer."""
    earliest: Instant
    """Instant before which the origin must not be asked."""
    early_refresh: Instant
    """Instant shortly before `end`, for a refresh for readers without regular polls."""
    until: Callable[[Instant], Instant]
    """Function that returns the last instant at which a copy made at a given instant may answer."""
    permitted: Callable[[Instant], Instant]
    """Function that returns the first instant, at or after a given instant, at which the origin may be asked."""


def _bounds(resource: Resource, freshness: Freshness, now: Instant, settings: Settings, jitter: float) -> _Bounds:
    stated_end = freshness.allowance.until if freshness.allowance is not None else freshness.expires
    end = max(stated_end, rests_until(resource, resource.variants[-1], freshness, settings))
    lifetime = max(0.0, end - (freshness.expires - freshness.lifetime))
    lead = min(LEAD_FRACTION * lifetime, LEAD_MAX) * (1 + jitter) / 2
    is_stated = freshness.allowance is not None or freshness.limit is not None or freshness.source in STATED
    earliest = max(
        resource.fetched + max(GAP_MIN, float(settings.feed_min_interval)), stated_end - lead if is_stated else 0
    )
    pause = resource.failures.next_try

    def permitted(at: Instant) -> Instant:
        at = max(at, earliest)
        if pause > at:
            at = pause + SPREAD * jitter
        if settings.feed_hints != "off" and resource.channel is not None:
            # A refresh that is overdue after a stop or a pause is due now.
            free = next_unskipped(resource.channel.schedule, max(at, now))
            if free > max(at, now):
                at = free + SPREAD * jitter
        return at

    is_held = settings.feed_hints != "off" and may_extend_lifetime(resource.variants[-1], freshness.control)
    renewed = max(lifetime, GAP_MIN)

    def until(at: Instant) -> Instant:
        end = at + renewed
        return next_unskipped(resource.channel.schedule, end) if is_held and resource.channel is not None else end

    early_refresh = permitted(max(end - lead, resource.fetched + GAP_MIN))
    return _Bounds(end, lifetime, earliest, early_refresh, until, permitted)


def _worthwhile_refresh(
    resource: Resource,
    bounds: _Bounds,
    expected: Sequence[ExpectedPoll],
    now: Instant,
    settings: Settings,
    price_factor: float,
    jitter: float,
) -> Later | None:
    """Return the next refresh that saves more staleness than it costs, or None if there is none."""
    if not expected:
        return None
    refreshed = resource.variants[-1].response_time
    rate = rate_of(resource, refreshed)
    planned = expected_polls_and_price.plan(
        expected,
        now,
        expected_polls_and_price.Copy(refreshed, bounds.end, bounds.until),
        per_second=rate,
        price=settings.price * price_factor,
        permitted=bounds.permitted,
    )
    if planned is None:
        return None
    readers = max(1, round(planned.readers))
    # A reader that polls many feeds at once is expected for all of them at the same instant.
    at = planned.at if planned.at <= now else bounds.permitted(planned.at + SPREAD * jitter)
    return Later(
        at,
        f"{readers} {'reader' if readers == 1 else 'readers'} expected by {_clock(planned.by)}, "
        f"changes about every {span(1 / rate)}, worth {_minutes(planned.worth)} of staleness"
        + ("; the copy has expired by then" if planned.anticipates else "")
        + ("; the site limits requests" if price_factor > 1.1 else ""),
    )


def _clock(at: Instant) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M}"


def _minutes(seconds: Seconds) -> str:
    return f"{seconds / 60:.1f} min" if seconds < 5940 else f"{seconds / 3600:.1f} h"


@memoize_short(entries=1024)
def own_jitter(target: str) -> float:
    """Return a number in [0, 1) that depends only on the target. The port in the target does not matter."""
    host, _ = uri.split_host_port(target)
    path, _, query = target.partition("://")[2].partition("/")[2].partition("?")
    return zlib.crc32(f"{host}/{path}?{query}".encode("utf-8", "surrogatepass")) / 2**32


def _unusable_reason(resource: Resource, freshness: Freshness, now: Instant, settings: Settings) -> str:
    """Return the reason why a refresh would be useless to all readers, or "" if it can be useful."""
    newest, control = resource.variants[-1], freshness.control
    if control.no_cache or control.no_store or control.private or newest.authorized:
        return "HTTP requires validation at each use"
    if newest.invalid:
        return "its copy was invalidated"
    if (
        freshness.lifetime < GAP_MIN
        and freshness.allowance is None
        and not rests_until(resource, newest, freshness, settings)
    ):
        return "its copy is valid only briefly"
    if moved_and_gone.active_relocation(resource.relocation, now, settings, target=resource.target) is not None:
        return "it has moved or ended"
    return ""


def _unread_reason(audience: Audience, bounds: _Bounds) -> str:
    """Return the reason not to refresh the feed for readers without a rhythm, or "" if there is none."""
    lifetime = max(bounds.granted, GAP_MIN)
    window = max(lifetime, IDLE)
    readers = audience.recent(window)
    if readers == 0:
        return f"not requested within {span(window)}"
    if readers * lifetime / window < 1:
        return "requested too seldom for its short lifetime"
    return ""
