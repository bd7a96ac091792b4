"""Limits on fetches: minimum interval, site interval, Retry-After and back-off.

Each of four rules can defer a fetch until an instant:

    floor          a feed is fetched at most once in `feed_min_interval`, for clients, pings and the operator alike.
    site-interval  feeds of one site (registrable domain) are fetched one after the other, `site_interval` apart.
    retry-after    the origin, or another feed of the site, stated when to retry.
    back-off       the origin failed: each further failure doubles the pause.

If several rules defer the fetch, the latest instant applies, and the name of its rule is the `detail` of the response.

`retry-after` and, for a time, `back-off` also defer clients' requests for which no usable copy is stored
(`Deferred.forbids_request`). Such a rule takes precedence over the other rules, even if its instant is earlier.

The first two rules apply to known feeds only. A feed that the operator has paused is not fetched at all.
"""

import math

from msgspec import Struct

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Instant, Seconds
from feedproxy.http import uri
from feedproxy.http.retry_after_and_rate_limit import DEFER_MAX
from feedproxy.settings import Settings
from feedproxy.store.resource import Failures, Resource

BACK_OFF_FIRST: Seconds = 60
"""Minimum back-off after the first failure, in seconds. Each further failure doubles the back-off. Random jitter
lengthens each back-off to at most twice its minimum."""

BACK_OFF_MAX: Seconds = 6 * 3600
"""Longest back-off in seconds, reached after nine failures."""


class Allowed(Struct, frozen=True):
    """The permission to fetch the target now."""


PAUSE_INTERVAL = 10 * 365 * 86_400
"""A feed with a minimum interval of at least this many seconds counts as paused (paused_and_blocked.py)."""


class Deferred(Struct, frozen=True):
    """The decision that the target must not be fetched before the instant `until`. `detail` names the rule that defers
    the fetch."""

    until: Instant
    detail: Detail
    reason: str
    retry_from: Instant = 0.0
    """Instant from which one client's request may be sent during a back-off, if no usable copy is stored. It is the end
    of the minimum interval or of Retry-After, whichever is later."""

    def forbids_request(self, now: Instant) -> bool:
        """Return True if a client's request must not be sent to the origin, even if no usable copy is stored."""
        return self.detail is Detail.RETRY_AFTER or (self.detail is Detail.BACK_OFF and now < self.retry_from)


type Permission = Allowed | Deferred


def check_fetch_allowed(
    resource: Resource | None,
    now: Instant,
    settings: Settings,
    *,
    site_free_at: Instant,
    site_paused_until: Instant = 0.0,
) -> Permission:
    """Return the permission to fetch the target now, or the instant until which the fetch is deferred.

    `site_free_at` is the first instant at which `site_interval` permits a fetch. `site_paused_until` is the end of a
    pause for which the site has asked. A pause counts only if it ends more than `answer_timeout` and at most DEFER_MAX
    seconds from now.

    If a stored fetch lies in the future, the clock was set back, and the fetch counts as made now. A deferral ends
    within DEFER_MAX seconds, unless `feed_min_interval` or a pause by the operator is longer.
    """
    if settings.feed_min_interval >= PAUSE_INTERVAL:
        fetched = now if resource is None else min(resource.fetched, now)
        return Deferred(fetched + PAUSE_INTERVAL, Detail.PAUSED, "the operator has paused this feed")
    if resource is None:
        return Allowed()
    failures, next_try = resource.failures, min(resource.failures.next_try, now + DEFER_MAX)
    interval_end = min(resource.fetched, now) + float(settings.feed_min_interval)
    retry_from = max(interval_end, min(failures.retry_after, now + DEFER_MAX))
    latest, rule = next_try, _FAILING
    if resource.channel is not None:
        is_long_pause = now + settings.answer_timeout < site_paused_until <= now + DEFER_MAX
        # The first value is that of `forbids_request`.
        _, latest, rule = max(
            (False, interval_end, _MIN_INTERVAL),
            (False, min(site_free_at, now + DEFER_MAX), _SITE),
            (now < next_try and (failures.by_origin or now < retry_from), next_try, _FAILING),
            (is_long_pause, site_paused_until if is_long_pause else 0.0, _SITE_PAUSE),
        )
    if latest <= now:
        return Allowed()
    detail, reason = _describe(rule, failures, settings)
    return Deferred(latest, detail, f"{reason}; next try in {math.ceil(latest - now)} s", retry_from)


_SITE_PAUSE, _FAILING, _SITE, _MIN_INTERVAL = range(4)
"""The rules, in ascending rank. If two rules defer until the same instant, the rule with the higher rank applies."""


def _describe(rule: int, failures: Failures, settings: Settings) -> tuple[Detail, str]:
    if rule == _MIN_INTERVAL:
        return Detail.FLOOR, f"fetched less than {float(settings.feed_min_interval):.0f} s ago (feed_min_interval)"
    if rule == _SITE:
        return Detail.SITE_INTERVAL, "other feeds of the site are fetched first"
    if rule == _SITE_PAUSE:
        return Detail.RETRY_AFTER, "the site has asked for a pause"
    if failures.by_origin:
        return Detail.RETRY_AFTER, "the origin asked for a pause"
    count = "1 failure" if failures.count == 1 else f"{failures.count} failures in a row"
    return Detail.BACK_OFF, f"{count} ({failures.detail})"


def record_failure(
    failures: Failures,
    detail: str,
    now: Instant,
    started: Instant,
    *,
    not_before: Instant | None,
    jitter: float,
    back_off: bool = True,
) -> Failures:
    """Return `failures` with one more failure and the instant of the next try.

    `started` is the instant at which the failed request started. If another failure was recorded after this instant,
    the two requests ran at the same time. They count as one failure, and the later next try applies.

    `not_before` is the instant that the origin stated (`retry_after`). `jitter` is a random number in [0, 1). If
    `back_off` is false, only `not_before` defers the next try.
    """
    is_concurrent = started < failures.last
    count = failures.count + (not is_concurrent)
    longest_pause = min(BACK_OFF_MAX, BACK_OFF_FIRST * 2.0 ** min(count, 32))  # the shortest is half of it
    pause = longest_pause / 2 * (1 + jitter) if back_off else 0.0
    by_origin = not_before is not None and not_before >= now + pause
    next_try = not_before if by_origin and not_before is not None else now + pause
    stated = not_before or 0.0
    if is_concurrent:
        stated = max(stated, failures.next_try if failures.by_origin else failures.retry_after)
        if failures.next_try > next_try:
            next_try, by_origin = failures.next_try, failures.by_origin
    return Failures(
        count=count,
        since=failures.since if failures.count else now,
        last=now,
        detail=str(detail),
        next_try=min(next_try, now + DEFER_MAX),
        by_origin=by_origin,
        retry_after=0.0 if by_origin else stated,
    )


def causes_back_off(target: str, status: int | None, *, is_feed: bool) -> bool:
    """Return whether a failure with this status causes a back-off. `is_feed` is true if the target is a known feed.

    Each failure of a feed except 401 causes a back-off. A 401 causes a back-off only if it refuses the operator's
    credential, because further requests with this credential could lock the account. Every other 401 asks the client
    for credentials, and is no failure of the origin.
    """
    if status == 401:
        return uri.without_fragment(target) != target
    return is_feed
