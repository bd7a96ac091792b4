"""Writing behind: what is put is there at once, and one thread writes it to the disk in its time.

What waits is the truth about everything that is not on disk yet: a later value replaces an earlier one, so
a feed put ten times is written once, and a delete wins over the put before it. An entry leaves only when
exactly that value was written.

What could not be written leaves its mark in `unwritten`: the disk may still have an older value there, which
must not come back once memory has forgotten the newer one. (The mark does not outlive the process.)
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.errors import StoreError
from feedproxy.store.interface import OnFailure
from feedproxy.store.write_pacing import WritePacer

QUEUE_MAX = 64 * 1024 * 1024
"""Bytes that wait: about half a second of a usual disk."""
BATCH_MAX = 64
"""Values written together."""
WAIT_TIMEOUT = 1.0
"""Seconds that a `put` waits for room. A disk that hangs for longer must not hold up readers; later ones do not wait
until it has taken something again."""
CLOSE_TIMEOUT = 5.0
"""Seconds that are left to the disk at the end, for all that still waits."""


@dataclass(slots=True, eq=False)
class PendingWrite[Value]:
    """A value on its way; None is a delete. Compared by identity."""

    value: Value | None
    size: int
    completions: list[Future[None]] = field(default_factory=list)
    """Who wants to know when it is written, or has failed; a later value takes them over."""


class WriteQueue[Key, Value]:
    """A bounded map from keys to values that wait for the writer thread."""

    def __init__(
        self,
        write: Callable[[Key, Value | None], None],
        *,
        holds: Callable[[Key], bool],
        idle: Callable[[], bool],
        on_failure: OnFailure,
        write_all: Callable[[Sequence[tuple[Key, Value | None]]], None] | None = None,
        batch_window: Seconds = 0.0,
        queue_max: int = QUEUE_MAX,
        timeout: Seconds = WAIT_TIMEOUT,
    ) -> None:
        """`write` and `holds` (is there an older value?) may raise StoreError.

        `write_all` writes several; where it raises, each is written by itself. So that there are several, what is
        added waits `gather` seconds. `idle` does a slice of other work when nothing waits, and says whether there is
        more.
        """
        self._write_all, self._batch_window = write_all, batch_window
        self._batch_timer: asyncio.TimerHandle | None = None
        self._write, self._holds, self._idle, self._on_failure = write, holds, idle, on_failure
        self._max, self._timeout = queue_max, timeout
        self._pending: dict[Key, PendingWrite[Value]] = {}
        self._size = 0
        self._lock = threading.Lock()
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="feedproxy-store")
        self._run: Future[None] | None = None
        self._woken = False
        self._stuck = False
        self.failed_keys: set[Key] = set()

    def pending(self, key: Key) -> PendingWrite[Value] | None:
        """What waits to be written under this key."""
        return self._pending.get(key)

    def names(self) -> list[tuple[Key, bool]]:
        """What waits, and whether it is a value (not a delete)."""
        with self._lock:
            return [(key, entry.value is not None) for key, entry in self._pending.items()]

    async def add(self, key: Key, value: Value | None, size: int) -> None:
        """Queue it. It counts from the beginning of this call, which waits only where too much is queued."""
        entry = self._put(key, PendingWrite(value, size))
        if not self._batch_window or self._size > self._max // 8:
            self.wake()
        elif self._batch_timer is None:
            self._batch_timer = asyncio.get_running_loop().call_later(self._batch_window, self.wake)
        while self._size > self._max and self._pending.get(key) is entry:
            if not await self._writer_done(0.0 if self._stuck else self._timeout):
                self._stuck = True
                # Not asked whether the disk has an older one: it does not answer.
                if self._remove(key, entry, stale=True):
                    self._report_failure(StoreError("the store's disk is too slow: a value was not written"))
                return

    async def write(self, key: Key, value: Value | None, size: int, timeout: Seconds | None = None) -> bool:
        """Queue it, and return when it, or what was put in its place meanwhile, is written or has failed.

        False where that takes longer than `patience` seconds; then it waits on.
        """
        over: Future[None] = Future()
        self._put(key, PendingWrite(value, size, [over]))
        self.wake()
        # `wait` takes it for nobody's when the one who waits is cancelled: others may wait for the same.
        waited = self._timeout if timeout is None else timeout
        done, _ = await asyncio.wait([asyncio.wrap_future(over)], timeout=waited)
        return bool(done)

    def give_up(self, key: Key, value: Value | None) -> None:
        """Do not write this value, where it still waits."""
        entry = self._pending.get(key)
        if entry is not None and entry.value is value and self._remove(key, entry, stale=True):
            self._report_failure(StoreError("the store's disk is too slow: a value was not written"))

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return self._size

    async def wait_written(self, key: Key) -> None:
        """Return when what waits under this key, or what takes its place meanwhile, is written or has failed."""
        over: Future[None] = Future()
        with self._lock:
            entry = self._pending.get(key)
            if entry is None:
                return
            entry.completions.append(over)
        self.wake()
        await asyncio.wait([asyncio.wrap_future(over)], timeout=self._timeout)

    def _put(self, key: Key, entry: PendingWrite[Value]) -> PendingWrite[Value]:
        with self._lock:
            old = self._pending.get(key)
            self._pending[key] = entry
            self._size += entry.size
            if old is not None:
                self._size -= old.size
                entry.completions += old.completions
        return entry

    def wake(self) -> None:
        """Let the writer see to what waits and to its other work."""
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        with self._lock:
            self._woken = True
            if self._run is None or self._run.done():
                try:
                    self._run = self._writer.submit(self._work)
                except RuntimeError:  # no new work after the end
                    lost = list(self._pending.values())
                    self._pending.clear()
                    self._size = 0
                    _complete(lost)
                    self._report_failure(StoreError("the store is closed: a value was not written"))

    async def flush(self) -> None:
        """Return when nothing waits any more."""
        while self._pending:
            self.wake()
            await self._writer_done(None)
        await self._writer_done(None)

    async def close(self, last: Callable[[], Any], hurry: Callable[[], Any] = lambda: None) -> None:
        """Flush, call `last` in the writer thread, and end the thread.

        What is not written in time is given up; `hurry` is called then, to end a write that waits.
        """
        try:
            await asyncio.wait_for(self.flush(), CLOSE_TIMEOUT)
        except TimeoutError:
            hurry()
            with self._lock:
                lost = list(self._pending.values())
                self._pending.clear()
                self._size = 0
            _complete(lost)
            self._report_failure(
                StoreError(f"the store's disk is too slow: {len(lost)} values were not written at the end")
            )
        try:
            await asyncio.wrap_future(self._writer.submit(last))
        except RuntimeError:
            return
        self._writer.shutdown()

    async def _writer_done(self, timeout: Seconds | None) -> bool:
        run = self._run
        if run is None or run.done():
            return True
        # `wait` leaves it running when the one who waits is cancelled: everybody's writes depend on it.
        done, _ = await asyncio.wait([asyncio.wrap_future(run)], timeout=timeout)
        return bool(done)

    # -- in the writer thread

    def _work(self) -> None:
        turns = WritePacer()
        while True:
            turns.pause()
            with self._lock:
                entries = list(islice(self._pending.items(), BATCH_MAX if self._write_all else 1))
                self._woken = False
            if entries:
                self._write_some(entries)
                continue
            more = False
            try:
                more = self._idle()
            except Exception as error:  # the writer outlives whatever happens to it
                self._report_failure(error)
            with self._lock:
                # Woken meanwhile: what that was about may have come after `idle` had looked.
                if not self._pending and not more and not self._woken:
                    self._run = None
                    return

    def _write_some(self, entries: list[tuple[Key, PendingWrite[Value]]]) -> None:
        if self._write_all is not None and len(entries) > 1:
            with contextlib.suppress(Exception):  # whatever it is: each by itself tells whose it is
                self._write_all([(key, entry.value) for key, entry in entries])
                for key, entry in entries:
                    self._is_written(key, entry)
                return
        for key, entry in entries:
            if self._pending.get(key) is entry:  # else a later value has taken its place while others were written
                self._write_one(key, entry)

    def _write_one(self, key: Key, entry: PendingWrite[Value]) -> None:
        try:
            self._write(key, entry.value)
        except Exception as error:
            self._report_failure(error)  # before those who wait for it go on
            self._remove(key, entry, stale=self._may_hold(key))
        else:
            self._is_written(key, entry)

    # -- in both

    def _remove(self, key: Key, entry: PendingWrite[Value], *, stale: bool) -> bool:
        """Take out exactly this entry; False where a newer one has taken its place.

        `stale`: the disk has, or may have, an older value.
        """
        with self._lock:
            if self._pending.get(key) is not entry:
                # Behind those that have waited longer.
                if key in self._pending:
                    self._pending[key] = self._pending.pop(key)
                return False
            # The mark is set before the entry goes: in between a reader would see the older value.
            if stale:
                self.failed_keys.add(key)
            else:
                self.failed_keys.discard(key)
            del self._pending[key]
            self._size -= entry.size
        _complete([entry])
        return True

    def _is_written(self, key: Key, entry: PendingWrite[Value]) -> None:
        self._stuck = False
        self._remove(key, entry, stale=False)

    def _may_hold(self, key: Key) -> bool:
        try:
            return self._holds(key)
        except Exception:
            return True

    def _report_failure(self, error: Exception) -> None:
        failure = error if isinstance(error, StoreError) else StoreError(f"the store's writer failed: {error!r}")
        try:
            self._on_failure(failure)
        except Exception:
            # A metric that fails must not end the thread that writes.
            return


def _complete(entries: Iterable[PendingWrite[Any]]) -> None:
    for entry in entries:
        for over in entry.completions:
            if not over.done():
                over.set_result(None)
