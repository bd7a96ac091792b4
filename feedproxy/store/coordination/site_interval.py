"""The interval between two requests to a site (option `site_interval`), for all processes that use one store."""

import contextlib
import mmap
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager

from feedproxy.clock import Instant, Seconds, is_set_back
from feedproxy.event_signal import Signal
from feedproxy.store.coordination.shared_overflow import name_hash

SLOTS = 4096
BUCKET = 8
"""Number of records of sites in one bucket of the table. If all are occupied, the oldest is overwritten."""
FUTURE_MAX: Seconds = 172_800
"""A slot more than this many seconds in the future was written with a wrong clock, and is ignored."""

_RECORD = struct.Struct("<Qddd")
"""Layout: hash of the site, its last slot, the end of its pause, and the time of recording both."""
TABLE_SIZE = _RECORD.size * SLOTS


class SiteThrottle:
    """Planner of the requests to each site.

    A *slot* is the instant at which a request may be sent. The slots of a site are at least `interval` seconds apart.
    """

    def __init__(
        self,
        table: mmap.mmap | bytearray | None = None,
        start: int = 0,
        mutex: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """Use the records at offset `start` of `table`. If `table` is None, make a table for this process alone.
        `mutex` is a lock among all processes."""
        self._table = bytearray(TABLE_SIZE) if table is None else table
        self._start, self._mutex = start, mutex
        self.reserved: Signal[tuple[str, Instant]] = Signal()
        """Emits a site and the slot that this process has reserved, if the site has an interval."""
        self.paused: Signal[tuple[str, Instant]] = Signal()
        """Emits a site that this process has paused, and the end of the pause."""

    def next_free(self, site: str, interval: Seconds, now: Instant) -> Instant:
        """Return the instant of the site's next free slot. Return 0.0 if there is no record, or if its time is later
        than `now`, because a clock was wrong."""
        with self._mutex():
            _, last_slot, paused_until, recorded_at = self._find(name_hash(site))
        return 0.0 if is_set_back(recorded_at, now) else _next_free(last_slot, interval, paused_until)

    def paused_until(self, site: str, now: Instant) -> Instant:
        """Return the end of the site's pause. The site is not paused if the result is not later than `now`."""
        with self._mutex():
            _, _, paused_until, recorded_at = self._find(name_hash(site))
        return 0.0 if is_set_back(recorded_at, now) else paused_until

    def reserve(self, site: str, now: Instant, interval: Seconds) -> Instant:
        """Reserve the site's next slot for this caller, and return its instant."""
        key = name_hash(site)
        with self._mutex():
            offset, last_slot, paused_until, recorded_at = self._find(key)
            if is_set_back(recorded_at, now):
                last_slot = paused_until = 0.0
            free = _next_free(last_slot, interval, paused_until)
            slot = max(now, free) if free <= now + FUTURE_MAX else now
            paused_until = paused_until if paused_until <= now + FUTURE_MAX else 0.0
            _RECORD.pack_into(self._table, offset, key, slot, paused_until, now)
        if interval:
            self.reserved.emit((site, slot))
        return slot

    def reserve_for_peer(self, site: str, slot: Instant, now: Instant) -> None:
        """Record a slot that another machine has reserved."""
        key = name_hash(site)
        with self._mutex():
            offset, last_slot, paused_until, recorded_at = self._find(key)
            if is_set_back(recorded_at, now):
                last_slot = paused_until = 0.0
            _RECORD.pack_into(self._table, offset, key, max(last_slot, slot), paused_until, now)

    def pause(self, site: str, until: Instant) -> None:
        """Forbid requests to the site before the instant `until`.

        The origin has stated a limit for all feeds of the site.
        """
        self.pause_for_peer(site, until)
        self.paused.emit((site, until))

    def pause_for_peer(self, site: str, until: Instant) -> None:
        """Forbid requests to the site before the instant `until`, which another machine has announced."""
        key = name_hash(site)
        with self._mutex():
            offset, last_slot, paused_until, recorded_at = self._find(key)
            _RECORD.pack_into(self._table, offset, key, last_slot, max(paused_until, until), recorded_at)

    def close(self) -> None:
        del self._table

    def _find(self, key: int) -> tuple[int, Instant, Instant, Instant]:
        """Return the offset of a site's record, its last slot, the end of its pause, and the recording time.

        `key` is the hash of the site. For an unknown site, return the offset of the record to overwrite, and zeros.
        """
        first = self._start + (key >> 1) % (SLOTS // BUCKET) * BUCKET * _RECORD.size  # the hash is always odd
        oldest = (float("inf"), first)
        for offset in range(first, first + BUCKET * _RECORD.size, _RECORD.size):
            stored_key, last_slot, paused_until, recorded_at = _RECORD.unpack_from(self._table, offset)
            if stored_key == key:
                return offset, last_slot, paused_until, recorded_at
            oldest = min(oldest, (max(last_slot, paused_until) if stored_key else 0.0, offset))
        return oldest[1], 0.0, 0.0, 0.0


def _next_free(last_slot: Instant, interval: Seconds, paused_until: Instant) -> Instant:
    return max(last_slot + interval if last_slot else 0.0, paused_until)
