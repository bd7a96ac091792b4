"""What is to be refreshed when: the doing beside prefetch.py's decisions.

A heap of instants, one for each feed that the schedule looks after, and one task that sleeps until the first. What is
decided then is decided anew from what is stored: a feed that somebody else has refreshed meanwhile, in whatever
process, simply gets its next instant. Nothing is remembered over a restart, since everything follows from the store
and from who reads what.
"""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import assert_never

from feedproxy.aio import throttled
from feedproxy.clock import Clock, Instant, Seconds, is_set_back
from feedproxy.refresh.policy.prefetch import Later, Plan, Refresh, Rest

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Scheduled updates under way at a time: readers' own come first, and a start after a long stop is no storm."""

NAP: Seconds = 60
"""The longest sleep: a machine that was suspended, or whose clock was set, is noticed after that."""


class Agenda:
    """Owns the scheduled updates. `look` decides about one feed, `refresh` asks for it and returns when it is over."""

    def __init__(self, clock: Clock, look: Callable[[str], Plan], refresh: Callable[[str], Awaitable[object]]) -> None:
        self._clock = clock
        self._look = look
        self._refresh = refresh
        self._due: dict[str, Instant] = {}
        self._heap: list[tuple[Instant, str]] = []
        self._runner: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._wakes: asyncio.Event | None = None
        self._closed = False
        self._latest: Instant = 0.0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, target: str) -> bool:
        return target in self._due

    def start(self, targets: Iterable[str]) -> None:
        """Take up these feeds again, a few at a time, in their order."""
        self._starting = asyncio.ensure_future(self._start(targets))

    def note(self, target: str) -> None:
        """What is known of a feed has changed: reckon anew when to look at it."""
        if self._closed:
            return
        match self._look(target):
            case Refresh():
                self._put(target, self._clock.now())
            case Later(at):
                self._put(target, at)
            case Rest():
                self._due.pop(target, None)
            case never:
                assert_never(never)

    async def close(self) -> None:
        """Begin nothing any more. What is under way lands where all updates land."""
        self._closed = True
        tasks = [each for each in (self._runner, self._starting, *self._under_way) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self, targets: Iterable[str]) -> None:
        async for target in throttled(targets):
            if target not in self._due:
                self.note(target)

    def _put(self, target: str, at: Instant) -> None:
        if self._due.get(target) != at:
            self._due[target] = at
            heapq.heappush(self._heap, (at, target))
            self._tidy()
        if self._runner is None:
            self._wakes = asyncio.Event()
            self._runner = asyncio.ensure_future(self._run(self._wakes))
        elif self._wakes is not None and self._heap[0] == (at, target):
            self._wakes.set()

    def _tidy(self) -> None:
        """Instants that were put off stay in the heap until their time; not when they are most of it."""
        if len(self._heap) > 64 + 2 * len(self._due):
            self._heap = [(at, target) for target, at in self._due.items()]
            heapq.heapify(self._heap)

    async def _run(self, wakes: asyncio.Event) -> None:
        while True:
            wakes.clear()
            now = self._clock.now()
            if is_set_back(self._latest, now):
                # The clock was set back: what is due was reckoned with another.
                async for target in throttled(list(self._due)):
                    self.note(target)
            self._latest = now
            while self._heap and self._heap[0][0] <= self._clock.now():
                if len(self._under_way) >= AT_ONCE:
                    await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
                    continue
                at, target = heapq.heappop(self._heap)
                if self._due.get(target) == at:
                    del self._due[target]
                    self._turn(target)
            await self._wait(wakes)

    async def _wait(self, wakes: asyncio.Event) -> None:
        left = self._heap[0][0] - self._clock.now() if self._heap else NAP
        sleeping = asyncio.ensure_future(self._clock.sleep(min(left, NAP)))
        waking = asyncio.ensure_future(wakes.wait())
        try:
            await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()

    def _turn(self, target: str) -> None:
        match self._look(target):
            case Refresh():
                task = asyncio.ensure_future(self._refreshed(target))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
            case Later(at):
                self._put(target, at)
            case Rest():
                pass
            case never:
                assert_never(never)

    async def _refreshed(self, target: str) -> None:
        try:
            await self._refresh(target)
        except Exception:
            logger.exception("a scheduled update failed")
