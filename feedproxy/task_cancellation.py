"""Cancellation of asyncio tasks when their owner is closed."""

import asyncio
from collections.abc import Collection
from typing import Any

from feedproxy.clock import Seconds


async def cancel(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel the tasks, and wait until they have ended. None is ignored, and so are the exceptions of the tasks."""
    present = [task for task in tasks if task is not None]
    for task in present:
        task.cancel()
    await asyncio.gather(*present, return_exceptions=True)


async def finish(tasks: Collection[asyncio.Future[Any]], timeout: Seconds) -> None:
    """Wait up to `timeout` seconds until the tasks have ended, then cancel the rest."""
    if tasks:
        _, unfinished = await asyncio.wait(tasks, timeout=timeout)
        await cancel(*unfinished)
