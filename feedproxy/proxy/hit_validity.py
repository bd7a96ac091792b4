"""For how long will a stored response be judged as it is now, but for the seconds that go by?

What decides (feed_freshness.py, cache/reuse.py) is looked through for all that asks what time it is: the end of the
lifetime, the end of what holds it, of a promise to push, of a skipped stretch, and the limits that a request sets.
Where it would take a second opinion to tell, the answer is: no longer than now.
"""

from feedproxy.cache.freshness import Freshness, Source
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant
from feedproxy.http.cache_control import CacheControl
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

INSTANT_MARGIN = 1e-6
"""Seconds before an instant at which something changes: on this side of it nothing has."""

_HEURISTIC_SOURCES = frozenset({Source.LEARNED, Source.LAST_MODIFIED, Source.DEFAULT})


def decision_valid_until(
    resource: Resource,
    stored: StoredResponse,
    settings: Settings,
    request: CacheControl,
    freshness: Freshness,
    now: Instant,
) -> Instant:
    """The last instant for which source, lifetime, hold and decision are known to be those of `now`; `now` at least.

    `freshness` is that of `now`, and the response was used by it.
    """
    if request.max_age is not None or request.min_fresh is not None or request.max_stale is not None:
        return now  # the reader draws lines of his own
    if now < stored.response_time:
        return now  # the clock was set back: its age stands still until then
    if freshness.fresh(now):
        ends = freshness.expires
    elif freshness.held is not None:
        ends = freshness.held.until
    else:
        return now
    if resource.channel is not None and stored.content.feed:
        schedule = resource.channel.schedule
        pushed = bool(settings.push_interval and resource.heard and now < resource.promised)
        if (schedule.skip_hours or schedule.skip_days) and (pushed or freshness.source in _HEURISTIC_SOURCES):
            return now  # a skipped stretch may begin, and hold it
        if pushed:
            ends = min(ends, resource.promised)
    return max(now, ends - INSTANT_MARGIN)
