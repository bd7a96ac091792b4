"""A page of memory that player, origin and systems share: the time of the play, and the numbers of requests that the
origin has read and has answered.

clock.c reads the first number, so that the peers use the play's time.
"""

import mmap
import os
from pathlib import Path

_WALL, _BEGUN, _ENDED, _WAKES = range(4)
_SIZE = 4096

NEVER = float("inf")


class Page:
    """The page in a file, which is created if it is missing. Each number has one writer at a time: the origin counts
    its requests. The player advances the time, except while it waits for feedproxy to do so.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        made = not path.exists()
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if made:
                os.ftruncate(file, _SIZE)
            memory = memoryview(mmap.mmap(file, _SIZE))
        finally:
            os.close(file)
        # Each number is assigned in one piece. struct.pack_into would write zeros first, which another process could
        # read.
        self._integers = memory.cast("q")
        self._reals = memory.cast("d")
        if made:
            self.wakes = NEVER

    @property
    def now(self) -> float:
        """The play's time, in Unix seconds. The page contains it in nanoseconds, for the peers."""
        return self._integers[_WALL] / 1e9

    @now.setter
    def now(self, instant: float) -> None:
        self._integers[_WALL] = round(instant * 1e9)

    @property
    def begun(self) -> int:
        """Number of requests that the origin has read."""
        return self._integers[_BEGUN]

    @begun.setter
    def begun(self, count: int) -> None:
        self._integers[_BEGUN] = count

    @property
    def ended(self) -> int:
        """Number of requests that the origin has answered."""
        return self._integers[_ENDED]

    @ended.setter
    def ended(self, count: int) -> None:
        self._integers[_ENDED] = count

    @property
    def wakes(self) -> float:
        """The instant in Unix seconds up to which feedproxy has no work of its own."""
        return self._reals[_WAKES]

    @wakes.setter
    def wakes(self, instant: float) -> None:
        self._reals[_WAKES] = instant
