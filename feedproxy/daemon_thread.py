"""Work in a thread of its own, which delays neither the event loop nor the exit of the process."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future


def run_in_daemon_thread[Result](work: Callable[[], Result], name: str) -> asyncio.Future[Result]:
    """Start a thread with this name, and return the future result of `work`. Raises RuntimeError if the system has no
    thread left.

    Unlike the threads of an executor, the thread is a daemon: Python does not wait for its end. The future is done when
    the thread ends, unless the future is cancelled before. A caller that may be cancelled can shield it.
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
