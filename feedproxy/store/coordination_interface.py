"""Coordination of the processes that use one store: changes, invalidations, fetch leases, and request slots of sites.

`LocalCoordination` serves a single process. Processes on one folder share a small file (worker_coordination.py).
Several machines share a Redis (fleet/machine_coordination.py).
"""

import zlib
from typing import Protocol

from feedproxy.store.site_interval import LocalSiteThrottle, SiteThrottle

COUNTERS = 4096
"""Number of counters of invalidations. There are as many counters of completed fetches. Each target is assigned to a
counter (`counter_of`), and several targets may share one."""


class Coordination(Protocol):
    """The interface through which the processes on one store coordinate.

    Its methods are called often, and return without waiting for other processes. `acquire_lease` is an exception: it
    may wait while another process acquires or ends a lease. If another process holds the lease, it returns False at
    once.
    """

    @property
    def sites(self) -> SiteThrottle:
        """Return the request slots of sites."""
        ...

    @property
    def generation(self) -> int:
        """Return a number that differs after every change of the stored values by any process. Reading it is cheap."""
        ...

    def invalidation_epoch(self, target: str) -> int:
        """Return a number that differs after each invalidation of `target`.

        If the number changes during a fetch, the fetched response must not be stored.
        """
        ...

    def invalidate(self, target: str | None) -> None:
        """Record that `target` was purged or invalidated. None stands for all targets."""
        ...

    async def acquire_lease(self, target: str, *, local: bool = False) -> bool:
        """Acquire the fetch lease of `target`. Return False if another process holds it.

        The lease ends when its holder calls `release_lease` or `abandon_lease`, or exits. A `local` lease excludes only
        the processes of this machine. It is used for changes of the stored resource that need no fetch.
        """
        ...

    def release_lease(self, target: str, *, local: bool = False) -> None:
        """End the lease after a fetch with a stored result. This changes `completion_count`."""
        ...

    def abandon_lease(self, target: str) -> None:
        """End the lease without a result. This does not change `completion_count`."""
        ...

    def completion_count(self, target: str) -> int:
        """Return a number that differs after each completed fetch of `target`.

        The number stays the same if the holder of the lease ended during the fetch.
        """
        ...


def counter_of(target: str) -> int:
    """Return the number of a target's counters, from 0 to COUNTERS - 1, which is the same in every process.

    A target has a counter of invalidations and a counter of completed fetches. The two counters have the same number.
    """
    return zlib.crc32(target.encode("utf-8", "surrogatepass")) % COUNTERS


class LocalCoordination:
    """The coordination of a single process.

    Every lease is free, because no other process fetches, changes or invalidates a target.
    """

    def __init__(self) -> None:
        self.sites: SiteThrottle = LocalSiteThrottle()
        self.generation = 0

    def record_change(self) -> None:
        """Increase the generation after a change of the stored values."""
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
