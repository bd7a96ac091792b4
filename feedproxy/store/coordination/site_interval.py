"""The interval between two requests to a site (option `site_interval`), for all processes that use one store.

`LocalSiteThrottle` serves a single process.
"""

from typing import Protocol

from feedproxy.clock import Instant, Seconds, is_set_back
from feedproxy.lru_map import LRU

SITES_MAX = 4096
"""The request slots of at most this many sites are in memory. The site with the oldest request is forgotten first."""


class SiteThrottle(Protocol):
    """Planner of the requests to each site.

    A *slot* is the instant at which a request may be sent. The slots of a site are at least `interval` seconds apart.
    """

    def next_free(self, site: str, interval: Seconds, now: Instant | None = None) -> Instant:
        """Return the instant of the site's next free slot.

        Return 0.0 for a site without a recorded request. Ignore a record with a time later than `now`: the clock was
        wrong.
        """
        ...

    def reserve(self, site: str, now: Instant, interval: Seconds) -> Instant:
        """Reserve the site's next slot, for this caller alone, and return its instant."""
        ...

    def pause(self, site: str, until: Instant) -> None:
        """Permit no request to the site before the instant `until`.

        The caller has learned from the origin that a limit for all feeds of the site is reached.
        """
        ...


class LocalSiteThrottle:
    """Request slots of sites in the memory of one process."""

    def __init__(self, capacity: int = SITES_MAX) -> None:
        self._times: LRU[str, tuple[Instant, Instant, Instant]] = LRU(entries_max=capacity)
        """For each site: its last slot, the end of its pause, and the time of recording both."""

    def __len__(self) -> int:
        return len(self._times)

    def next_free(self, site: str, interval: Seconds, now: Instant | None = None) -> Instant:
        """Return the instant of the site's next free slot, or 0.0 for a site without a recorded request."""
        last_slot, paused_until, recorded_at = self._times.get(site) or (0.0, 0.0, 0.0)
        if now is not None and is_set_back(recorded_at, now):
            return 0.0
        return max(last_slot + interval if last_slot else 0.0, paused_until)

    def reserve(self, site: str, now: Instant, interval: Seconds) -> Instant:
        slot = max(now, self.next_free(site, interval, now))
        _, paused_until, recorded_at = self._times.get(site) or (0.0, 0.0, 0.0)
        self._times.put(site, (slot, 0.0 if is_set_back(recorded_at, now) else paused_until, now))
        return slot

    def pause(self, site: str, until: Instant) -> None:
        """Permit no request to the site before the instant `until`."""
        last_slot, paused_until, recorded_at = self._times.get(site) or (0.0, 0.0, 0.0)
        self._times.put(site, (last_slot, max(paused_until, until), recorded_at))
