"""What those who work on one store know of one another: changes, outdated flights, leases, and sites' turns.

With one process there is nobody else, and `Own` is all of it. Several processes on one folder share a small file
(shared_memory.py), and whoever shares a store in another way brings a `Common` of his own.
"""

from collections import OrderedDict
from typing import Protocol

from feedproxy.clock import Instant, Seconds, is_set_back

SITES_MAX = 4096
"""Sites whose last fetch is remembered: those asked longest ago are past any spacing, and go first."""


class SiteThrottle(Protocol):
    """When each site may be asked again. What is remembered is bounded; forgetting means no spacing."""

    def next_free(self, site: str, interval: Seconds, now: Instant | None = None) -> Instant:
        """When the site may be asked again; 0.0 for one that never was, or was by a clock that is ahead of `now`."""
        ...

    def reserve(self, site: str, now: Instant, interval: Seconds) -> Instant:
        """Take the site's next turn; the result is when it comes. Nobody else gets the same."""
        ...

    def pause(self, site: str, until: Instant) -> None:
        """Leave the whole site in peace until then: a limit that it counts over all its feeds is used up."""
        ...


class Coordination(Protocol):
    """Asked often and answered at once: nothing here waits but `take`, and that for no other holder."""

    @property
    def sites(self) -> SiteThrottle:
        """The sites' turns."""
        ...

    @property
    def generation(self) -> int:
        """Another number after every change of what is stored, whoever made it. Reading it costs next to nothing."""
        ...

    def invalidation_epoch(self, target: str) -> int:
        """Another number once the target was outdated: what was asked before is then not stored."""
        ...

    def invalidate(self, target: str | None) -> None:
        """A target was purged or invalidated; None: any may have been."""
        ...

    async def acquire_lease(self, target: str, *, local: bool = False) -> bool:
        """Become the one who fetches this target; False while another is. It ends with `release`, or its holder.

        `here`: among the processes of this machine alone, for who changes what is stored and asks nobody.
        """
        ...

    def release_lease(self, target: str, *, local: bool = False) -> None:
        """The fetch is over, and what came of it is stored: counts as a landing."""
        ...

    def abandon_lease(self, target: str) -> None:
        """What was taken is not done: no landing."""
        ...

    def completion_count(self, target: str) -> int:
        """Another number after each landing; the same where a holder died in flight."""
        ...


class LocalSiteThrottle:
    """When each site was last asked, bounded; the site that was asked longest ago is forgotten first."""

    def __init__(self, capacity: int = SITES_MAX) -> None:
        self._capacity = capacity
        self._times: OrderedDict[str, tuple[Instant, Instant, Instant]] = OrderedDict()
        """For each site its last turn, until when it is left in peace, and when that was noted."""

    def __len__(self) -> int:
        return len(self._times)

    def next_free(self, site: str, interval: Seconds, now: Instant | None = None) -> Instant:
        """When the site may be asked again; 0.0 for one that never was, or was by a clock that is ahead of `now`."""
        last, held, noted = self._times.get(site, (0.0, 0.0, 0.0))
        if now is not None and is_set_back(noted, now):
            return 0.0
        return max(last + interval if last else 0.0, held)

    def reserve(self, site: str, now: Instant, interval: Seconds) -> Instant:
        """Take the site's next turn; the result is when it comes. Nobody else gets the same."""
        turn = max(now, self.next_free(site, interval, now))
        _, held, noted = self._times.get(site, (0.0, 0.0, 0.0))
        self._store(site, (turn, 0.0 if is_set_back(noted, now) else held, now))
        return turn

    def pause(self, site: str, until: Instant) -> None:
        """Leave the whole site in peace until then: a limit that it counts over all its feeds is used up."""
        last, held, noted = self._times.get(site, (0.0, 0.0, 0.0))
        self._store(site, (last, max(held, until), noted))

    def _store(self, site: str, times: tuple[Instant, Instant, Instant]) -> None:
        self._times.pop(site, None)
        self._times[site] = times
        if len(self._times) > self._capacity:
            self._times.popitem(last=False)


class LocalCoordination:
    """The Common of a process that works alone: it alone changes, every lease is free, and nobody outdates its flights
    but itself."""

    def __init__(self) -> None:
        self.sites: SiteThrottle = LocalSiteThrottle()
        self.generation = 0

    def record_change(self) -> None:
        """Something has changed."""
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
