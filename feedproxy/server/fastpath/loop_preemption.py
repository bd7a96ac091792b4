"""Readers are looked at between two steps of the event loop, not only once a turn.

A turn of asyncio's loop runs everything that is ready: twenty updates that go on at once take twenty steps of a
millisecond or two before whoever asks for a hit is heard. So the loop's queue of steps is watched: where it is PATIENCE
since the readers were looked at, they are before the next step, as if their turn had come. A hit then waits for one
step, not for all.
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
"""How long readers may be unheard while steps are taken; a look at them costs a fiftieth of that."""

type Callback = Callable[[], None]


class PreemptibleReadyQueue(deque[Any]):
    """The steps that are ready, with looks at the readers in between."""

    def __init__(self) -> None:
        super().__init__()
        self.callbacks: list[Callback] = []
        self._next_call: Seconds = 0.0

    def popleft(self) -> Any:
        """The next step; before it, readers who have waited for long enough are served."""
        handle = super().popleft()
        if time.monotonic() >= self._next_call:
            own_callback = getattr(handle, "_callback", None)
            for callback in self.callbacks:
                if callback == own_callback:
                    continue
                try:
                    callback()
                except Exception:
                    logger.exception("readers could not be served between two steps")
            self._next_call = time.monotonic() + PREEMPT_AFTER
        return handle


def call_between_callbacks(loop: asyncio.AbstractEventLoop, callback: Callback) -> Callback:
    """Let this be called between the loop's steps; what comes back ends that. A loop of another make is left alone."""
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
