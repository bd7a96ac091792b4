"""Interfaces between a machine's own store and the parts that share it with other machines."""

from typing import Protocol

from feedproxy.clock import Instant
from feedproxy.cluster.redis_operations import StoredCopy
from feedproxy.store.resource import Resource


class CopySource(Protocol):
    """The source of the copies that the replicator sends to Redis."""

    def get_latest(self, target: str) -> Resource | None:
        """Return the last copy of `target` that this machine stored, or None."""
        ...

    def schedule_pull(self, target: str) -> None:
        """Fetch the later copy of `target` from Redis in the background."""
        ...


class LeaseEffects(Protocol):
    """The effects of leases, invalidations and reserved slots on this machine's store and on other machines."""

    def stored_token(self, target: str) -> int:
        """Return the fencing token of this machine's copy of `target`, or 0 without a copy."""
        ...

    async def store_copy(self, target: str, stored_copy: StoredCopy, before: object) -> bool:
        """Store a peer's copy, unless `target` was purged since `wait_purge_sent` returned the state `before`. Return
        True if the copy was later than this machine's copy."""
        ...

    async def wait_purge_sent(self, target: str) -> object:
        """Wait until no purge of `target` is queued. Return the state to pass to `store_copy` as `before`."""
        ...

    def on_lease_released(self, target: str, token: int) -> None:
        """Release the lease of `target` with this token in Redis."""
        ...

    def on_invalidated(self, target: str | None) -> None:
        """Invalidate `target` on the other machines. None stands for all targets."""
        ...

    def on_slot_reserved(self, site: str, until: Instant) -> None:
        """Announce to the other machines that requests to `site` must wait until the instant `until`."""
        ...
