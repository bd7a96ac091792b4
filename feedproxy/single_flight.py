"""Single flight: concurrent callers with the same key share one task, so that they do not do the same work twice."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from feedproxy.background_work import finish


class SingleFlight[Key, Result]:
    """Running tasks by key. A cancelled caller does not cancel its task."""

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Task[Result], int] = {}
        self._running: dict[Key, asyncio.Task[Result]] = {}
        self._closed: set[asyncio.Task[Result]] = set()

    def __len__(self) -> int:
        return len(self._running) + len(self._closed)

    def __contains__(self, key: Key) -> bool:
        return key in self._running

    def join_or_start(
        self, key: Key, start: Callable[[], Coroutine[Any, Any, Result]]
    ) -> tuple[asyncio.Task[Result], bool]:
        """Return the task of this key, and True if the task was already running. If none is running, `start` starts
        one."""
        if (task := self._running.get(key)) is not None:
            return task, True
        task = asyncio.create_task(start())
        self._running[key] = task
        task.add_done_callback(lambda done: self._on_done(key, done))
        return task, False

    async def wait_for(
        self, task: asyncio.Task[Result], timeout: float | None, on_abandoned: Callable[[], None]
    ) -> Result:
        """Return the result of a task. Raises TimeoutError after `timeout` seconds, unless `timeout` is None.

        `on_abandoned` is called if this caller is cancelled and no other caller waits for the task.
        """
        if task.done():
            return task.result()
        self._waiters[task] = self._waiters.get(task, 0) + 1
        try:
            await asyncio.wait((task,), timeout=timeout)
        except asyncio.CancelledError:
            if self._waiters[task] == 1:
                on_abandoned()
            raise
        finally:
            self._waiters[task] -= 1
            if not self._waiters[task]:
                del self._waiters[task]
        if not task.done():
            raise TimeoutError
        return task.result()

    def stop_joining(self, key: Key) -> None:
        """Keep further calls from joining the task of this key."""
        if (task := self._running.pop(key, None)) is not None:
            self._closed.add(task)

    def _on_done(self, key: Key, task: asyncio.Task[Result]) -> None:
        if self._running.get(key) is task:
            del self._running[key]
        self._closed.discard(task)
        if not task.cancelled():
            task.exception()  # the exception is retrieved, so that asyncio does not warn about it

    async def drain(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for all running tasks, then cancel the rest."""
        await finish([*self._running.values(), *self._closed], timeout)
