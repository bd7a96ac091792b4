"""Polling of feeds with pushed changes. A hub or cloud pushes them, so that the feed needs less polling.

While the feed has a *push lease*, the copy may be used for `push_interval` seconds, if HTTP permits the cache to choose
a lifetime (RFC 9111, sections 4.2.2 and 4.2.4). The lease begins with a push. It ends with the subscription, or with a
change that was not pushed. The feed is then polled as usual until the next push.
"""

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.freshness import Allowance
from feedproxy.clock import Instant, Seconds
from feedproxy.durations_and_sizes import span
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

GRACE: Seconds = 300
"""A change counts as pushed if a push arrived at most this many seconds before the refresh that finds the change. If
the push arrives after the refresh, the refresh ends the push lease, and the push begins a new lease."""


def allowance(resource: Resource, base: Instant, now: Instant, settings: Settings) -> Allowance | None:
    """Return the permission to use the copy because changes are pushed, or None if the feed has no push lease or
    `push_interval` is 0. `base` is the instant from which the age of the copy counts."""
    if not settings.push_interval or not resource.last_push or now >= resource.push_lease_expires:
        return None
    until = min(base + settings.push_interval, resource.push_lease_expires)
    interval = span(settings.push_interval)
    return Allowance(until, Detail.PUSH, f"its changes are pushed here, and it is fetched every {interval}")


def push_lease_after(resource: Resource, now: Instant, *, changed: bool) -> Instant:
    """Return the end of the push lease after an update, or 0 if the update ends the lease. `changed` is true if the
    update changed the content. A change that was not pushed (GRACE) ends the lease."""
    return 0.0 if changed and abs(now - resource.last_push) > GRACE else resource.push_lease_expires
