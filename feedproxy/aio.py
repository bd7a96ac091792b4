"""Iterate over many values, such as a whole store, without blocking the event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable

from feedproxy.clock import Seconds

MAX_BLOCKING_TIME: Seconds = 0.004
"""Longest time in which an iteration blocks the event loop before it yields: well below a round trip."""

THROTTLED_BLOCKING_TIME: Seconds = 0.001
IDLE_FACTOR = 3
"""Background work blocks the loop for one millisecond, then rests three times as long as it took. One feed takes a
seventh of a millisecond: 100,000 feeds take a minute, at a quarter of a CPU."""


async def yielding[T](values: Iterable[T]) -> AsyncIterator[T]:
    """Yield these values, and control to the event loop after each MAX_BLOCKING_TIME."""
    until = time.monotonic() + MAX_BLOCKING_TIME
    for value in values:
        yield value
        if time.monotonic() > until:
            await asyncio.sleep(0)
            until = time.monotonic() + MAX_BLOCKING_TIME


async def throttled[T](values: Iterable[T]) -> AsyncIterator[T]:
    """Yield these values, and sleep IDLE_FACTOR times as long as each THROTTLED_BLOCKING_TIME took."""
    began = time.monotonic()
    for value in values:
        yield value
        took = time.monotonic() - began
        if took >= THROTTLED_BLOCKING_TIME:
            await asyncio.sleep(IDLE_FACTOR * took)
            began = time.monotonic()
