"""Coordination in a fleet: among the processes of this machine, and among all machines."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from feedproxy.clock import Instant, Seconds
from feedproxy.fleet.redis_connection import RedisRefused, RedisUnavailable
from feedproxy.fleet.redis_operations import RedisOperations, StoredCopy
from feedproxy.fleet.redis_queue import FLUSH_TIMEOUT, RedisQueue
from feedproxy.store.coordination.coordination_interface import COUNTERS, Coordination, counter_of

WAIT_TIMEOUT: Seconds = 0.25
"""While another machine holds a lease, the lease is requested again after this many seconds, or when an event reports
that the lease has ended."""
WAITING_MAX = 10_000
"""For at most this many targets, an event ends the wait for another machine's lease. For all others, the wait lasts
WAIT_TIMEOUT seconds."""

PEER_INSTANT_MAX: Seconds = 60
"""Another machine can reserve the instant of a request to a site, and state the end of a pause (site_interval.py). If
such an instant is more than this many seconds in the future, it is moved to this limit, because the clock of that
machine is probably ahead."""


@dataclass(slots=True)
class _Lease:
    """A lease of this process. `holders` is the number of fetches in progress under the lease. If the target is
    invalidated during a fetch, a second fetch begins under the same lease."""

    token: int
    holders: int = 1


class MachineCoordination:
    """Fetch leases of targets, for this machine and for the fleet.

    At most one process of this machine holds the lease of a target. While Redis is available, at most one process of
    all machines holds it. `stored_token` and `store_copy` are the methods of FleetStore.
    """

    def __init__(
        self,
        local: Coordination,
        redis_operations: RedisOperations,
        redis_queue: RedisQueue,
        stored_token: Callable[[str], int],
        store_copy: Callable[[str, StoredCopy, int], Awaitable[bool]],
    ) -> None:
        self.local = local
        self._redis_operations = redis_operations
        self._redis_queue = redis_queue
        self._stored_token = stored_token
        self._store_copy = store_copy
        self._leases: dict[str, _Lease] = {}
        self._completion_counts = [0] * COUNTERS
        self._waiting: OrderedDict[str, asyncio.Event] = OrderedDict()
        self.sites = local.sites
        self.sites.reserved.subscribe(partial(self._announce, "slot"))
        self.sites.paused.subscribe(partial(self._announce, "site"))
        self.lost_count = 0
        """Number of leases that another machine acquired before this machine's fetch ended."""

    @property
    def generation(self) -> int:
        """Return a number that changes with each change of this machine's store."""
        return self.local.generation

    def invalidation_epoch(self, target: str) -> int:
        return self.local.invalidation_epoch(target)

    def invalidate(self, target: str | None) -> None:
        """Record on all machines that `target` was purged or invalidated. None stands for all targets."""
        self.local.invalidate(target)
        if target is None:
            self._redis_queue.send_event(self._redis_operations.invalidate_all)
        else:
            self._redis_queue.enqueue_purge(target)

    def token(self, target: str) -> int:
        lease = self._leases.get(target)
        return lease.token if lease is not None else 0

    async def acquire_lease(self, target: str, *, local: bool = False) -> bool:
        """Acquire the fetch lease of `target` and return True, or return False if another process holds the lease.

        A `local` lease excludes only processes of this machine. With any other lease, Redis sends its copy of the
        target. If that copy is later than this machine's copy, it is stored here, and counts as a completed fetch.

        If another machine holds the lease, the call waits at most WAIT_TIMEOUT seconds for the end of this lease, and
        then returns False. If Redis is unavailable or refuses the request, the lease is local.
        """
        if not await self.local.acquire_lease(target, local=local):
            return False
        if local or not self._redis_operations.connection.up:
            return True
        try:
            # A purge gets its fencing token when it is sent. The next lease must have a higher token.
            if self._redis_queue.is_purge_pending(target):
                await self._redis_queue.flush(FLUSH_TIMEOUT)
            epoch = self.invalidation_epoch(target)
            token, copy = await self._redis_operations.acquire_lease(
                target, self._stored_token(target), self.token(target)
            )
        except (RedisUnavailable, RedisRefused):
            return True  # without Redis, two machines may fetch the target
        except BaseException:
            self.local.abandon_lease(target)
            raise
        if not token:
            self.local.abandon_lease(target)
            await self._wait(target)
            return False
        self._waiting.pop(target, None)
        if (lease := self._leases.get(target)) is not None:
            lease.token, lease.holders = token, lease.holders + 1
        else:
            self._leases[target] = _Lease(token)
        if await self._store_copy(target, copy, epoch):
            self._completion_counts[counter_of(target)] += 1
        return True

    def release_lease(self, target: str, *, local: bool = False) -> None:
        """Release the lease after a fetch. Redis gets the release together with the fetched copy. `local` must have the
        value that `acquire_lease` got."""
        self.local.release_lease(target, local=local)
        lease = None if local else self._leases.get(target)
        if lease is not None:
            lease.holders -= 1
            if not lease.holders:
                del self._leases[target]
                self._redis_queue.enqueue_release(target, lease.token)

    def abandon_lease(self, target: str) -> None:
        self.local.abandon_lease(target)

    def completion_count(self, target: str) -> int:
        """Return a number that changes with each completed fetch of the target. Another machine's fetch counts if this
        process waited for it, or has stored its copy."""
        return self.local.completion_count(target) + self._completion_counts[counter_of(target)]

    def on_peer_slot(self, site: str, slot: Instant, now: Instant) -> None:
        """Permit a request to the site only `site_interval` seconds after `slot`, the instant of a request of another
        machine."""
        self.sites.reserve_for_peer(site, min(slot, now + PEER_INSTANT_MAX), now)

    def on_peer_pause(self, site: str, until: Instant, now: Instant) -> None:
        """Permit no request to the site before `until`, the end of a pause that another machine has announced."""
        self.sites.pause_for_peer(site, min(until, now + PEER_INSTANT_MAX))

    def on_peer_completed(self, target: str) -> None:
        """Let the requests continue that wait for another machine's fetch of the target."""
        if (waiting := self._waiting.get(target)) is not None:
            self._completion_counts[counter_of(target)] += 1
            waiting.set()

    async def renew(self) -> None:
        """Renew the leases of fetches in progress. Raises RedisUnavailable or RedisRefused if Redis fails."""
        leases = [(target, lease.token) for target, lease in self._leases.items()]
        if leases:
            self.lost_count += (await self._redis_operations.renew_leases(leases)).count(False)

    def _announce(self, kind: str, event: tuple[str, Instant]) -> None:
        if self._redis_operations.connection.up:
            self._redis_queue.send_event(
                lambda: self._redis_operations.publish_unlogged(kind, *event), is_useful_later=False
            )

    async def _wait(self, target: str) -> None:
        # The event stays set until the lease is acquired, so that a completion between two waits also counts.
        event = self._waiting.setdefault(target, asyncio.Event())
        event.clear()
        if len(self._waiting) > WAITING_MAX:
            self._waiting.popitem(last=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_TIMEOUT):
                await event.wait()
