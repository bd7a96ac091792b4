"""The fetch lease of a target: the right to fetch the target, which one of the processes that share a store has at a
time."""

import asyncio
from types import TracebackType
from typing import Self

from feedproxy.clock import Seconds
from feedproxy.store.coordination_interface import Coordination

PEER_POLL_MIN: Seconds = 0.002
"""First pause in seconds between two attempts to acquire a lease that another process holds. Each further pause is
twice as long, up to PEER_POLL_MAX."""

PEER_POLL_MAX: Seconds = 0.02
"""Longest pause in seconds between two attempts to acquire a lease. An attempt takes about a microsecond."""


class FetchLease:
    """The fetch lease as an async context manager: it is acquired on entry and released on exit.

    On entry, the manager waits at most `timeout` seconds while another process holds the lease. After that, the block
    runs without the lease, so that a process that hangs does not keep other processes from an origin.
    """

    def __init__(self, coordination: Coordination, target: str, *, timeout: Seconds) -> None:
        self._coordination = coordination
        self._target = target
        self._timeout = timeout
        self._is_held = False
        self.completed_by_peer = False
        """True if another process completed a refresh of the target while this one waited for the lease."""

    async def __aenter__(self) -> Self:
        completions, pause = self._coordination.completion_count(self._target), PEER_POLL_MIN
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        while not (acquired := await self._coordination.acquire_lease(self._target)) and loop.time() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, PEER_POLL_MAX)
        self._is_held = acquired
        self.completed_by_peer = self._coordination.completion_count(self._target) != completions
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Release the lease before the block ends. The call has no effect if the lease is not held."""
        if self._is_held:
            self._is_held = False
            self._coordination.release_lease(self._target)
