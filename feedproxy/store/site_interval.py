"""The interval between two requests to a site (option `site_interval`), for all processes that use one store.

`LocalSiteThrottle` serves a single process. The processes of a machine share a file (worker_coordination.py), and the
machines of a fleet announce their requests to each other (fleet/machine_coordination.py).
"""

from typing import Protocol

from feedproxy.clock import Instant, Seconds, is_set_back
from feedproxy.lru_map import LRU

SITES_MAX = 4096
"""Maximum number of sites for which the last request is remembered. The site fetched longest ago is forgotten first,
because the interval after its last request has already passed."""


class SiteThrottle(Protocol):
    """Planner of the requests to each site. Each request gets a *slot*: the instant at which it may be sent.

    The slots of one site are at least an interval (`site_interval`) apart. Memory is bounded: a site may be forgotten
    when the interval after its last slot has passed.
    """

    def next_free(self, site: str, interval: Seconds, now: Instant | None = None) -> Instant:
        """Return the instant of the site's next free slot, `interval` seconds after the last one.

        Return 0.0 if no fetch of the site is recorded. A record with a time later than `now` is ignored, because it was
        made with a wrong clock.
        """
        ...

    def reserve(self, site: str, now: Instant, interval: Seconds) -> Instant:
        """Reserve the site's next slot and return its instant. No other caller gets the same slot."""
        ...

    def pause(self, site: str, until: Instant) -> None:
        """Let no request to the site begin before the instant `until`.

        This method is called when an origin has reported that a limit for all feeds of the site is reached.
        """
        ...


class LocalSiteThrottle:
    """Request slots of sites in the memory of one process. Above its capacity, the site fetched longest ago is
    forgotten."""

    def __init__(self, capacity: int = SITES_MAX) -> None:
        self._times: LRU[str, tuple[Instant, Instant, Instant]] = LRU(entries_max=capacity)
        """For each site: its last slot, the end of its pause, and the instant at which these two were recorded."""

    def __len__(self) -> int:
        return len(self._times)

    def next_free(self, site: str, interval: Seconds, now: Instant | None = None) -> Instant:
        """Return the instant of the site's next free slot, `interval` seconds after the last one.

        Return 0.0 if no fetch of the site is recorded. A record with a time later than `now` is ignored, because it was
        made with a wrong clock.
        """
        last_slot, paused_until, recorded_at = self._times.get(site) or (0.0, 0.0, 0.0)
        if now is not None and is_set_back(recorded_at, now):
            return 0.0
        return max(last_slot + interval if last_slot else 0.0, paused_until)

    def reserve(self, site: str, now: Instant, interval: Seconds) -> Instant:
        """Reserve the site's next slot and return its instant."""
        slot = max(now, self.next_free(site, interval, now))
        _, paused_until, recorded_at = self._times.get(site) or (0.0, 0.0, 0.0)
        self._times.put(site, (slot, 0.0 if is_set_back(recorded_at, now) else paused_until, now))
        return slot

    def pause(self, site: str, until: Instant) -> None:
        """Let no request to the site begin before the instant `until`."""
        last_slot, paused_until, recorded_at = self._times.get(site) or (0.0, 0.0, 0.0)
        self._times.put(site, (last_slot, max(paused_until, until), recorded_at))
