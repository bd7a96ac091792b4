"""Going through a whole store without keeping readers waiting."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable

from feedproxy.clock import Seconds

SLICE: Seconds = 0.004
"""As long as the event loop may be kept from readers, at one go."""


async def unhurried[T](values: Iterable[T]) -> AsyncIterator[T]:
    """These values, with a pause for others whenever a slice is over."""
    until = time.monotonic() + SLICE
    for value in values:
        yield value
        if time.monotonic() > until:
            await asyncio.sleep(0)
            until = time.monotonic() + SLICE
