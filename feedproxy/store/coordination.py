"""Coordination of the processes on one store: changes, invalidations, fetch leases, and request slots of sites.

`LocalCoordination` serves a single process. Several processes on one folder share a small file (shared_memory.py), and
several machines share a Redis (cluster/leases.py).
"""

from typing import Protocol

from feedproxy.clock import Instant, Seconds, is_set_back
from feedproxy.lru import LRU

SITES_MAX = 4096
"""Sites with a remembered slot. Those fetched longest ago are past any interval, and are forgotten first."""


class SiteThrottle(Protocol):
    """Request slots of each site. Memory is bounded; a forgotten site has no interval to keep."""

    def next_free(self, site: str, interval: Seconds, now: Instant | None = None) -> Instant:
        """Return when the site may be fetched next; 0.0 if it never was, or only by a clock ahead of `now`."""
        ...

    def reserve(self, site: str, now: Instant, interval: Seconds) -> Instant:
        """Reserve the site's next slot and return its instant. No other caller gets the same slot."""
        ...

    def pause(self, site: str, until: Instant) -> None:
        """Let no request to the site begin until this instant: its own limit for all its feeds is used up."""
        ...


class Coordination(Protocol):
    """Answers to frequent questions. Only `acquire_lease` waits, and not for another holder."""

    @property
    def sites(self) -> SiteThrottle:
        """Return the sites' request slots."""
        ...

    @property
    def generation(self) -> int:
        """Return a number that differs after every change of what is stored, by any process. It is cheap to read."""
        ...

    def invalidation_epoch(self, target: str) -> int:
        """Return a number that differs once `target` was invalidated: a fetch begun before is then not stored."""
        ...

    def invalidate(self, target: str | None) -> None:
        """Record that `target` was purged or invalidated; None stands for all targets."""
        ...

    async def acquire_lease(self, target: str, *, local: bool = False) -> bool:
        """Acquire the fetch lease of `target`. Return False while another process holds it.

        The lease ends with `release_lease`, `abandon_lease`, or its holder. `local`: among the processes of this
        machine alone, for a change that fetches nothing.
        """
        ...

    def release_lease(self, target: str, *, local: bool = False) -> None:
        """End the lease after a fetch with a stored result: it counts as completed."""
        ...

    def abandon_lease(self, target: str) -> None:
        """End the lease without a result: it does not count as completed."""
        ...

    def completion_count(self, target: str) -> int:
        """Return a number that differs after each completion; unchanged if the holder died during the fetch."""
        ...


class LocalSiteThrottle:
    """Request slots in the memory of one process; the site fetched longest ago is forgotten first."""

    def __init__(self, capacity: int = SITES_MAX) -> None:
        self._times: LRU[str, tuple[Instant, Instant, Instant]] = LRU(entries_max=capacity)
        """By site: its last slot, the end of its pause, and when both were recorded."""

    def __len__(self) -> int:
        return len(self._times)

    def next_free(self, site: str, interval: Seconds, now: Instant | None = None) -> Instant:
        """Return when the site may be fetched next; 0.0 if it never was, or only by a clock ahead of `now`."""
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
        """Let no request to the site begin until this instant."""
        last_slot, paused_until, recorded_at = self._times.get(site) or (0.0, 0.0, 0.0)
        self._times.put(site, (last_slot, max(paused_until, until), recorded_at))


class LocalCoordination:
    """The coordination of a single process: every lease is free, and other processes change and invalidate nothing."""

    def __init__(self) -> None:
        self.sites: SiteThrottle = LocalSiteThrottle()
        self.generation = 0

    def record_change(self) -> None:
        """Count a change of what is stored."""
        self.generation += 1

    def invalidation_epoch(self, target: str) -> int:
        return 0

    def invalidate(self, target: str | None) -> None:
        pass

    async def acquire_lease(self, target: str, *, local: bool = False) -> bool:
        return True

    def release_lease(self, target: str, *, local: bool = False) -> None:
        pass

    def abandon_lease(self, target: str) -> None:
        pass

    def completion_count(self, target: str) -> int:
        return 0
