"""Work in the background: its repetition, its cancellation when its owner is closed, and work in daemon threads."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import Future
from typing import Any

from feedproxy.clock import Seconds

logger = logging.getLogger(__name__)


async def repeat(interval: Seconds, work: Callable[[], Awaitable[object]], name: str) -> None:
    """Wait `interval` seconds and await `work`, again and again. A defect in the work is logged under `name`, and does
    not end the repetition."""
    while True:
        await asyncio.sleep(interval)
        try:
            await work()
        except Exception:
            logger.exception("%s failed by a defect of feedproxy, trying again; please report the traceback", name)


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


def run_in_daemon_thread[Result](work: Callable[[], Result], name: str) -> asyncio.Future[Result]:
    """Start a thread with this name, and return the future result of `work`. Raises RuntimeError if the system has no
    thread left.

    The thread is a daemon: Python does not wait for its end. The future is done when the thread ends, unless the future
    is cancelled before. A caller that can be cancelled can shield the future.
    """
    result: Future[Result] = Future()
    result.set_running_or_notify_cancel()  # the thread cannot be cancelled

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return asyncio.wrap_future(result)
