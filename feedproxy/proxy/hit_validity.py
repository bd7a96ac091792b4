"""The instant until which the decision to answer with a stored response cannot change.

The decision can change at the end of the lifetime, of a permission to serve stale, of a push lease or of a skipped
period, and at the limits of the request. If such an instant is uncertain, the result is the current instant.
"""

from feedproxy.cache.freshness import Freshness, Source
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant
from feedproxy.http.cache_control import CacheControl
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

INSTANT_MARGIN = 1e-6
"""The result lies this many seconds before the instant at which the decision may change."""

_HEURISTIC_SOURCES = frozenset({Source.LEARNED, Source.LAST_MODIFIED, Source.DEFAULT})


def decision_valid_until(
    resource: Resource,
    stored: StoredResponse,
    settings: Settings,
    request: CacheControl,
    freshness: Freshness,
    now: Instant,
) -> Instant:
    """Return the last instant at which the decision to use the response is certain to be the same as at `now`.

    The result is at least `now`. `freshness` is the freshness at `now`, and permits the use of the response.
    """
    if request.max_age is not None or request.min_fresh is not None or request.max_stale is not None:
        return now  # the request sets its own limits
    if now < stored.response_time:
        return now  # the clock was set back: the age stays the same until `response_time`
    if freshness.is_fresh(now):
        ends = freshness.expires
    elif freshness.allowance is not None:
        ends = freshness.allowance.until
    else:
        return now
    if resource.channel is not None and stored.content.feed:
        schedule = resource.channel.schedule
        pushed = bool(settings.push_interval and resource.last_push and now < resource.push_lease_expires)
        if (schedule.skip_hours or schedule.skip_days) and (pushed or freshness.source in _HEURISTIC_SOURCES):
            return now  # a skipped period may begin and extend the lifetime
        if pushed:
            ends = min(ends, resource.push_lease_expires)
    return max(now, ends - INSTANT_MARGIN)
