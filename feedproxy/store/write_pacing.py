"""Pauses of the writing thread, so that the event loop gets the CPU.

The system may let a thread compute for some milliseconds before another thread gets the CPU. Without pauses, hits on a
single CPU waited four milliseconds for the store, four times a second.
"""

import time

from feedproxy.clock import Seconds

PAUSE_MIN: Seconds = 0.00025
"""Seconds of work after which the thread pauses, and length of the pause in seconds. The work may be longer by a step
of up to a millisecond."""


class WritePacer:
    """Timer for the writing thread: after each quarter of a millisecond of work, the thread pauses for as long."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def pause(self) -> None:
        """Sleep if the current quarter of a millisecond of work is over. The thread calls this between two steps of its
        work."""
        if time.perf_counter() - self._began >= PAUSE_MIN:
            time.sleep(PAUSE_MIN)
            self._began = time.perf_counter()
