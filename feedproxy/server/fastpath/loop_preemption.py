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

PATIENCE: Seconds = 0.0005
"""How long readers may be unheard while steps are taken; a look at them costs a fiftieth of that."""

type Serve = Callable[[], None]


class Steps(deque[Any]):
    """The steps that are ready, with looks at the readers in between."""

    def __init__(self) -> None:
        super().__init__()
        self.serves: list[Serve] = []
        self._due: Seconds = 0.0

    def popleft(self) -> Any:
        """The next step; before it, readers who have waited for long enough are served."""
        step = super().popleft()
        if time.monotonic() >= self._due:
            looks = getattr(step, "_callback", None)
            for serve in self.serves:
                if serve == looks:
                    continue
                try:
                    serve()
                except Exception:
                    logger.exception("readers could not be served between two steps")
            self._due = time.monotonic() + PATIENCE
        return step


def serve_between(loop: asyncio.AbstractEventLoop, serve: Serve) -> Serve:
    """Let this be called between the loop's steps; what comes back ends that. A loop of another make is left alone."""
    steps: Any = getattr(loop, "_ready", None)
    if type(steps) is deque:
        watched = loop._ready = Steps()  # type: ignore[attr-defined]  # asyncio's own, and not declared
        while steps:
            watched.append(steps.popleft())
        steps = watched
    if not isinstance(steps, Steps):
        return lambda: None
    steps.serves.append(serve)
    return lambda: steps.serves.remove(serve)
