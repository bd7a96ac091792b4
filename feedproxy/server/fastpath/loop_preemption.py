"""Handling of client connections between two callbacks of the event loop.

asyncio serves connections once per iteration. With twenty concurrent refreshes, a hit would wait for twenty callbacks
of one or two milliseconds each. With the ready queue of this module, a hit waits for one callback. Other threads
release the interpreter lock after SWITCH_INTERVAL.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from feedproxy.clock import Seconds

logger = logging.getLogger(__name__)

PREEMPT_AFTER: Seconds = 0.0005
"""While callbacks run, connections are served again after this many seconds."""

SWITCH_INTERVAL: Seconds = 0.0005
"""A thread that computes releases Python's interpreter lock after this many seconds, if another thread waits for it.
With Python's default, clients would wait for 5 ms."""

type Callback = Callable[[], None]


class PreemptibleReadyQueue(deque[Any]):
    """Replacement of the ready queue of an event loop. It serves connections between the callbacks of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.callbacks: list[Callback] = []
        self._next_call: Seconds = 0.0

    def popleft(self) -> Any:
        """Return the loop's next handle. If PREEMPT_AFTER seconds have passed since the last service, serve the
        connections first."""
        handle = super().popleft()
        if time.monotonic() >= self._next_call:
            own_callback = getattr(handle, "_callback", None)
            for callback in self.callbacks:
                if callback == own_callback:
                    continue
                try:
                    callback()
                except Exception:
                    logger.exception(
                        "fast path: answering hits between two callbacks failed by a defect of feedproxy, trying again;"
                        " please report the traceback"
                    )
            self._next_call = time.monotonic() + PREEMPT_AFTER
        return handle


def call_between_callbacks(loop: asyncio.AbstractEventLoop, callback: Callback) -> Callback:
    """Call `callback` between the callbacks of asyncio's loop, and return a function that ends these calls. With any
    other loop, `callback` is never called."""
    ready: Any = getattr(loop, "_ready", None)
    if type(ready) is deque:
        queue = loop._ready = PreemptibleReadyQueue()  # type: ignore[attr-defined]  # asyncio's own, and not declared
        while ready:
            queue.append(ready.popleft())
        ready = queue
    if not isinstance(ready, PreemptibleReadyQueue):
        return lambda: None
    ready.callbacks.append(callback)
    return lambda: ready.callbacks.remove(callback)
