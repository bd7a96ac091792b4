"""Schedule of Python's garbage collections.

A full collection of a process with a full store takes 0.1 s, during which no client is answered. Reference counting
frees nearly everything, so that little garbage accumulates. Therefore a full collection runs only while clients are
idle, or once a day. A partial collection, of the objects created since the last full one, runs every minute. Python
itself collects the young generation, in a millisecond or less.
"""

import ctypes
import gc
import time
from collections.abc import Callable

from feedproxy.clock import Seconds

YOUNG_THRESHOLD = 1_000
"""Number of allocations before a collection of the young generation. After 1,000 allocations a collection takes 1 ms,
and after 10,000 it takes 7 ms."""

MIDDLE_THRESHOLD = 1
"""Number of collections of the young generation before a collection of the middle generation."""

OLD_THRESHOLD = 2_000
"""Number of collections of the middle generation after which Python itself runs a full collection, in a process without
a GcScheduler.
"""

NEVER = 1_000_000
"""Number of collections of the middle generation before Python's own full collection, in a process with a GcScheduler.
It is never reached."""

IDLE_AFTER: Seconds = 2
"""Seconds without a request after which clients count as idle."""

FULL_INTERVAL_WHEN_IDLE: Seconds = 600
"""Seconds between two full collections while clients are idle."""

FULL_INTERVAL: Seconds = 86_400
"""Seconds after which a full collection runs even if clients are not idle."""

PARTIAL_INTERVAL: Seconds = 60
"""Seconds between two partial collections."""

PARTIAL_AFTER = 8
"""Number of collections of the middle generation after which a partial collection does not wait for PARTIAL_INTERVAL.
Each middle collection adds about 2,300 objects. Eight add 18,000, and a partial collection of these takes 5 ms. Without
this limit, one took 0.3 s in the first minute after a start with a million feeds."""

FREEZE_ABOVE: Seconds = 0.01
"""Duration in seconds above which a collection freezes the surviving objects until the next full collection."""


_C_LIBRARY = ctypes.CDLL(None)


def trim() -> None:
    """Return unused heap memory to the system, if the C library has malloc_trim. 50 MB take about 0.3 ms.

    free() returns only memory at the end of the heap. Under mixed load, free pages lie between used ones.
    """
    if (malloc_trim := getattr(_C_LIBRARY, "malloc_trim", None)) is not None:  # exists in glibc, not in musl or macOS
        malloc_trim(0)


def freeze_startup_objects(*, has_scheduler: bool) -> None:
    """Exclude all present objects from garbage collection, and set the thresholds for later objects.

    With `has_scheduler`, a GcScheduler runs full collections. Otherwise Python runs them at any time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, MIDDLE_THRESHOLD, NEVER if has_scheduler else OLD_THRESHOLD)


class GcScheduler:
    """Scheduler of garbage collections. The caller calls `maybe_collect` every second. Times are those of the event
    loop."""

    def __init__(
        self, now: Seconds, perf_counter: Callable[[], Seconds] = time.perf_counter, trim: Callable[[], None] = trim
    ) -> None:
        self._last_collection = self._last_full = now
        self._last_response = now
        self._responses = 0
        self._perf_counter = perf_counter
        self._trim = trim

    def maybe_collect(self, now: Seconds, responses: int) -> bool:
        """Run a collection if one is due. Return True if one ran. `responses` is the number of responses sent so
        far."""
        if responses != self._responses:
            self._responses, self._last_response = responses, now
        since = now - self._last_full
        if since >= FULL_INTERVAL or (since >= FULL_INTERVAL_WHEN_IDLE and now - self._last_response >= IDLE_AFTER):
            gc.unfreeze()
            self._collect()
            self._last_collection = self._last_full = now
            return True
        if now - self._last_collection < PARTIAL_INTERVAL and gc.get_count()[2] < PARTIAL_AFTER:
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
