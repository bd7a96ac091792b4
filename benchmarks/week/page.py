"""What player, origin and systems see at once: the time of the play, and how far the origin is.  A page of memory.

clock.c reads the first number, so that the peers live by it; the rest is ours.
"""

import mmap
import os
from pathlib import Path

_WALL, _BEGUN, _ENDED, _WAKES = range(4)
_SIZE = 4096

NEVER = float("inf")


class Page:
    """The page in this file, made if there is none. Each number has one writer: the origin counts its requests, the
    player moves the time, but while it waits for feedproxy to move it.
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
        # Assigned in one piece; struct.pack_into would write zeros first, and somebody reads at that moment.
        self._integers = memory.cast("q")
        self._reals = memory.cast("d")
        if made:
            self.wakes = NEVER

    @property
    def now(self) -> float:
        """The play's time, in Unix seconds; nanoseconds for the peers."""
        return self._integers[_WALL] / 1e9

    @now.setter
    def now(self, instant: float) -> None:
        self._integers[_WALL] = round(instant * 1e9)

    @property
    def begun(self) -> int:
        """Requests that the origin has read."""
        return self._integers[_BEGUN]

    @begun.setter
    def begun(self, count: int) -> None:
        self._integers[_BEGUN] = count

    @property
    def ended(self) -> int:
        """Requests that it has answered."""
        return self._integers[_ENDED]

    @ended.setter
    def ended(self, count: int) -> None:
        self._integers[_ENDED] = count

    @property
    def wakes(self) -> float:
        """When feedproxy wants to be woken next, in Unix seconds; nothing happens in it by itself before."""
        return self._reals[_WAKES]

    @wakes.setter
    def wakes(self, instant: float) -> None:
        self._reals[_WAKES] = instant
