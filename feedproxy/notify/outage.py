"""When were we away?  After that, who tells us of changes may have given us up, and may have told us in vain.

Three ways to be away: the process was not there (its first turn), it stood still (the machine slept: a gap between two
turns), or nobody could be reached (the line was down: for a while nothing that was asked gave any answer). A single
origin that is down looks like the third where it is the only one read here; asking its cloud once more does no harm.
"""

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Instant, Seconds
from feedproxy.store.resource import Resource

OUTAGE_MIN: Seconds = 300
"""Servers of rssCloud drop who fails three times in a row, which a busy feed does in minutes; to ask all anew costs one
call for each. Shorter gaps are what a busy machine or a router has."""

CLOCK_STEP_MIN: Seconds = 60
"""A clock is kept right by less than that."""

_NO_ANSWER = frozenset({Detail.UNREACHABLE, Detail.TIMEOUT})


class Outages:
    """Notices when one is over."""

    def __init__(self) -> None:
        self._last_tick: Instant | None = None
        self._silent_since: Instant | None = None

    def clock_set_back_by(self, now: Instant) -> Seconds:
        """By how much the clock was put back since the last turn; 0 where it was not."""
        back = self._last_tick - now if self._last_tick is not None else 0.0
        return back if back > CLOCK_STEP_MIN else 0.0

    def record_tick(self, now: Instant) -> bool:
        """The loop has turned: whether that is the first time, or the first after an outage."""
        before, self._last_tick = self._last_tick, now
        return before is None or now - before > OUTAGE_MIN

    def record_refresh(self, resource: Resource, now: Instant) -> bool:
        """An update is over: whether it is the first that was answered after an outage."""
        if resource.failures.count and resource.failures.detail in _NO_ANSWER:
            if self._silent_since is None:
                self._silent_since = now
            return False
        since, self._silent_since = self._silent_since, None
        return since is not None and now - since > OUTAGE_MIN
