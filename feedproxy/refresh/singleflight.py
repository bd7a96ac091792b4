"""Single flight: who asks while the same thing is under way waits for it (RFC 9211's `collapsed`)."""

import asyncio
from collections.abc import Awaitable, Callable


class Flights[Key, Result]:
    """Tasks under way, by key.

    A waiter that goes away ends no task: what comes late is there for the next one. `landed` tells of a task whose
    waiters have all been cancelled.
    """

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Task[Result], int] = {}
        self._under_way: dict[Key, asyncio.Task[Result]] = {}
        self._closed: set[asyncio.Task[Result]] = set()

    def __len__(self) -> int:
        return len(self._under_way) + len(self._closed)

    def __contains__(self, key: Key) -> bool:
        return key in self._under_way

    def join(self, key: Key, start: Callable[[], Awaitable[Result]]) -> tuple[asyncio.Task[Result], bool]:
        """The task under way for this key, or a new one; and whether it was joined."""
        if (task := self._under_way.get(key)) is not None:
            return task, True
        task = asyncio.ensure_future(_run(start))
        self._under_way[key] = task
        task.add_done_callback(lambda done: self._landed(key, done))
        return task, False

    async def landed(self, task: asyncio.Task[Result], timeout: float, abandoned: Callable[[], None]) -> Result:
        """What a task brings. Raises TimeoutError after so many seconds.

        `abandoned` is called where this waiter is cancelled and no other is left.
        """
        if task.done():
            return task.result()
        self._waiting[task] = self._waiting.get(task, 0) + 1
        try:
            await asyncio.wait((task,), timeout=timeout)
        except asyncio.CancelledError:
            if self._waiting[task] == 1:
                abandoned()
            raise
        finally:
            self._waiting[task] -= 1
            if not self._waiting[task]:
                del self._waiting[task]
        if not task.done():
            raise TimeoutError
        return task.result()

    def close(self, key: Key) -> None:
        """Nobody joins what is under way for this key any more; it lands for those who wait already."""
        if (task := self._under_way.pop(key, None)) is not None:
            self._closed.add(task)

    def _landed(self, key: Key, task: asyncio.Task[Result]) -> None:
        if self._under_way.get(key) is task:
            del self._under_way[key]
        self._closed.discard(task)
        if not task.cancelled():
            task.exception()  # seen, though every waiter may have gone

    async def land_all(self, timeout: float) -> None:
        """Wait for all that is under way, `timeout` seconds at most; then cancel the rest."""
        tasks = [*self._under_way.values(), *self._closed]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _run[Result](start: Callable[[], Awaitable[Result]]) -> Result:
    return await start()
