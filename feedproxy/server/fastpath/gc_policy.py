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

YOUNG_THRESHOLD, MIDDLE_THRESHOLD = 1_000, 1
"""Objects made before the young ones are looked at, and such looks before one at what has survived them: a few thousand
then, in a millisecond. Ten thousand of a full store take seven."""

OLD_THRESHOLD, NEVER = 2_000, 1_000_000
"""Looks at the middle ones before one at all."""

IDLE_AFTER: Seconds = 2
"""Seconds without a request, after which clients count as silent."""

FULL_INTERVAL_WHEN_IDLE: Seconds = 600
"""Between two looks at everything."""

FULL_INTERVAL: Seconds = 86_400
"""After this long everything is looked at though clients are not silent."""

PARTIAL_INTERVAL: Seconds = 60
"""Between two looks while clients are not silent."""

FREEZE_ABOVE: Seconds = 0.02
"""A look that takes longer leaves out, from then on, what has survived it, until everything is looked at."""


_C = ctypes.CDLL(None)


def trim() -> None:
    """Give free memory inside the heap back to the system, as far as the C library can: some 0.3 ms for 50 MB.

    malloc returns what is free at the end of the heap only. Under mixed load free pages lie between pages in use.
    """
    if (give_back := getattr(_C, "malloc_trim", None)) is not None:  # glibc has it, musl and macOS do not
        give_back(0)


def freeze_startup_objects(*, has_scheduler: bool) -> None:
    """What was made until now stays, and need not be looked at again; what is made later is looked at as said above.

    `told_when`: a Garbage tells when all is looked at; else Python finds out, and every client waits.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, MIDDLE_THRESHOLD, NEVER if has_scheduler else OLD_THRESHOLD)


class GcScheduler:
    """When all that is held is looked through. `look` is called each second; times are the event loop's."""

    def __init__(
        self, now: Seconds, perf_counter: Callable[[], Seconds] = time.perf_counter, trim: Callable[[], None] = trim
    ) -> None:
        self._last_collection = self._last_full = now
        self._last_response = now
        self._responses = 0
        self._perf_counter = perf_counter
        self._trim = trim

    def maybe_collect(self, now: Seconds, responses: int) -> bool:
        """Look, if it is time; `answers` have been given so far. Whether it was."""
        if responses != self._responses:
            self._responses, self._last_response = responses, now
        since = now - self._last_full
        if since >= FULL_INTERVAL or (since >= FULL_INTERVAL_WHEN_IDLE and now - self._last_response >= IDLE_AFTER):
            gc.unfreeze()
            self._collect()
            self._last_collection = self._last_full = now
            return True
        if now - self._last_collection < PARTIAL_INTERVAL:
            return False
        self._last_collection = now
        self._collect()
        return True

    def _collect(self) -> None:
        began = self._perf_counter()
        gc.collect()
        if self._perf_counter() - began > FREEZE_ABOVE:
            gc.freeze()
        self._trim()
