"""Serves client connections between two callbacks of the event loop, not only once an iteration.

An iteration of asyncio's loop runs all ready callbacks: with twenty concurrent refreshes a hit would wait for twenty
callbacks of a millisecond or two. So the loop's ready queue is replaced: when PREEMPT_AFTER has passed since the
connections were served, they are served before the next callback. A hit then waits for one callback.
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
"""Time that connections may wait while callbacks run; serving them once costs a fiftieth of that."""

type Callback = Callable[[], None]


class PreemptibleReadyQueue(deque[Any]):
    """The loop's ready queue, with calls to the connections' callback in between."""

    def __init__(self) -> None:
        super().__init__()
        self.callbacks: list[Callback] = []
        self._next_call: Seconds = 0.0

    def popleft(self) -> Any:
        """Return the next handle, after serving connections if PREEMPT_AFTER has passed."""
        handle = super().popleft()
        if time.monotonic() >= self._next_call:
            own_callback = getattr(handle, "_callback", None)
            for callback in self.callbacks:
                if callback == own_callback:
                    continue
                try:
                    callback()
                except Exception:
                    logger.exception("fast path: serving between two callbacks failed")
            self._next_call = time.monotonic() + PREEMPT_AFTER
        return handle


def call_between_callbacks(loop: asyncio.AbstractEventLoop, callback: Callback) -> Callback:
    """Call `callback` between the loop's callbacks. Return a function that ends this; other loop classes are left
    alone."""
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
