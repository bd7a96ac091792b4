"""Questions and events between a machine's own store and the parts that share it with other machines."""

from typing import Protocol

from feedproxy.clock import Instant
from feedproxy.cluster.redis_store import StoredCopy
from feedproxy.store.resource import Resource


class CopySource(Protocol):
    """The copies that the replicator sends."""

    def get_latest(self, target: str) -> Resource | None:
        """Return the copy of `target` that was stored last on this machine."""
        ...

    def schedule_pull(self, target: str) -> None:
        """Fetch the later copy of `target` that Redis has."""
        ...


class LeaseEffects(Protocol):
    """Effects of leases, invalidations and reserved slots on this machine's store and the other machines."""

    def stored_token(self, target: str) -> int:
        """Return the fencing token of this machine's copy of `target`; 0 without a copy."""
        ...

    async def store_copy(self, target: str, found: StoredCopy, before: object) -> bool:
        """Store a peer's copy, unless `target` was purged since `before`. Return whether the copy was later."""
        ...

    async def wait_purge_sent(self, target: str) -> object:
        """Return once no purge of `target` waits to be sent, with the state for `store_copy`."""
        ...

    def on_lease_released(self, target: str, token: int) -> None:
        """Give the lease back to Redis."""
        ...

    def on_invalidated(self, target: str | None) -> None:
        """Invalidate `target`, or everything (None), on the other machines."""
        ...

    def on_slot_reserved(self, site: str, until: Instant) -> None:
        """Announce to the other machines that requests to `site` wait until this instant."""
        ...


class NoLeaseEffects:
    """The effects of leases on a machine that keeps no copies and announces nothing."""

    def stored_token(self, target: str) -> int:
        """Return 0."""
        return 0

    async def store_copy(self, target: str, found: StoredCopy, before: object) -> bool:
        """Return False: nothing is stored."""
        return False

    async def wait_purge_sent(self, target: str) -> object:
        """Return None at once."""
        return None

    def on_lease_released(self, target: str, token: int) -> None:
        """Do nothing."""

    def on_invalidated(self, target: str | None) -> None:
        """Do nothing."""

    def on_slot_reserved(self, site: str, until: Instant) -> None:
        """Do nothing."""
