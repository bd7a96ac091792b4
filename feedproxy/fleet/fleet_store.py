"""The store of a machine in a fleet: its own store, with an exchange of copies with other machines."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from feedproxy.clock import Clock, Instant
from feedproxy.errors import StoreError
from feedproxy.fleet.machine_coordination import MachineCoordination
from feedproxy.fleet.redis_connection import RedisRefused, RedisUnavailable
from feedproxy.fleet.redis_operations import TRANSFER_TIMEOUT_FACTOR, RedisOperations, StoredCopy, decompress
from feedproxy.fleet.redis_queue import RedisQueue
from feedproxy.refresh.refresh_events import Events
from feedproxy.single_flight import SingleFlight
from feedproxy.store import resource_codec
from feedproxy.store.coordination.coordination_interface import COUNTERS, counter_of
from feedproxy.store.interface import Precondition, Store
from feedproxy.store.resource import Resource

logger = logging.getLogger("feedproxy.fleet")

FLUSH_TIMEOUT = 2.0
"""Waiting until queued messages are sent to Redis, for example an operator's purge, takes at most this many seconds."""


class FleetStore:
    """A store that reads only from this machine. `put` queues copies for other machines, and `fetch_copy` fetches the
    copy of another machine."""

    def __init__(self, local: Store, redis_operations: RedisOperations, clock: Clock, events: Events) -> None:
        self.local = local
        self.redis_operations = redis_operations
        self.coordination = MachineCoordination(local.coordination, redis_operations, effects=self)
        self.redis_queue = RedisQueue(redis_operations, local.get_latest, self.schedule_pull, clock)
        self.shared_state: dict[str, bytes] = {}
        """State that is the same on all machines, by name."""
        self._pulls: SingleFlight[str, bool] = SingleFlight()
        self._pull_slots = asyncio.Semaphore(8)
        self._epochs = [0] * COUNTERS
        self._global_epoch = 0
        self.received_count = 0
        self._events = events

    # -- the Store protocol

    @property
    def unwritten_count(self) -> int:
        return self.local.unwritten_count

    def get(self, target: str) -> Resource | None:
        return self.local.get(target)

    def get_latest(self, target: str) -> Resource | None:
        return self.local.get_latest(target)

    def peek(self, target: str) -> Resource | None:
        return self.local.peek(target)

    def holds(self, target: str) -> bool:
        return self.local.holds(target)

    def version(self, target: str, *, used: bool = False) -> object | None:
        return self.local.version(target, used=used)

    async def put(self, resource: Resource, precondition: Precondition | None = None) -> None:
        """Store a resource here, and send it to the other machines.

        The stored resource gets a higher token than the resource that it replaces. If `precondition` is false when
        the resource is written, nothing is stored or sent.
        """
        target, token = resource.target, self.coordination.token(resource.target)
        # Without a lease, the time of the fetch in microseconds is the token.
        fencing_token = max(token or int(resource.fetched * 1_000_000), resource.fencing_token + 1)
        await self.local.put(replace(resource, fencing_token=fencing_token), precondition)
        if precondition is None or precondition():
            self.redis_queue.enqueue_copy(target, token)

    async def delete(self, target: str) -> None:
        """Delete the target's copy on all machines."""
        self._advance_epoch(target)
        self.redis_queue.enqueue_purge(target)
        await self.local.delete(target)

    def targets(self) -> Iterator[str]:
        return self.local.targets()

    def get_state(self, name: str) -> bytes | None:
        return self.shared_state.get(name) or self.local.get_state(name)

    async def put_state(self, name: str, data: bytes) -> None:
        await self.local.put_state(name, data)

    async def wait_written(self, target: str) -> None:
        await self.local.wait_written(target)

    async def flush(self) -> None:
        """Wait until all resources are written here, and then at most FLUSH_TIMEOUT seconds until Redis has them."""
        await self.local.flush()
        await self.redis_queue.flush(FLUSH_TIMEOUT)

    async def close(self) -> None:
        await self.redis_queue.close(FLUSH_TIMEOUT)
        await self._pulls.drain(0)
        await self.local.close()
        await self.redis_operations.connection.close()

    # -- copies of other machines

    def stored_token(self, target: str) -> int:
        """Return the fencing token of this machine's copy, or 0 without a copy."""
        resource = self.local.get_latest(target)
        return resource.fencing_token if resource is not None else 0

    async def fetch_copy(self, target: str, *, timeout_factor: float = 1) -> bool:
        """Apply a later copy or purge of another machine. Return True if a resource has changed here.

        The call returns within `timeout_factor` times the timeout of requests to Redis, and at once while Redis is
        unavailable. A later comparison of all copies finds a copy that the call has missed (copy_comparison.py).
        """
        before = self._invalidation_epochs(target)
        try:
            stored_copy = await self.redis_operations.get_if_later(
                target, self.stored_token(target), timeout_factor=timeout_factor
            )
        except (RedisUnavailable, RedisRefused):
            return False
        return await self.store_copy(target, stored_copy, before)

    def schedule_pull(self, target: str) -> None:
        """Fetch the later copy of `target` from Redis in the background."""
        self._pulls.join_or_start(target, lambda: self._pull(target))

    async def _pull(self, target: str) -> bool:
        async with self._pull_slots:
            return await self.fetch_copy(target, timeout_factor=TRANSFER_TIMEOUT_FACTOR)

    async def store_copy(self, target: str, stored_copy: StoredCopy, before: object) -> bool:
        """Store another machine's copy here. Return True if it was later than this machine's copy.

        A copy is ignored if the target was purged here since `wait_purge_sent` returned `before`, because Redis does
        not have the purge yet.
        """
        if before != self._invalidation_epochs(target) or self.redis_queue.is_purge_pending(target):
            return False
        stored = self.local.get_latest(target)
        if stored_copy.version <= (stored.fencing_token if stored is not None else 0):
            return False
        if stored_copy.data is None:
            if stored is None:
                return False
            await self.drop(target)
            return True
        try:
            resource = replace(resource_codec.load(decompress(stored_copy.data)), fencing_token=stored_copy.version)
        except StoreError as error:
            logger.warning("fleet: copy of %s ignored: %s", target, error)
            return False
        if resource.target != target:
            logger.warning("Redis: copy of %s ignored: it is of another target", target)
            return False
        state = self._invalidation_epochs(target)
        await self.local.put(resource, lambda: self._invalidation_epochs(target) == state)
        self.received_count += 1
        self._events.updated_by_peer.emit(target)
        return True

    async def drop(self, target: str) -> None:
        """Delete a copy that another machine purged, without an event for other machines."""
        self._advance_epoch(target)
        self.coordination.local.invalidate(target)
        await self.local.delete(target)
        self._events.updated_by_peer.emit(target)

    async def all_targets(self) -> AsyncIterator[str]:
        """Yield each target in Redis, or no target while Redis is unavailable."""
        try:
            async for target in self.redis_operations.targets():
                yield target
        except (RedisUnavailable, RedisRefused):
            return

    # -- effects of leases

    def on_lease_released(self, target: str, token: int) -> None:
        self.redis_queue.enqueue_release(target, token)

    def on_site_occupied(self, event: tuple[str, Instant]) -> None:
        site, until = event
        if self.redis_operations.connection.up:
            self.redis_queue.send_event(lambda: self.redis_operations.publish_unlogged("site", site, until))

    def on_invalidated(self, target: str | None) -> None:
        """Invalidate `target`, or all targets if it is None, on the other machines."""
        if target is None:
            self._global_epoch += 1
            self.redis_queue.send_event(self.redis_operations.invalidate_all)
        else:
            self._advance_epoch(target)
            self.redis_queue.enqueue_purge(target)

    async def wait_purge_sent(self, target: str) -> object:
        """Wait at most FLUSH_TIMEOUT seconds until no purge of `target` is queued.

        Return the value to pass to `store_copy` as `before`.
        """
        # A purge gets its fencing token when it is sent. The next lease must have a higher token.
        if self.redis_queue.is_purge_pending(target):
            await self.redis_queue.flush(FLUSH_TIMEOUT)
        return self._invalidation_epochs(target)

    # -- internals

    def _advance_epoch(self, target: str) -> None:
        self._epochs[counter_of(target)] += 1

    def _invalidation_epochs(self, target: str) -> tuple[int, int]:
        return self._epochs[counter_of(target)], self._global_epoch
