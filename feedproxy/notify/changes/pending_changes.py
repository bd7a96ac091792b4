"""Pending changes: the changes that are not recorded in the database yet."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from feedproxy.clock import Clock, Seconds
from feedproxy.notify.changes.change_log import ChangeLog, ExtraDeliveries, FeedSnapshot
from feedproxy.notify.notification_protocol import Change, DeliveryRequest
from feedproxy.store.interface import Store

PENDING_MAX = 10_000
"""While the database fails, at most this many changes wait. Further changes are recorded at the next start
(`PendingChanges.reconcile`)."""

BATCH_SIZE = 100
"""One transaction records at most this many changes."""

STORE_WRITE_TIMEOUT: Seconds = 5
"""A notification waits at most this many seconds until the store has written the changed feed."""

NEW_FEED_DELAY: Seconds = 0.5
"""New feeds are collected for this many seconds, and then recorded in one transaction."""


class PendingChanges:
    """The pending changes of one process."""

    def __init__(
        self,
        changes: ChangeLog,
        store: Store,
        clock: Clock,
        claim_delivery: Callable[[FeedSnapshot], Awaitable[bool]] | None,
        extra_deliveries: ExtraDeliveries,
    ) -> None:
        self._changes = changes
        self._store = store
        self._clock = clock
        self._claim_delivery = claim_delivery
        self._extra_deliveries = extra_deliveries
        self._snapshots: list[FeedSnapshot] = []
        self._of_peers: set[FeedSnapshot] = set()
        self._writing = asyncio.Lock()

    def add(self, snapshot: FeedSnapshot, *, is_of_peer: bool = False) -> Seconds:
        """Add a change. Return the number of seconds to wait for further changes before all are recorded. `is_of_peer`
        is True if another machine found the change."""
        if len(self._snapshots) < PENDING_MAX:
            self._snapshots.append(snapshot)
            if is_of_peer:
                self._of_peers.add(snapshot)
        return NEW_FEED_DELAY if snapshot.is_new else 0

    async def write(self) -> None:
        """Record the changes in the database. They stay pending until the commit.

        A change is recorded only after the store has written the feed, so that each recorded change has the content to
        send. If the process crashes in between, the next start compares the stored feeds with the database, and records
        the change. Changes that are added during the call wait for the next call, so that transactions stay large.
        """
        async with self._writing:
            remaining = len(self._snapshots)
            while batch := self._snapshots[: min(remaining, BATCH_SIZE)]:
                await self._wait_stored(batch)
                await self._record(batch)
                self._of_peers.difference_update(batch)
                del self._snapshots[: len(batch)]
                remaining -= len(batch)

    async def reconcile(self, snapshots: Sequence[FeedSnapshot]) -> None:
        """Record the changes that the previous process has left unrecorded in the database."""
        unrecorded = await self._changes.unrecorded(snapshots)
        if self._claim_delivery is None:
            # Another process of this machine may have recorded and delivered a change since the query. A new snapshot
            # that is recorded already has no deliveries.
            unrecorded = [replace(snapshot, is_new=True) for snapshot in unrecorded]
        await self._record(unrecorded)

    async def _record(self, snapshots: Sequence[FeedSnapshot]) -> None:
        """Record changes. First claim the changes that this machine found, so that only one machine makes their extra
        deliveries."""
        claimed = {
            snapshot.target
            for snapshot in snapshots
            if snapshot not in self._of_peers and (self._claim_delivery is None or await self._claim_delivery(snapshot))
        }
        await self._changes.record(snapshots, self._clock.now(), partial(self._claimed_deliveries, claimed))

    def _claimed_deliveries(self, claimed: set[str], change: Change) -> Iterable[DeliveryRequest]:
        return self._extra_deliveries(change) if change.target in claimed else ()

    async def _wait_stored(self, batch: list[FeedSnapshot]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STORE_WRITE_TIMEOUT):
                for snapshot in batch:
                    await self._store.wait_written(snapshot.target)
