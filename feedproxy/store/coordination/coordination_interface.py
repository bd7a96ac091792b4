"""Interfaces between processes that use one store: changes, invalidations, fetch leases, and request slots of sites.

`LocalCoordination` serves a single process.
"""

import zlib
from typing import Protocol

from feedproxy.store.coordination.site_interval import SiteThrottle

COUNTERS = 4096
"""Number of invalidation counters, and of completion counters. `counter_of` returns the index of a target in both."""


class Coordination(Protocol):
    """The interface through which the processes on one store coordinate.

    Only `acquire_lease` can wait: until the end of a lease that another machine of a fleet holds.
    """

    @property
    def sites(self) -> SiteThrottle:
        """Return the planner of the requests to each site."""
        ...

    @property
    def generation(self) -> int:
        """Return a number that changes whenever one of the processes changes a stored value."""
        ...

    def invalidation_epoch(self, target: str) -> int:
        """Return a number that changes with each invalidation of `target`.

        The caller must not store a response if the number changed during the fetch.
        """
        ...

    def invalidate(self, target: str | None) -> None:
        """Record that `target` was purged or invalidated. None stands for all targets."""
        ...

    async def acquire_lease(self, target: str, *, local: bool = False) -> bool:
        """Acquire the fetch lease of `target`. Return False if another process holds the lease, else True.

        The lease ends with `release_lease`, `abandon_lease`, or the end of the holder's process. A `local` lease
        excludes only the other processes of this machine. It suffices for changing a stored resource without a fetch.
        """
        ...

    def release_lease(self, target: str, *, local: bool = False) -> None:
        """End the lease, and change `completion_count`. The result of the fetch must be stored already."""
        ...

    def abandon_lease(self, target: str) -> None:
        """End the lease without changing `completion_count`, after a fetch without a result to store."""
        ...

    def completion_count(self, target: str) -> int:
        """Return a number that changes with each completed fetch of `target`."""
        ...


def counter_of(target: str) -> int:
    """Return the index of the target's counters, from 0 to COUNTERS - 1. All processes compute the same index."""
    return zlib.crc32(target.encode("utf-8", "surrogatepass")) % COUNTERS


class LocalCoordination:
    def __init__(self) -> None:
        self.sites = SiteThrottle()
        self.generation = 0
        self._epochs = [0] * COUNTERS

    def record_change(self) -> None:
        self.generation += 1

    def invalidation_epoch(self, target: str) -> int:
        return self._epochs[counter_of(target)]

    def invalidate(self, target: str | None) -> None:
        for counter in range(COUNTERS) if target is None else [counter_of(target)]:
            self._epochs[counter] += 1

    async def acquire_lease(self, target: str, *, local: bool = False) -> bool:
        return True

    def release_lease(self, target: str, *, local: bool = False) -> None:
        pass

    def abandon_lease(self, target: str) -> None:
        pass

    def completion_count(self, target: str) -> int:
        return 0
