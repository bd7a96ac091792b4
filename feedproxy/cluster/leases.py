"""The Common of a machine in a fleet: what its own processes agree upon, and with it leases of all machines."""

import asyncio
import contextlib
import zlib
from collections import OrderedDict
from dataclasses import dataclass

from feedproxy.clock import Instant, Seconds
from feedproxy.cluster.interfaces import LeaseEffects, NoLeaseEffects
from feedproxy.cluster.redis_connection import RedisRefused, RedisUnavailable
from feedproxy.cluster.redis_store import RedisStore
from feedproxy.store.coordination import Coordination, SiteThrottle

WAIT_TIMEOUT: Seconds = 0.25
"""So often one who waits for another machine asks, where he is not told; and he is."""
SLOTS = 4096
WAITING_MAX = 10_000
"""Targets that somebody waits for, or has given up waiting for."""


@dataclass(slots=True)
class _Lease:
    """A lease of ours. Two flights may have it, where the first was outdated."""

    token: int
    holders: int = 1


class ClusterCoordination:
    """One lease for a target on this machine, as `here` has it, and one among all machines, while Redis is there."""

    def __init__(self, local: Coordination, redis_store: RedisStore, effects: LeaseEffects | None = None) -> None:
        self.local = local
        self._redis_store = redis_store
        self._effects = effects or NoLeaseEffects()
        self._leases: dict[str, _Lease] = {}
        self._completion_counts = [0] * SLOTS
        self._waiting: OrderedDict[str, asyncio.Event] = OrderedDict()
        self.sites = ClusterSiteThrottle(local.sites, self._effects)
        self.lost_count = 0
        """Leases that another machine had before ours was over."""

    @property
    def generation(self) -> int:
        """That of this machine: what others change counts once it is here."""
        return self.local.generation

    def invalidation_epoch(self, target: str) -> int:
        """That of this machine."""
        return self.local.invalidation_epoch(target)

    def invalidate(self, target: str | None) -> None:
        """A target was purged or invalidated, for all machines; None: any may have been."""
        self.local.invalidate(target)
        self._effects.on_invalidated(target)

    def token(self, target: str) -> int:
        """That of the lease which this process has of a target; 0 for none."""
        held = self._leases.get(target)
        return held.token if held is not None else 0

    async def acquire_lease(self, target: str, *, local: bool = False) -> bool:
        """Become the one who fetches this target; False while another is, after a moment in which he may have landed.

        What other machines have fetched meanwhile is this machine's own when it returns, and counts as a landing.
        """
        if not await self.local.acquire_lease(target, local=local):
            return False
        if local or not self._redis_store.connection.up:
            return True
        try:
            state = await self._effects.wait_purge_sent(target)
            held = self._leases.get(target)
            taken = await self._redis_store.acquire_lease(
                target, self._effects.stored_token(target), held.token if held is not None else 0
            )
        except (RedisUnavailable, RedisRefused):
            return True  # alone: two fetches are better than none
        except BaseException:
            self.local.abandon_lease(target)
            raise
        if not taken.token:
            self.local.abandon_lease(target)
            await self._wait(target)
            return False
        self._waiting.pop(target, None)
        if held is not None:
            held.token, held.holders = taken.token, held.holders + 1
        else:
            self._leases[target] = _Lease(taken.token)
        if await self._effects.store_copy(target, taken.found, state):
            self._completion_counts[_slot(target)] += 1
        return True

    def release_lease(self, target: str, *, local: bool = False) -> None:
        """The fetch is over, and what came of it is stored here; Redis has it in a moment."""
        self.local.release_lease(target, local=local)
        held = None if local else self._leases.get(target)
        if held is not None:
            held.holders -= 1
            if not held.holders:
                del self._leases[target]
                self._effects.on_lease_released(target, held.token)

    def abandon_lease(self, target: str) -> None:
        """What was taken is not done."""
        self.local.abandon_lease(target)

    def completion_count(self, target: str) -> int:
        """Another number after each landing, on whichever machine."""
        return self.local.completion_count(target) + self._completion_counts[_slot(target)]

    def on_peer_completed(self, target: str) -> None:
        """Another machine's fetch is over: whoever waits here may go on."""
        if (waiting := self._waiting.get(target)) is not None:
            self._completion_counts[_slot(target)] += 1
            waiting.set()

    async def renew(self) -> None:
        """Keep the leases of what is under way. Raises Away or Refused."""
        held = [(target, each.token) for target, each in self._leases.items()]
        if held:
            self.lost_count += (await self._redis_store.renew_leases(held)).count(False)

    async def _wait(self, target: str) -> None:
        # It stays until the lease is had: what lands while nobody looks is counted, too.
        event = self._waiting.setdefault(target, asyncio.Event())
        event.clear()
        if len(self._waiting) > WAITING_MAX:
            self._waiting.popitem(last=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_TIMEOUT):
                await event.wait()


class ClusterSiteThrottle:
    """The sites' turns: those of this machine, and what was heard of others'."""

    def __init__(self, local: SiteThrottle, effects: LeaseEffects) -> None:
        self._local = local
        self._effects = effects

    def next_free(self, site: str, interval: Seconds, now: Instant | None = None) -> Instant:
        """When the site may be asked again; 0.0 for one that never was, or was by a clock that is ahead of `now`."""
        return self._local.next_free(site, interval, now)

    def reserve(self, site: str, now: Instant, interval: Seconds) -> Instant:
        """Take the site's next turn; another machine that books at the same moment may get the same."""
        turn = self._local.reserve(site, now, interval)
        if interval:
            self._effects.on_slot_reserved(site, turn + interval)
        return turn

    def pause(self, site: str, until: Instant) -> None:
        """Leave the whole site in peace until then."""
        self._local.pause(site, until)
        self._effects.on_slot_reserved(site, until)

    def record_peer_fetch(self, site: str, until: Instant) -> None:
        """Another machine asks this site: it is free from then on."""
        self._local.pause(site, until)


def _slot(target: str) -> int:
    return zlib.crc32(target.encode("utf-8", "surrogatepass")) % SLOTS
