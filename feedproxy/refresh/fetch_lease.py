"""The fetch lease of a target: the right to fetch the target. One process has the lease at a time."""

import asyncio
from types import TracebackType
from typing import Self

from feedproxy.clock import Seconds
from feedproxy.store.coordination.coordination_interface import Coordination

PEER_POLL_MIN: Seconds = 0.002
"""First pause between two attempts to acquire a lease, in seconds. The pause doubles after each attempt."""

PEER_POLL_MAX: Seconds = 0.02
"""Two attempts to acquire a lease are at most this many seconds apart."""


class FetchLease:
    """The fetch lease as an async context manager. It is acquired on entry and released on exit.

    On entry, the manager waits up to `timeout` seconds while another process has the lease. After the timeout, the
    block runs without the lease, because the other process can hang.
    """

    def __init__(self, coordination: Coordination, target: str, *, timeout: Seconds) -> None:
        self._coordination = coordination
        self._target = target
        self._timeout = timeout
        self._is_held = False
        self.completed_by_peer = False
        """True if another process refreshed the target while this process waited for the lease."""

    async def __aenter__(self) -> Self:
        completions = self._coordination.completion_count(self._target)
        self._is_held = await self._coordination.acquire_lease(self._target) or await self._wait()
        self.completed_by_peer = self._coordination.completion_count(self._target) != completions
        return self

    async def _wait(self) -> bool:
        """Wait until this process acquires the lease, and return True. After the timeout, return False."""
        loop, pause = asyncio.get_running_loop(), PEER_POLL_MIN
        deadline = loop.time() + self._timeout
        while loop.time() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, PEER_POLL_MAX)
            if await self._coordination.acquire_lease(self._target):
                return True
        return False

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Release the lease if this process has it. The `async with` block may call this method before its end."""
        if self._is_held:
            self._is_held = False
            self._coordination.release_lease(self._target)
