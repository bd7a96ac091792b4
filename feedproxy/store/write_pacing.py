"""Who writes lets the event loop have the CPU in between.

A system lets a thread compute for some milliseconds before another has the CPU, and where there is but one, readers
wait so long: an answer that is known by heart waited four milliseconds for the store, four times a second.
"""

import time

from feedproxy.clock import Seconds

PAUSE_MIN: Seconds = 0.0005


class WritePacer:
    """Work in turns of half a millisecond, with as long a rest in between. For the thread that works."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def pause(self) -> None:
        """Rest, where the turn is over. To be called between two pieces of work that cannot be parted."""
        if time.perf_counter() - self._began >= PAUSE_MIN:
            time.sleep(PAUSE_MIN)
            self._began = time.perf_counter()
