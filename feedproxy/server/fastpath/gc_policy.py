"""Schedule of Python's garbage collections.

During a full collection of 0.1 s, or of one second with a million stored feeds, no client is answered. Objects that
survive a collection are excluded (gc.freeze) until the next full collection, so that a *recent collection* searches
only newer objects (docs/explanation/fast-path.md).
"""

import ctypes
import gc
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.clock import Seconds

YOUNG_THRESHOLD = 100
"""Python collects the young generation when, since the last collection, this many more objects were made than freed.

With 60 refreshes in progress, nine of ten collections then take at most 0.16 ms, instead of 1.2 to 2 ms with a
threshold of 500. The young generation has more objects than the threshold, because Python also subtracts freed objects
of older generations.
"""

MIDDLE_THRESHOLD = 0
"""Python collects the middle generation after more than this many young collections. With 0, every second collection is
of the middle generation."""

NEVER = 1_000_000
"""Python itself would collect the oldest generation after this many middle collections. The number is never reached."""

IDLE_AFTER: Seconds = 2
"""Clients count as idle after this many seconds without a request."""

FULL_INTERVAL_WHEN_IDLE: Seconds = 600
"""Seconds between two full collections while clients are idle."""

FULL_INTERVAL: Seconds = 21_600
"""A full collection runs this many seconds after the last, even if clients are not idle."""

FULL_GROWTH_SHARE, FULL_GROWTH_MIN = 1.0, 64 * 1024 * 1024
"""A full collection runs after the resident memory has grown by this fraction and by this many bytes since the last
full collection."""

RECENT_GROWTH_SHARE, RECENT_GROWTH_MIN = 0.025, 4 * 1024 * 1024
"""New objects are collected after the resident memory has grown by this fraction and by this many bytes since the last
collection."""

RECENT_INTERVAL: Seconds = 600
"""New objects are collected this many seconds after the last collection, even if memory has not grown."""

RECENT_MIDDLE_COLLECTIONS = 40
"""New objects are collected after this many collections of Python's middle generation: after 8,000 new objects. To
search these takes three milliseconds."""

INTERVAL_MIN: Seconds = 60
"""Minimum seconds between two full collections."""

TIME_SHARE_MAX = 0.001
"""Full collections take at most this fraction of the time."""

RECENT_INTERVAL_MIN: Seconds = 2
"""Minimum seconds between two collections of new objects.

A cycle of objects in use during such a collection is freed only by the next full collection. Such cycles are few: some
hundred small objects in two seconds, with 40 refreshes a second. mitmproxy's layers leave no cycles
(server/mitm/memory_of_ended_connections.py).
"""

CLEAN_INTERVAL: Seconds = 30
"""After a collection that found no garbage, new objects are not searched for this many seconds, unless memory grows.
Refreshes leave no cycles, and at 80 refreshes a second, each search delayed hits by 8 ms."""

RECENT_TIME_SHARE_MAX = 0.02
"""Collections of new objects take at most this fraction of the time. At 150 refreshes a second, they need 2 to 6 ms of
each second. With a lower limit, each collection would come later and take even longer."""

TRIM_INTERVAL: Seconds = 60
"""Seconds between two returns of unused memory to the system."""


_C_LIBRARY = ctypes.CDLL(None)


def trim() -> None:
    """Return unused heap memory to the system, if the C library has malloc_trim."""
    if (malloc_trim := getattr(_C_LIBRARY, "malloc_trim", None)) is not None:  # exists in glibc, not in musl or macOS
        malloc_trim(0)


def middle_collections() -> int:
    """Return the number of middle collections since the last full or recent collection."""
    return gc.get_count()[2]


def resident_memory() -> int:
    """Return the bytes of this process in physical memory, or 0 if the system has no /proc/self/statm."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


@contextmanager
def without_collections() -> Iterator[None]:
    """Run no collections in a `with` block that loads many objects, and exclude these objects from later collections.
    Python would search all objects several times while their number grows."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def freeze_startup_objects() -> None:
    """Exclude all present objects from later garbage collections. From now on, a GcScheduler decides when the oldest
    generation is collected, and Python itself collects only the younger generations."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, MIDDLE_THRESHOLD, NEVER)


class GcScheduler:
    """Scheduler of the garbage collections of all objects (full) and of new objects (recent). The caller calls
    `maybe_collect` every second."""

    def __init__(
        self,
        now: Seconds,
        trim: Callable[[], None] = trim,
        memory: Callable[[], int] = resident_memory,
        clock: Callable[[], Seconds] = time.thread_time,
        collections: Callable[[], int] = middle_collections,
    ) -> None:
        self._last_trim = now
        self._last_response = now
        self._responses = 0
        self._trim = trim
        self._memory = memory
        self._clock = clock
        self._collections = collections
        self._recent = self._full = _Collection(now, 0, memory())
        self._is_clean = False
        """True if the last collection, full or of new objects, found no garbage."""

    def maybe_collect(self, now: Seconds, responses: int) -> None:
        """Run a collection if one is due. After a full collection, and every TRIM_INTERVAL seconds, return unused
        memory to the system. `responses` is the number of responses sent so far."""
        if responses != self._responses:
            self._responses, self._last_response = responses, now
        is_full = self._is_full_due(now)
        is_due = is_full or self._is_recent_due(now)
        duration: Seconds = 0
        if is_due:
            duration = self._collect(is_full=is_full)
        elif self._is_clean and self._has_many_new_objects():
            gc.freeze()
        if is_full or now - self._last_trim >= TRIM_INTERVAL:
            self._last_trim = now
            self._trim()
        if is_due:
            last = _Collection(now, duration, self._memory())
            self._recent, self._full = (replace(last, duration=0), last) if is_full else (last, self._full)

    def _is_full_due(self, now: Seconds) -> bool:
        if not self._full.may_repeat(now, INTERVAL_MIN, TIME_SHARE_MAX):
            return False
        since = now - self._full.at
        if since >= FULL_INTERVAL or (since >= FULL_INTERVAL_WHEN_IDLE and now - self._last_response >= IDLE_AFTER):
            return True
        return self._full.has_grown(self._memory(), FULL_GROWTH_SHARE, FULL_GROWTH_MIN)

    def _is_recent_due(self, now: Seconds) -> bool:
        if not self._recent.may_repeat(now, RECENT_INTERVAL_MIN, RECENT_TIME_SHARE_MAX):
            return False
        since = now - self._recent.at
        if self._has_many_new_objects() and since >= (CLEAN_INTERVAL if self._is_clean else 0):
            return True
        if since >= RECENT_INTERVAL:
            return True
        return self._recent.has_grown(self._memory(), RECENT_GROWTH_SHARE, RECENT_GROWTH_MIN)

    def _has_many_new_objects(self) -> bool:
        return self._collections() >= RECENT_MIDDLE_COLLECTIONS

    def _collect(self, *, is_full: bool) -> Seconds:
        """Collect garbage, freeze the surviving objects, and return the CPU time in seconds."""
        began = self._clock()
        if is_full:
            gc.unfreeze()
        self._is_clean = not gc.collect()
        gc.freeze()
        return self._clock() - began


class _Collection(Struct, frozen=True):
    """The last collection of one kind (full or recent): its time and duration in seconds, and the memory after it in
    bytes."""

    at: Seconds
    duration: Seconds
    memory: int

    def may_repeat(self, now: Seconds, interval_min: Seconds, time_share_max: float) -> bool:
        """Return True if the last collection is at least `interval_min` seconds ago, and if collections at such
        intervals take at most the fraction `time_share_max` of the time."""
        return now - self.at >= max(interval_min, self.duration / time_share_max)

    def has_grown(self, memory: int, share: float, minimum: int) -> bool:
        """Return True if memory has grown by more than `minimum` bytes, and by more than the fraction `share`, since
        the last collection."""
        return memory - self.memory > max(minimum, share * self.memory)
