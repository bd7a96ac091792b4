"""Pauses of the writing thread, so that the event loop gets the CPU.

Without pauses on a single CPU, the store delayed hits by four milliseconds, four times a second.
"""

import time

from feedproxy.clock import Seconds

PAUSE_MIN: Seconds = 0.0005
"""Seconds of work after which the thread pauses, and seconds of each pause.

Other threads get the interpreter lock after this time in any case (`SWITCH_INTERVAL`). With half the time, the pauses
took a quarter of the thread's CPU time.
"""


class WritePacer:
    """Timer that makes the writing thread pause after PAUSE_MIN seconds of work."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def pause(self) -> None:
        """Sleep if the thread has worked for PAUSE_MIN. Call this method between two steps of work."""
        if time.perf_counter() - self._began >= PAUSE_MIN:
            time.sleep(PAUSE_MIN)
            self._began = time.perf_counter()
