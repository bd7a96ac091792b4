"""Limits on fetches: minimum interval, site interval, Retry-After and back-off.

Four rules defer a fetch, each until an instant. The latest of these instants applies, and the rule with that instant
determines the `detail` of the response:

    floor          a feed is fetched at most once in `feed_min_interval`, for clients, pings and the operator alike.
    site-interval  feeds of one site are fetched one after the other, `site_interval` apart. A site is a registrable
                   domain, because some services give each author a host.
    retry-after    the origin stated when to retry.
    back-off       the origin failed: each further failure doubles the pause.

The first two rules apply to known feeds only. The others apply to every target. A feed that the operator has paused is
not fetched at all.
"""

import math
import re
from dataclasses import dataclass

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Instant, Seconds
from feedproxy.http import structured_fields
from feedproxy.http.date import parse_http_date
from feedproxy.http.message import Fields
from feedproxy.settings import Settings
from feedproxy.store.resource import Failures, Resource

DEFER_MAX: Seconds = 172_800
"""Longest deferral in seconds: 48 hours. Some origins send absurd values, such as years."""

BACK_OFF_FIRST: Seconds = 60
"""Shortest back-off after the first failure, in seconds. Random jitter extends it to at most twice this time. Each
further failure doubles the back-off, up to BACK_OFF_MAX."""

BACK_OFF_MAX: Seconds = 6 * 3600
"""Longest back-off in seconds, which is reached after nine failures. A feed that keeps failing is then fetched a few
times a day."""


_DELAY = re.compile(r"\d{1,15}(\.\d*)?")


@dataclass(frozen=True, slots=True)
class Allowed:
    """The permission to fetch the target now."""


PAUSE_INTERVAL = 10 * 365 * 86_400
"""Minimum interval in seconds that marks a feed as paused by the operator (paused_and_blocked.py)."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """The decision that the target must not be fetched before the instant `until`. `detail` names the rule."""

    until: Instant
    detail: Detail
    reason: str


type Permission = Allowed | Deferred


def check_fetch_allowed(
    resource: Resource | None, now: Instant, settings: Settings, *, site_free_at: Instant
) -> Permission:
    """Return the permission to fetch the target now, or the instant until which it is deferred.

    `site_free_at` is the first instant at which `site_interval` permits a fetch from the target's site. If the clock
    was set back, a stored instant may lie in the future: the last fetch then counts as made now, and a deferral ends
    within DEFER_MAX seconds.
    """
    if settings.feed_min_interval >= PAUSE_INTERVAL:
        fetched = now if resource is None else min(resource.fetched, now)
        return Deferred(fetched + PAUSE_INTERVAL, Detail.PAUSED, "the operator has paused this feed")
    if resource is None:
        return Allowed()
    next_try = min(resource.failures.next_try, now + DEFER_MAX)
    if resource.channel is None:
        latest, rule = next_try, _FAILING
    else:
        next_by_interval = min(resource.fetched, now) + float(settings.feed_min_interval)
        next_by_site = min(site_free_at, now + DEFER_MAX)
        latest, rule = max((next_by_interval, -_MIN_INTERVAL), (next_by_site, -_SITE), (next_try, -_FAILING))
        rule = -rule
    if latest <= now:
        return Allowed()
    detail, reason = _describe(rule, resource.failures, settings)
    return Deferred(latest, detail, f"{reason}; next try in {math.ceil(latest - now)} s")


def is_past_min_interval(resource: Resource | None, now: Instant, settings: Settings) -> bool:
    """Return whether the minimum interval permits a fetch now. Other limits are not considered."""
    return resource is None or min(resource.fetched, now) + float(settings.feed_min_interval) <= now


_MIN_INTERVAL, _SITE, _FAILING = range(3)


def _describe(rule: int, failures: Failures, settings: Settings) -> tuple[Detail, str]:
    if rule == _MIN_INTERVAL:
        return Detail.FLOOR, f"fetched less than {float(settings.feed_min_interval):.0f} s ago (feed_min_interval)"
    if rule == _SITE:
        return Detail.SITE_INTERVAL, "other feeds of the site are fetched first"
    if failures.by_origin:
        return Detail.RETRY_AFTER, "the origin asked for a pause"
    count = "1 failure" if failures.count == 1 else f"{failures.count} failures in a row"
    return Detail.BACK_OFF, f"{count} ({failures.detail})"


def record_failure(
    failures: Failures,
    detail: str,
    now: Instant,
    *,
    not_before: Instant | None,
    jitter: float,
    back_off: bool = True,
) -> Failures:
    """Return `failures` with one more failure and the instant of the next try. The caller resets them after a success.

    `not_before` is the instant that the origin stated (`retry_after`). `jitter` is a random number in [0, 1). Without
    `back_off`, as for targets that are not known feeds, only `not_before` defers the next try.
    """
    count = failures.count + 1
    pause = _longest_pause(count) / 2 * (1 + jitter) if back_off else 0.0
    by_origin = not_before is not None and not_before >= now + pause
    next_try = not_before if by_origin and not_before is not None else now + pause
    return Failures(
        count=count,
        since=failures.since if failures.count else now,
        last=now,
        detail=str(detail),
        next_try=min(next_try, now + DEFER_MAX),
        by_origin=by_origin,
    )


def retry_after(fields: Fields, now: Instant) -> Instant | None:
    """Return the instant from which the origin permits the next request after a failed one, or None if the response
    states no instant.

    An origin states such an instant in Retry-After (RFC 9110, section 10.2.3), or as the reset of an exhausted rate
    limit. If the response has both, the later instant applies, at most DEFER_MAX seconds from now. For successful
    responses, only `rate_limit_reset` is meaningful.
    """
    instants = [_parse_retry_after(value.strip(), now) for value in fields.get_all("retry-after")]
    latest = max((at for at in (*instants, rate_limit_reset(fields, now)) if at is not None and at > now), default=None)
    return min(latest, now + DEFER_MAX) if latest is not None else None


def rate_limit_reset(fields: Fields, now: Instant) -> Instant | None:
    """Return the instant at which an exhausted rate limit is reset, or None if no limit is exhausted.

    Three forms are read: `RateLimit: "policy";r=0;t=30` (draft-ietf-httpapi-ratelimit-headers-10), `RateLimit:
    remaining=0, reset=30` (version 05 of the draft), and `x-ratelimit-remaining: 0` with `x-ratelimit-reset`, also
    without `x-`. Reddit sends fractions (`0.0`) and a reset in seconds; other origins send a Unix time. Such a limit
    applies to the whole site (refresh/site_rate_limits.py).
    """
    resets = [_reset_of(fields, prefix, now) for prefix in ("x-ratelimit-", "ratelimit-")]
    if (value := fields.combined("ratelimit")) is not None:
        resets += _structured_resets(value, now)
    return max((at for at in resets if at is not None), default=None)


def _structured_resets(value: str, now: Instant) -> list[Instant | None]:
    items = structured_fields.parse_parameterised(value) or ()
    members = structured_fields.parse_dictionary(value) or {}
    limits = [*((item.get("r"), item.get("t")) for item in items), (members.get("remaining"), members.get("reset"))]
    return [
        min(now + reset, now + DEFER_MAX)
        for remaining, reset in limits
        if isinstance(remaining, int | float) and isinstance(reset, int | float) and remaining < 1 and reset > 0
    ]


def _reset_of(fields: Fields, prefix: str, now: Instant) -> Instant | None:
    remaining, reset = _parse_number(fields.get(prefix + "remaining")), _parse_number(fields.get(prefix + "reset"))
    if remaining is None or reset is None or remaining >= 1:
        return None
    # A number above thirty years in seconds is a Unix time.
    at = reset if reset > 1_000_000_000 else now + reset
    return min(at, now + DEFER_MAX) if at > now else None


def _longest_pause(count: int) -> Seconds:
    """Return the longest back-off in seconds after `count` failures. Random jitter shortens the back-off by up to a
    half, and so separates feeds that failed at the same time."""
    return min(BACK_OFF_MAX, BACK_OFF_FIRST * 2.0 ** min(count, 32))


def _parse_retry_after(value: str, now: Instant) -> Instant | None:
    if _DELAY.fullmatch(value):
        return now + float(value)
    return parse_http_date(value)


def _parse_number(value: str | None) -> float | None:
    return float(value) if value is not None and _DELAY.fullmatch(value := value.strip()) else None
