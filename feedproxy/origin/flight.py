"""Single flight: who asks while the same thing is under way waits for it (RFC 9211's `collapsed`)."""

import asyncio
from collections.abc import Awaitable, Callable


class Flights[Key, Result]:
    """Tasks under way, by key. The task is ours: a waiter that goes away does not end it."""

    def __init__(self) -> None:
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


async def landed[Result](task: asyncio.Task[Result], timeout: float) -> Result:
    """What a flight brings; who waits may go away without ending it. Raises TimeoutError after so many seconds."""
    if not task.done():
        await asyncio.wait((task,), timeout=timeout)
    if not task.done():
        raise TimeoutError
    return task.result()


async def _run[Result](start: Callable[[], Awaitable[Result]]) -> Result:
    return await start()
