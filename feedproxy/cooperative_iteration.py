"""Iteration over many values, such as a whole store, with pauses for the event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable

from feedproxy.clock import Seconds

MAX_BLOCKING_TIME: Seconds = 0.004
"""An iteration blocks the event loop for at most this many seconds at a time: well below a network round trip."""

THROTTLED_BLOCKING_TIME: Seconds = 0.0005
"""A background task blocks the event loop for at most this many seconds at a time. A hit sometimes has to wait for
several such tasks."""

IDLE_FACTOR = 3
"""A background task pauses for this many times the time of its work. Work of 0.14 ms for each of 100,000 feeds then
takes about a minute, and a quarter of a CPU."""


LATE_MIN: Seconds = 0.002
"""If a pause ends more than this many seconds late, the event loop counts as busy."""

LATE_FACTOR = 10
"""If a pause ends late, the next pause is longer by this many times the delay. The first LATE_MIN seconds of a delay do
not count."""


async def iterate_cooperatively[T](values: Iterable[T], blocking_time: Seconds | None = None) -> AsyncIterator[T]:
    """Yield the values, and run other tasks after each `blocking_time` seconds (default: MAX_BLOCKING_TIME)."""
    blocking_time = MAX_BLOCKING_TIME if blocking_time is None else blocking_time
    deadline = time.monotonic() + blocking_time
    for value in values:
        yield value
        if time.monotonic() > deadline:
            await asyncio.sleep(0)
            deadline = time.monotonic() + blocking_time


async def iterate_in_background[T](values: Iterable[T], idle_factor: float = IDLE_FACTOR) -> AsyncIterator[T]:
    """Yield the values. After each THROTTLED_BLOCKING_TIME seconds, sleep `idle_factor` times as long, or longer while
    the event loop is busy."""
    start, late = time.monotonic(), 0.0
    for value in values:
        yield value
        elapsed = time.monotonic() - start
        if elapsed >= THROTTLED_BLOCKING_TIME:
            pause = idle_factor * elapsed + LATE_FACTOR * late
            await asyncio.sleep(pause)
            woken = time.monotonic()
            start, late = woken, max(0.0, woken - start - elapsed - pause - LATE_MIN)
