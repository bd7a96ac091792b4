"""Clocks: the source of time for all other modules.

Instants are Unix seconds (UTC) and durations are seconds, both as float (docs/decisions/times-are-unix-seconds.md).
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
"""A duration in seconds."""

HOUR: Seconds = 3_600
DAY: Seconds = 86_400


CLOCK_TOLERANCE: Seconds = 10
"""The clock counts as set back if a recorded instant is more than this many seconds in the future."""


def is_set_back(recorded: Instant, now: Instant) -> bool:
    """Return True if the clock was set back after it had shown the instant `recorded`."""
    return recorded > now + CLOCK_TOLERANCE


CLOCK_UNSET_BEFORE: Instant = 1_000_000_000
"""Instant (in 2001) before which the machine's clock counts as not set. A clock without a battery begins in 1970 or
2000, until the machine gets the time from the network."""


def is_unset(now: Instant) -> bool:
    """Return True if the machine's clock is not set yet, and will jump forward."""
    return now < CLOCK_UNSET_BEFORE


class Clock(Protocol):
    """A clock: the current time, and sleeping."""

    def now(self) -> Instant:
        """Return the time in Unix seconds."""
        ...

    def monotonic(self) -> Seconds:
        """Return the seconds since a fixed moment. The result does not change when the clock is set."""
        ...

    async def sleep(self, seconds: Seconds) -> None:
        """Return when `seconds` have passed on this clock."""
        ...


class SystemClock:
    def now(self) -> Instant:
        return time.time()

    def monotonic(self) -> Seconds:
        return time.monotonic()

    async def sleep(self, seconds: Seconds) -> None:
        await asyncio.sleep(max(0.0, seconds))


class AcceleratedClock:
    """A clock that begins at `start` and runs `speed` times as fast as the machine's clock."""

    def __init__(self, start: Instant, speed: float) -> None:
        self._start = start
        self._speed = speed
        self._monotonic_start = time.monotonic()

    def now(self) -> Instant:
        return self._start + self.monotonic()

    def monotonic(self) -> Seconds:
        return (time.monotonic() - self._monotonic_start) * self._speed

    async def sleep(self, seconds: Seconds) -> None:
        await asyncio.sleep(max(0.0, seconds) / self._speed)


class ManualClock:
    """A clock that moves only when `advance` is called, for tests, demo and replay."""

    def __init__(self, start: Instant) -> None:
        self._now = start
        self._set_by: Seconds = 0
        self._sleepers: list[tuple[Instant, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> Instant:
        return self._now

    def monotonic(self) -> Seconds:
        return self._now - self._set_by

    async def sleep(self, seconds: Seconds) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future

    @property
    def next_wake(self) -> Instant:
        """Return the instant at which the next sleeper wakes, or infinity if there is no sleeper."""
        return self._sleepers[0][0] if self._sleepers else math.inf

    def advance(self, seconds: Seconds = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Advance the clock, and wake the sleepers that are due."""
        self._now += seconds + 60 * minutes + 3600 * hours + 86400 * days
        self._wake()

    def set(self, instant: Instant) -> None:
        """Set the clock, as an operator or a time server does: no time passes."""
        self._set_by += instant - self._now
        self._now = instant
        self._wake()

    def _wake(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)
