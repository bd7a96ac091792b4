"""Time comes from a Clock; only the edge asks the machine.

Instants are Unix seconds (UTC) and durations are seconds, both as float: HTTP's ages and lifetimes are
whole seconds anyway, and arithmetic on plain numbers is what the path of a hit can afford.
(docs/decisions/times-are-unix-seconds.md)
"""

import asyncio
import heapq
import itertools
import math
import time
from typing import Protocol

type Instant = float
"""Seconds since 1970-01-01T00:00:00Z."""

type Seconds = float
"""A length of time."""


CLOCK_TOLERANCE: Seconds = 10
"""An instant that was noted, and is further ahead than this, is of a clock that has been set back since. Less is what
the clocks of several machines differ by, and what a clock that is kept right jumps."""


def is_set_back(noted: Instant, now: Instant) -> bool:
    """Whether an instant that was `now` when it was noted cannot have been: the clock was set back since."""
    return noted > now + CLOCK_TOLERANCE


class Clock(Protocol):
    """What the product asks of time."""

    def now(self) -> Instant:
        """The wall clock, in Unix seconds."""
        ...

    async def sleep(self, seconds: Seconds) -> None:
        """Return once `seconds` have passed on this clock."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> Instant:
        return time.time()

    async def sleep(self, seconds: Seconds) -> None:
        await asyncio.sleep(max(0.0, seconds))


class AcceleratedClock:
    """A clock that begins at `start` and runs `speed` times as fast as the machine's."""

    def __init__(self, start: Instant, speed: float = 1.0) -> None:
        self._start = start
        self._speed = speed
        self._began = time.monotonic()

    def now(self) -> Instant:
        return self._start + (time.monotonic() - self._began) * self._speed

    async def sleep(self, seconds: Seconds) -> None:
        await asyncio.sleep(max(0.0, seconds) / self._speed)


class ManualClock:
    """A clock that stands still until it is told to move: for tests, demo and replay."""

    def __init__(self, start: Instant) -> None:
        self._now = start
        self._sleepers: list[tuple[Instant, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> Instant:
        return self._now

    async def sleep(self, seconds: Seconds) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), waiter))
        await waiter

    @property
    def next_wake(self) -> Instant:
        """Return when the next sleeper wakes; infinity where none sleeps."""
        return self._sleepers[0][0] if self._sleepers else math.inf

    def advance(self, seconds: Seconds = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Move on, and wake those whose time has come."""
        self._now += seconds + 60 * minutes + 3600 * hours + 86400 * days
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, waiter = heapq.heappop(self._sleepers)
            if not waiter.done():
                waiter.set_result(None)
