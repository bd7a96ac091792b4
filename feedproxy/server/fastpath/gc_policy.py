"""When Python's garbage collector runs.

A full collection of a full store takes a tenth of a second, in which no client is answered. Little garbage is made,
since nearly everything is freed by reference counting. So a full collection runs when clients are idle, or once a day;
objects made since then are collected every minute; and the young generation in a millisecond or less.
"""

import ctypes
import gc
import time
from collections.abc import Callable

from feedproxy.clock import Seconds

YOUNG_THRESHOLD, MIDDLE_THRESHOLD = 1_000, 1
"""Allocations before a collection of the young generation, and such collections before one of the middle generation: a
millisecond. Ten thousand objects of a full store take seven."""

OLD_THRESHOLD, NEVER = 2_000, 1_000_000
"""Looks at the middle ones before one at all."""

IDLE_AFTER: Seconds = 2
"""Seconds without a request after which clients count as idle."""

FULL_INTERVAL_WHEN_IDLE: Seconds = 600
"""Time between two full collections while clients are idle."""

FULL_INTERVAL: Seconds = 86_400
"""Time after which a full collection runs although clients are not idle."""

PARTIAL_INTERVAL: Seconds = 60
"""Time between two partial collections."""

FREEZE_ABOVE: Seconds = 0.02
"""A collection that takes longer freezes the survivors until the next full collection."""


_C = ctypes.CDLL(None)


def trim() -> None:
    """Give free memory inside the heap back to the system, as far as the C library can: some 0.3 ms for 50 MB.

    malloc returns what is free at the end of the heap only. Under mixed load free pages lie between pages in use.
    """
    if (give_back := getattr(_C, "malloc_trim", None)) is not None:  # glibc has it, musl and macOS do not
        give_back(0)


def freeze_startup_objects(*, has_scheduler: bool) -> None:
    """Freeze the objects that exist now, and set the thresholds for those that are made later.

    `has_scheduler`: a GcScheduler runs full collections; otherwise Python decides when every client waits.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, MIDDLE_THRESHOLD, NEVER if has_scheduler else OLD_THRESHOLD)


class GcScheduler:
    """Decides when collections run. `maybe_collect` is called each second; times are the event loop's."""

    def __init__(
        self, now: Seconds, perf_counter: Callable[[], Seconds] = time.perf_counter, trim: Callable[[], None] = trim
    ) -> None:
        self._last_collection = self._last_full = now
        self._last_response = now
        self._responses = 0
        self._perf_counter = perf_counter
        self._trim = trim

    def maybe_collect(self, now: Seconds, responses: int) -> bool:
        """Collect if it is due; `responses` have been sent so far. Return whether a collection ran."""
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
