"""Who writes lets the event loop have the CPU in between.

A system lets a thread compute for some milliseconds before another has the CPU, and where there is but one, readers
wait so long: an answer that is known by heart waited four milliseconds for the store, four times a second.
"""

import time

from feedproxy.clock import Seconds

TURN: Seconds = 0.0005


class Turns:
    """Work in turns of half a millisecond, with as long a rest in between. For the thread that works."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def take(self) -> None:
        """Rest, where the turn is over. To be called between two pieces of work that cannot be parted."""
        if time.perf_counter() - self._began >= TURN:
            time.sleep(TURN)
            self._began = time.perf_counter()
