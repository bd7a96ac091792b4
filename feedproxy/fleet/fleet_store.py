"""The store of a machine in a fleet: its own store, with an exchange of copies with other machines."""

import asyncio
import logging

from msgspec.structs import replace

from feedproxy.clock import Clock
from feedproxy.errors import StoreError
from feedproxy.event_signal import Signal
from feedproxy.fleet.copy_compression import decompress
from feedproxy.fleet.machine_coordination import MachineCoordination
from feedproxy.fleet.redis_connection import RedisRefused, RedisUnavailable
from feedproxy.fleet.redis_operations import TRANSFER_TIMEOUT_FACTOR, RedisOperations, StoredCopy
from feedproxy.fleet.redis_queue import FLUSH_TIMEOUT, RedisQueue
from feedproxy.refresh.refresh_events import Events
from feedproxy.single_flight import SingleFlight
from feedproxy.store import resource_codec
from feedproxy.store.interface import Precondition, Store
from feedproxy.store.permitted_store import IsRedirectPermitted, IsTargetPermitted, PermittedStore
from feedproxy.store.resource import Resource

logger = logging.getLogger("feedproxy.fleet")


class FleetStore(PermittedStore):
    """A store that reads only from this machine. `put` queues copies for other machines, and `fetch_copy` fetches the
    copy of another machine.

    The machines exchange all copies. Each machine applies its access rules (`is_redirect_permitted`) and its address
    policy (`is_target_permitted`) when it reads a copy.
    """

    def __init__(
        self,
        local: Store,
        is_redirect_permitted: IsRedirectPermitted,
        is_target_permitted: IsTargetPermitted,
        redis_operations: RedisOperations,
        clock: Clock,
        events: Events,
    ) -> None:
        super().__init__(local, is_redirect_permitted, is_target_permitted)
        self.local = local
        self.redis_operations = redis_operations
        self.redis_queue = RedisQueue(redis_operations, local.get_latest, self.schedule_pull, clock)
        self._coordination = MachineCoordination(
            local.coordination, redis_operations, self.redis_queue, self.stored_token, self.store_copy
        )
        self.shared_state: dict[str, bytes] = {}
        """State that is the same on all machines, by name."""
        self._pulls: SingleFlight[str, bool] = SingleFlight()
        self._pull_slots = asyncio.Semaphore(8)
        self.received_count = 0
        self._events = events
        self.content_received: Signal[Resource] = Signal()
        """Signal with a permitted copy of another machine: a feed with other content than this machine's copy."""

    # -- the Store protocol

    @property
    def coordination(self) -> MachineCoordination:
        return self._coordination

    async def put(self, resource: Resource, precondition: Precondition | None = None) -> None:
        """Store a resource here, and send it to the other machines. It gets a higher fencing token than the resource
        that it replaces. If `precondition` returns False when the resource is written, nothing is stored or sent."""
        target, token = resource.target, self.coordination.token(resource.target)
        # Without a lease, the time of the fetch is the token.
        fetched_token = token or self.redis_operations.token_at(resource.fetched)
        fencing_token = max(fetched_token, resource.fencing_token + 1)
        await self.local.put(replace(resource, fencing_token=fencing_token), precondition)
        if precondition is None or precondition():
            self.redis_queue.enqueue_copy(target, token)

    async def delete(self, target: str, token_max: int | None = None) -> None:
        """Delete the target's copy on all machines. If `token_max` is given, this machine keeps a copy with a higher
        fencing token."""
        self.coordination.invalidate(target)
        await self.local.delete(target, token_max)

    def get_state(self, name: str) -> bytes | None:
        return self.shared_state.get(name) or self.local.get_state(name)

    async def read_state(self, name: str) -> bytes | None:
        return self.shared_state.get(name) or await self.local.read_state(name)

    async def flush(self) -> None:
        """Wait until all resources are stored on this machine. Then wait at most FLUSH_TIMEOUT seconds until Redis has
        them."""
        await self.local.flush()
        await self.redis_queue.flush(FLUSH_TIMEOUT)

    async def close(self) -> None:
        await self.redis_queue.close(FLUSH_TIMEOUT)
        await self._pulls.drain(0)
        await self.local.close()
        await self.redis_operations.connection.close()

    # -- copies of other machines

    def stored_token(self, target: str) -> int:
        """Return the fencing token of this machine's copy, or 0 if there is no copy."""
        resource = self.local.get_latest(target)
        return resource.fencing_token if resource is not None else 0

    async def fetch_copy(self, target: str, *, timeout_factor: float = 1) -> bool:
        """Ask Redis for a later copy or purge of the target, and apply it. Return True if this machine's copy changed,
        or False if it did not or if Redis failed.

        The call returns within `timeout_factor` times the timeout of requests to Redis, and at once while Redis is
        unavailable. A later comparison of all copies finds a copy that the call has missed (synchronization.py).
        """
        await self.load(target)
        epoch = self.coordination.invalidation_epoch(target)
        try:
            stored_copy = await self.redis_operations.get_if_later(
                target, self.stored_token(target), timeout_factor=timeout_factor
            )
        except (RedisUnavailable, RedisRefused):
            return False
        return await self.store_copy(target, stored_copy, epoch)

    def schedule_pull(self, target: str) -> None:
        """Ask Redis for a later copy of `target` in the background, and apply it (`fetch_copy`)."""
        self._pulls.join_or_start(target, lambda: self._pull(target))

    async def _pull(self, target: str) -> bool:
        async with self._pull_slots:
            return await self.fetch_copy(target, timeout_factor=TRANSFER_TIMEOUT_FACTOR)

    async def store_copy(self, target: str, stored_copy: StoredCopy, epoch: int) -> bool:
        """Apply `stored_copy`, a copy or purge from Redis, if it is later than this machine's copy. Return True if it
        was applied.

        `epoch` is the target's `invalidation_epoch` before the request to Redis. If the target was purged here since
        then, the copy is ignored, because Redis can still lack this purge.
        """
        await self.load(target)
        if epoch != self.coordination.invalidation_epoch(target) or self.redis_queue.is_purge_pending(target):
            return False
        stored = self.local.get_latest(target)
        if stored_copy.version <= (stored.fencing_token if stored is not None else 0):
            return False
        if stored_copy.data is None:
            if stored is None:
                return False
            await self.drop(target, stored_copy.version)
            return True
        try:
            resource = replace(resource_codec.load(decompress(stored_copy.data)), fencing_token=stored_copy.version)
        except StoreError as error:
            logger.warning("fleet: copy of %s ignored: %s", target, error)
            return False
        if resource.target != target:
            logger.warning("fleet: copy of %s ignored: it is of another target", target)
            return False
        await self.local.put(resource, lambda: self.coordination.invalidation_epoch(target) == epoch)
        self.received_count += 1
        self._events.updated_by_peer.emit(target)
        if self._is_permitted(resource) and _content_digest(resource) != _content_digest(stored):
            self.content_received.emit(resource)
        return True

    async def drop(self, target: str, version: int) -> None:
        """Delete a copy that another machine has purged. The other machines get no event. `version` is the version of
        the purge. A later copy stays: another worker can have fetched or received it meanwhile."""
        self.coordination.local.invalidate(target)
        await self.local.delete(target, version)
        self._events.updated_by_peer.emit(target)


def _content_digest(resource: Resource | None) -> str:
    """Return the digest of a feed's content, or "" if `resource` is None or not a feed."""
    return resource.channel.content_digest if resource is not None and resource.channel is not None else ""
