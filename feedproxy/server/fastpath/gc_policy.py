"""Schedule of Python's garbage collections.

A full collection takes 0.1 s, and several times as long with a full store. During this time no client is answered.
Reference counting frees nearly everything, so that little garbage accumulates. Therefore a full collection runs only
while clients are idle, after memory has grown, or every six hours. Python itself collects new objects, in less than a
millisecond. Objects that survive two of these collections are excluded from garbage collection until the next full one
(gc.freeze). Otherwise Python would search all objects created since the last full collection for garbage from time to
time. With 35 refreshes per second, this took 5 to 25 ms every four seconds.
"""

import ctypes
import gc
import resource
import time
from collections.abc import Callable

from feedproxy.clock import Seconds

YOUNG_THRESHOLD = 500
"""Number of new objects after which Python collects the young generation. This takes 0.3 ms, and the next collection,
of the middle generation, 0.6 ms."""

MIDDLE_THRESHOLD = 0
"""Number of collections of the young generation that do not begin a collection of the middle generation. With 0, every
second collection is of the middle generation."""

NEVER = 1_000_000
"""Number of collections of the middle generation before Python's own full collection. It is never reached."""

IDLE_AFTER: Seconds = 2
"""Seconds without a request after which clients count as idle."""

FULL_INTERVAL_WHEN_IDLE: Seconds = 600
"""Seconds between two full collections while clients are idle."""

FULL_INTERVAL: Seconds = 21_600
"""Seconds after which a full collection runs even if clients are not idle."""

GROWTH_SHARE = 0.025
"""Growth of the resident memory since the last full collection, as a fraction, after which a full collection runs even
if clients are not idle. Each connection that mitmproxy intercepts leaves some kilobytes of garbage, so that a client
could otherwise fill the memory."""

GROWTH_MIN = 4 * 1024 * 1024
"""Growth in bytes that does not cause a full collection, whatever its fraction."""

FULL_INTERVAL_MIN: Seconds = 60
"""Minimum seconds between two full collections, also if memory keeps growing."""

TIME_SHARE_MAX = 0.001
"""Largest share of the time that full collections take while memory keeps growing. After a collection of 0.1 s, the
next one runs 100 s later at the earliest."""

TRIM_INTERVAL: Seconds = 60
"""Seconds between two returns of unused memory to the system."""


_C_LIBRARY = ctypes.CDLL(None)


def trim() -> None:
    """Return unused heap memory to the system, if the C library has malloc_trim. 50 MB take about 0.3 ms.

    free() returns only memory at the end of the heap. Under mixed load, free pages lie between used ones.
    """
    if (malloc_trim := getattr(_C_LIBRARY, "malloc_trim", None)) is not None:  # exists in glibc, not in musl or macOS
        malloc_trim(0)


def resident_memory() -> int:
    """Return the bytes of this process in physical memory, or 0 if the system has no /proc/self/statm."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def freeze_startup_objects() -> None:
    """Exclude all present objects from garbage collection, and later objects when they have survived two collections.

    A GcScheduler runs full collections.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, MIDDLE_THRESHOLD, NEVER)
    gc.callbacks.append(freeze_survivors)


def freeze_survivors(phase: str, info: dict[str, int]) -> None:
    """Exclude the survivors of a collection of the middle generation, or of a full one, from garbage collection. Python
    calls this function at the start and at the end of each collection (`gc.callbacks`)."""
    if phase == "stop" and info["generation"]:
        gc.freeze()


class GcScheduler:
    """Scheduler of full garbage collections. The caller calls `maybe_collect` every second. Times are those of the
    event loop. `memory` returns the bytes of the process, and `clock` measures the duration of a collection."""

    def __init__(
        self,
        now: Seconds,
        trim: Callable[[], None] = trim,
        memory: Callable[[], int] = resident_memory,
        clock: Callable[[], Seconds] = time.perf_counter,
    ) -> None:
        self._last_trim = self._last_full = now
        self._last_response = now
        self._responses = 0
        self._trim = trim
        self._memory = memory
        self._clock = clock
        self._duration: Seconds = 0
        self._memory_after_full = memory()

    def maybe_collect(self, now: Seconds, responses: int) -> None:
        """Run a full collection if one is due, and return unused memory to the system every TRIM_INTERVAL seconds.
        `responses` is the number of responses sent so far."""
        if responses != self._responses:
            self._responses, self._last_response = responses, now
        if is_due := self._is_full_due(now):
            began = self._clock()
            gc.unfreeze()
            gc.collect()
            self._duration = self._clock() - began
            self._last_full = now
        elif now - self._last_trim < TRIM_INTERVAL:
            return
        self._last_trim = now
        self._trim()
        if is_due:
            self._memory_after_full = self._memory()

    def _is_full_due(self, now: Seconds) -> bool:
        since = now - self._last_full
        if since < max(FULL_INTERVAL_MIN, self._duration / TIME_SHARE_MAX):
            return False
        if since >= FULL_INTERVAL or (since >= FULL_INTERVAL_WHEN_IDLE and now - self._last_response >= IDLE_AFTER):
            return True
        growth = self._memory() - self._memory_after_full
        return growth > max(GROWTH_MIN, GROWTH_SHARE * self._memory_after_full)
