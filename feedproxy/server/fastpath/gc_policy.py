"""When Python looks for garbage: objects that refer to one another in circles, and that nothing else refers to.

A look at all objects of a full store takes a tenth of a second, in which no client is answered. Little garbage is made,
since nearly everything is freed as soon as nothing refers to it. So all is looked at when clients are silent, or once a
day; what was made since the start, or since that look, every minute; and what is young in a millisecond or less.
"""

import ctypes
import gc
import time
from collections.abc import Callable

from feedproxy.clock import Seconds

YOUNG, MIDDLE = 1_000, 1
"""Objects made before the young ones are looked at, and such looks before one at what has survived them: a few thousand
then, in a millisecond. Ten thousand of a full store take seven."""

WHOLE, NEVER = 2_000, 1_000_000
"""Looks at the middle ones before one at all."""

SILENT: Seconds = 2
"""Seconds without a request, after which clients count as silent."""

SELDOM: Seconds = 600
"""Between two looks at everything."""

DAY: Seconds = 86_400
"""After this long everything is looked at though clients are not silent."""

MINUTE: Seconds = 60
"""Between two looks while clients are not silent."""

TOLERATED: Seconds = 0.02
"""A look that takes longer leaves out, from then on, what has survived it, until everything is looked at."""


_C = ctypes.CDLL(None)


def trim() -> None:
    """Give free memory inside the heap back to the system, as far as the C library can: some 0.3 ms for 50 MB.

    malloc returns what is free at the end of the heap only. Under mixed load free pages lie between pages in use.
    """
    if (give_back := getattr(_C, "malloc_trim", None)) is not None:  # glibc has it, musl and macOS do not
        give_back(0)


def look_seldom(*, told_when: bool) -> None:
    """What was made until now stays, and need not be looked at again; what is made later is looked at as said above.

    `told_when`: a Garbage tells when all is looked at; else Python finds out, and every client waits.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, NEVER if told_when else WHOLE)


class Garbage:
    """When all that is held is looked through. `look` is called each second; times are the event loop's."""

    def __init__(
        self, now: Seconds, took: Callable[[], Seconds] = time.perf_counter, trim: Callable[[], None] = trim
    ) -> None:
        self._looked = self._whole = now
        self._asked = now
        self._answers = 0
        self._clock = took
        self._trim = trim

    def look(self, now: Seconds, answers: int) -> bool:
        """Look, if it is time; `answers` have been given so far. Whether it was."""
        if answers != self._answers:
            self._answers, self._asked = answers, now
        since = now - self._whole
        if since >= DAY or (since >= SELDOM and now - self._asked >= SILENT):
            gc.unfreeze()
            self._collect()
            self._looked = self._whole = now
            return True
        if now - self._looked < MINUTE:
            return False
        self._looked = now
        self._collect()
        return True

    def _collect(self) -> None:
        began = self._clock()
        gc.collect()
        if self._clock() - began > TOLERATED:
            gc.freeze()
        self._trim()
