"""Detection of outages, during which other servers can have dropped feedproxy's subscriptions. If only one feed is
fetched, a failure of its origin looks like an outage, and the subscriptions are requested again without need."""

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Instant, Seconds
from feedproxy.store.resource import Resource

OUTAGE_MIN: Seconds = 300
"""An outage is a gap of more than this many seconds between two iterations of the notification service's loop, or
between the first failed request to an origin and the next answer of any origin. Shorter gaps are usual on a busy
machine.

Some rssCloud servers drop a subscriber after three failed notifications in a row, perhaps within minutes.
"""

_NO_ANSWER = frozenset({Detail.UNREACHABLE, Detail.TIMEOUT})


class Outages:
    """Detector of the end of an outage."""

    def __init__(self) -> None:
        self._last_tick: Instant | None = None
        self._silent_since: Instant | None = None

    def record_tick(self, now: Instant) -> bool:
        """Record an iteration of the notification service's loop. Return True for the first iteration, and for the
        first after an outage."""
        before, self._last_tick = self._last_tick, now
        return before is None or now - before > OUTAGE_MIN

    def record_refresh(self, resource: Resource, now: Instant) -> bool:
        """Record a refresh. Return True for the first refresh that an origin answered after an outage."""
        if resource.failures.count and resource.failures.detail in _NO_ANSWER:
            if self._silent_since is None:
                self._silent_since = now
            return False
        since, self._silent_since = self._silent_since, None
        return since is not None and now - since > OUTAGE_MIN
