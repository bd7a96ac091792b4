"""Iterate over many values, such as a whole store, without blocking the event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable

from feedproxy.clock import Seconds

MAX_BLOCKING_TIME: Seconds = 0.004
"""Longest time in which an iteration blocks the event loop before it yields: well below a round trip."""

THROTTLED_BLOCKING_TIME: Seconds = 0.001
"""Longest time in which background work blocks the event loop before it sleeps."""

IDLE_FACTOR = 3
"""Multiple of its working time for which background work sleeps. A feed takes a seventh of a millisecond: 100,000 feeds
take a minute, at a quarter of a CPU."""


async def yielding[T](values: Iterable[T]) -> AsyncIterator[T]:
    """Yield these values, and control to the event loop after each MAX_BLOCKING_TIME."""
    deadline = time.monotonic() + MAX_BLOCKING_TIME
    for value in values:
        yield value
        if time.monotonic() > deadline:
            await asyncio.sleep(0)
            deadline = time.monotonic() + MAX_BLOCKING_TIME


async def throttled[T](values: Iterable[T]) -> AsyncIterator[T]:
    """Yield these values, and sleep IDLE_FACTOR times as long as each THROTTLED_BLOCKING_TIME took."""
    start = time.monotonic()
    for value in values:
        yield value
        elapsed = time.monotonic() - start
        if elapsed >= THROTTLED_BLOCKING_TIME:
            await asyncio.sleep(IDLE_FACTOR * elapsed)
            start = time.monotonic()
