"""Comparison of this machine's copies with those in Redis, after events were lost or Redis was unavailable."""

import asyncio
from collections.abc import Awaitable, Callable

from feedproxy.fleet.fleet_store import FleetStore
from feedproxy.fleet.redis_connection import RedisRefused, RedisUnavailable
from feedproxy.fleet.redis_operations import RedisOperations
from feedproxy.task_cancellation import cancel

COMPARE_BATCH = 200
"""Number of copies in one request to Redis."""


class CopyComparison:
    """The comparison of copies by their fencing tokens.

    A newer copy in Redis replaces this machine's copy, and a later purge in Redis deletes it. A newer copy of this
    machine is sent to Redis.

    `is_mine` returns True for the targets that this worker compares. `invalidate` discards the refreshes of a target
    that are in progress, before its copy is deleted.
    """

    def __init__(
        self,
        store: FleetStore,
        redis_operations: RedisOperations,
        is_mine: Callable[[str], bool],
        invalidate: Callable[[str], Awaitable[None]],
    ) -> None:
        self._store = store
        self._redis_operations = redis_operations
        self._is_mine = is_mine
        self._invalidate = invalidate
        self._task: asyncio.Task[None] | None = None
        self._is_requested = False
        self.count = 0
        """Number of complete comparisons."""

    def request(self) -> None:
        """Start a comparison of all copies. If a comparison is in progress, the new one follows it."""
        self._is_requested = True
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._compare())

    async def _compare(self) -> None:
        try:
            while self._is_requested:
                self._is_requested = False
                batch: list[str] = []
                for target in self._store.targets():
                    if self._is_mine(target):
                        batch.append(target)
                    if len(batch) == COMPARE_BATCH:
                        await self._compare_batch(batch)
                        batch = []
                await self._compare_batch(batch)
                self.count += 1
        except (RedisUnavailable, RedisRefused):
            return  # all copies are compared again when Redis is available

    async def _compare_batch(self, targets: list[str]) -> None:
        if not targets:
            return
        for target, (version, has_copy) in zip(targets, await self._redis_operations.versions(targets), strict=True):
            await self._store.load(target)
            stored_token = self._store.stored_token(target)
            if version > stored_token and has_copy:
                self._store.schedule_pull(target)
            elif version > stored_token:
                await self._invalidate(target)
                await self._store.drop(target)
            elif stored_token > version and self._store.local.peek(target) is not None:
                self._store.redis_queue.enqueue_copy(target, 0)
        await asyncio.sleep(0)

    async def close(self) -> None:
        await cancel(self._task)
