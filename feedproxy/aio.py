"""Going through much, a whole store for instance, without keeping readers waiting."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable

from feedproxy.clock import Seconds

MAX_BLOCKING_TIME: Seconds = 0.004
"""As long as the event loop may be kept from readers, at one go."""

THROTTLED_BLOCKING_TIME: Seconds = 0.001
IDLE_FACTOR = 3
"""What nobody waits for takes so long at one go, and then everybody else has so many times as long: a look may read the
disk, and a hit is not to wait for several. A look at a feed takes a seventh of a millisecond: 100,000 of them take a
minute, and a quarter of a CPU meanwhile."""


async def yielding[T](values: Iterable[T]) -> AsyncIterator[T]:
    """These values, with a pause for others whenever a slice is over."""
    until = time.monotonic() + MAX_BLOCKING_TIME
    for value in values:
        yield value
        if time.monotonic() > until:
            await asyncio.sleep(0)
            until = time.monotonic() + MAX_BLOCKING_TIME


async def throttled[T](values: Iterable[T]) -> AsyncIterator[T]:
    """These values, with a rest after every brief slice that leaves most of the time to others."""
    began = time.monotonic()
    for value in values:
        yield value
        took = time.monotonic() - began
        if took >= THROTTLED_BLOCKING_TIME:
            await asyncio.sleep(IDLE_FACTOR * took)
            began = time.monotonic()
