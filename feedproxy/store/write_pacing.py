"""Pauses of a writing thread, in which the event loop gets the CPU.

A system may let a thread compute for some milliseconds before another gets the CPU. On a single CPU, hits waited four
milliseconds for the store, four times a second.
"""

import time

from feedproxy.clock import Seconds

PAUSE_MIN: Seconds = 0.0005


class WritePacer:
    """Work in slices of half a millisecond, each followed by a pause of the same length. For the writing thread."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def pause(self) -> None:
        """Sleep if the slice is over. For calls between two steps of the work."""
        if time.perf_counter() - self._began >= PAUSE_MIN:
            time.sleep(PAUSE_MIN)
            self._began = time.perf_counter()
