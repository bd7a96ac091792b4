"""The Store of a machine in a fleet: its own in front, and behind it what the others have fetched."""

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from feedproxy.clock import Clock
from feedproxy.cluster.leases import FleetCommon
from feedproxy.cluster.redis_connection import Away, Refused
from feedproxy.cluster.redis_store import Found, Shelf
from feedproxy.cluster.replicator import Outbox
from feedproxy.errors import StoreError
from feedproxy.refresh.singleflight import SingleFlight
from feedproxy.store import codec
from feedproxy.store.interface import Still, Store
from feedproxy.store.resource import Resource

logger = logging.getLogger("feedproxy.cluster")

SLOTS = 4096
FLUSH_PATIENCE = 2.0
"""Seconds that an operator's purge waits until the other machines are told."""


class FleetStore:
    """Reads from this machine alone. What is put here is queued for the others; `look` fetches what they have."""

    def __init__(self, local: Store, shelf: Shelf, clock: Clock) -> None:
        self.local = local
        self.shelf = shelf
        self.common = FleetCommon(local.common, shelf)
        self.outbox = Outbox(shelf, local.newest, clock)
        self.outbox.on_refused = self.pull_soon
        self.common.known = self.known
        self.common.take_in = self.take_in
        self.common.settled = self._settled
        self.common.on_release = self.outbox.release
        self.common.on_outdate = self._outdated
        self.agreed: dict[str, bytes] = {}
        """State that is the same on all machines."""
        self._pulls: SingleFlight[str, bool] = SingleFlight()
        self._few = asyncio.Semaphore(8)
        self._steps = [0] * SLOTS
        self._leap = 0
        self.taken_in = 0
        self.on_change = _unheard
        """Is told of every target of which another machine's copy was taken in, or dropped."""

    # -- what every Store has

    def get(self, target: str) -> Resource | None:
        return self.local.get(target)

    def newest(self, target: str) -> Resource | None:
        return self.local.newest(target)

    def peek(self, target: str) -> Resource | None:
        return self.local.peek(target)

    def holds(self, target: str) -> bool:
        return self.local.holds(target)

    def stamp(self, target: str, *, used: bool = False) -> object | None:
        return self.local.stamp(target, used=used)

    async def put(self, resource: Resource, still: Still | None = None) -> None:
        """Keep it here, under a number above that of what it was made from, and tell the others."""
        target, token = resource.target, self.common.token(resource.target)
        # Without a lease the instant of the fetch stands in for its number: it is on the same scale.
        number = max(token or int(resource.fetched * 1_000_000), resource.fence + 1)
        await self.local.put(replace(resource, fence=number), still)
        if still is None or still():
            self.outbox.keep(target, token)

    async def delete(self, target: str) -> None:
        """Keep nothing of it, here and elsewhere."""
        self._step(target)
        self.outbox.purge(target)
        await self.local.delete(target)

    def targets(self) -> Iterator[str]:
        return self.local.targets()

    def get_state(self, name: str) -> bytes | None:
        return self.agreed.get(name) or self.local.get_state(name)

    async def put_state(self, name: str, data: bytes) -> None:
        await self.local.put_state(name, data)

    async def written(self, target: str) -> None:
        await self.local.written(target)

    async def flush(self) -> None:
        """Return when everything is written here, and the others are told, if they can be."""
        await self.local.flush()
        await self.outbox.flush(FLUSH_PATIENCE)

    async def close(self) -> None:
        await self.outbox.close(FLUSH_PATIENCE)
        await self._pulls.drain(0)
        await self.local.close()
        await self.shelf.link.close()

    # -- what other machines have

    def known(self, target: str) -> int:
        """The number of what is kept here; 0 for nothing."""
        resource = self.local.newest(target)
        return resource.fence if resource is not None else 0

    async def look(self, target: str) -> bool:
        """Take in what another machine has fetched, or purged, since; whether that changed anything here.

        Returns within the timeout, and at once while Redis is away.
        """
        before = self._state(target)
        try:
            found = await self.shelf.look(target, self.known(target))
        except (Away, Refused):
            return False
        return await self.take_in(target, found, before)

    def pull_soon(self, target: str) -> None:
        """There is a later copy: take it in when there is time."""
        self._pulls.join_or_start(target, lambda: self._pull(target))

    async def _pull(self, target: str) -> bool:
        async with self._few:
            before = self._state(target)
            try:
                found = await self.shelf.pull(target, self.known(target))
            except (Away, Refused):
                return False  # what is here is as good as it was; when Redis is back all is compared
            return await self.take_in(target, found, before)

    async def take_in(self, target: str, found: Found, before: object) -> bool:
        """Make what was found this machine's own; whether it was later than what was here.

        Not where the target was purged here since `before`, which the others are still to be told.
        """
        if before != self._state(target) or self.outbox.is_purged(target):
            return False
        held = self.local.newest(target)
        if found.version <= (held.fence if held is not None else 0):
            return False
        if found.data is None:
            if held is None:
                return False
            await self.drop(target)
            return True
        try:
            resource = replace(codec.load(found.data), fence=found.version)
        except StoreError as error:
            logger.warning("Redis: the copy of %s is unusable and ignored: %s", target, error)
            return False
        if resource.target != target:
            logger.warning("Redis: the copy stored for %s is of another target and ignored", target)
            return False
        state = self._state(target)
        await self.local.put(resource, lambda: self._state(target) == state)
        self.taken_in += 1
        self.on_change(target)
        return True

    async def drop(self, target: str) -> None:
        """Another machine has purged it: keep nothing of it here, and tell nobody."""
        self._step(target)
        self.common.here.outdate(target)
        await self.local.delete(target)
        self.on_change(target)

    async def everywhere(self) -> AsyncIterator[str]:
        """Every target of which Redis has something; none while it is away."""
        try:
            async for target in self.shelf.targets():
                yield target
        except (Away, Refused):
            return

    # -- inside

    def _outdated(self, target: str | None) -> None:
        if target is None:
            self._leap += 1
            self.outbox.tell(self.shelf.bar)
        else:
            self._step(target)
            self.outbox.purge(target)

    async def _settled(self, target: str) -> object:
        # A purge gets its number when it is told: who fetches anew must not have a lower one.
        if self.outbox.is_purged(target):
            await self.outbox.flush(FLUSH_PATIENCE)
        return self._state(target)

    def _step(self, target: str) -> None:
        self._steps[_slot(target)] += 1

    def _state(self, target: str) -> tuple[int, int]:
        return self._steps[_slot(target)], self._leap


def _unheard(target: str) -> None:
    """Nobody listens yet."""


def _slot(target: str) -> int:
    return zlib.crc32(target.encode("utf-8", "surrogatepass")) % SLOTS
