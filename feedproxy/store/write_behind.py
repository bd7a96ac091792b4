"""Write-behind queue: a value counts as stored at once, and one thread writes it to the disk.

Reads must search the queue before the disk. A later value of a key replaces the queued value.

A value that could not be written stays in the queue for further attempts (write_retries.py). If the queue has no room,
the value is dropped, and its key is in `failed_keys` until a later value is written: an older value must not be read.
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
from feedproxy.store.writer_thread_pauses import WritePacer

QUEUE_MAX = 64 * 1024 * 1024
"""Maximum size of the queue, in bytes. A usual disk writes this amount in about half a second."""
BATCH_WINDOW: Seconds = 0.25
"""Time, in seconds, by which a write is delayed, so that further writes share its transaction."""
BATCH_MAX = 64
"""Maximum number of values that are written together."""
WAIT_TIMEOUT = 1.0
"""Maximum time, in seconds, for which a `put` waits for room in the queue.

If a `put` has found no room in this time, later calls do not wait. They wait again after the disk has written a value.
"""
CLOSE_TIMEOUT = 5.0
"""Maximum time, in seconds, for which closing the queue waits until all values are written."""


@dataclass(slots=True, eq=False)
class PendingWrite[Value]:
    """A value to write, or None to delete the key's value. Objects are compared by identity."""

    value: Value | None
    size: int
    completions: list[Future[None]] = field(default_factory=list)
    """Futures that are completed when the write of this or a later value of the key succeeds or fails."""


class WriteQueue[Key, Value]:
    """A bounded map from keys to values that the writer thread has to write."""

    def __init__(
        self,
        write: Callable[[Key, Value | None], None],
        *,
        holds: Callable[[Key], bool],
        idle: Callable[[], bool],
        on_failure: OnFailure,
        write_all: Callable[[Sequence[tuple[Key, Value | None]]], None] | None = None,
        batch_window: Seconds = 0.0,
        retains: bool = True,
        queue_max: int = QUEUE_MAX,
        timeout: Seconds = WAIT_TIMEOUT,
    ) -> None:
        """Create a queue.

        - `write`: write a value, or delete it if it is None. Raises StoreError.
        - `holds`: return True if the disk has a value of the key, which is then older than the queued value. Raises
          StoreError.
        - `write_all`: write several values. After an error, each value is written separately.
        - `idle`: do a step of other work while no new value is queued. Return True if work is left.
        - `batch_window`: seconds for which a write is delayed.
        - `retains`: True to keep values that could not be written. `write_again` tries to write them again.
        - `queue_max`: maximum size of the queued values, in bytes.
        - `timeout`: seconds for which a call waits for room, or for its write.
        """
        self._write_all, self._batch_window = write_all, batch_window
        self._batch_timer: asyncio.TimerHandle | None = None
        self._write, self._holds, self._idle, self._on_failure = write, holds, idle, on_failure
        self._max, self._timeout, self._retains = queue_max, timeout, retains
        self._pending: dict[Key, PendingWrite[Value]] = {}
        self.size = 0
        """Total size of the values before their first attempt, in bytes."""
        self._unwritten: dict[Key, PendingWrite[Value]] = {}
        """The values that could not be written, the one with the oldest attempt first."""
        self._unwritten_size = 0
        self._lock = threading.Lock()
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="feedproxy-store")
        self._run: Future[None] | None = None
        self._woken = False
        self._stuck = False
        self.failed_keys: set[Key] = set()

    def pending_write(self, key: Key) -> PendingWrite[Value] | None:
        """Return the queued write of this key, or None."""
        with self._lock:
            return self._pending.get(key) or self._unwritten.get(key)

    def names(self) -> list[tuple[Key, bool]]:
        with self._lock:
            return [(key, entry.value is not None) for key, entry in (self._unwritten | self._pending).items()]

    def unwritten_keys(self) -> list[Key]:
        """Return the keys of the values that could not be written."""
        with self._lock:
            return list(self._unwritten)

    @property
    def unwritten_count(self) -> int:
        """Return the number of values that could not be written and will be tried again."""
        return len(self._unwritten)

    async def add(self, key: Key, value: Value | None, size: int) -> None:
        """Queue a value. Reads of the queue find it at once. Wait only if the queue is full. If it is still full after
        the time limit, the value is dropped, and the failure is reported."""
        entry = self._put(key, PendingWrite(value, size))
        if not self._batch_window or self.size > self._max // 8:
            self.wake()
        elif self._batch_timer is None:
            self._batch_timer = asyncio.get_running_loop().call_later(self._batch_window, self.wake)
        while self.size > self._max and self._pending.get(key) is entry:
            if not await self._writer_done(0.0 if self._stuck else self._timeout):
                self._stuck = True
                # `holds` is not called, because the disk does not respond.
                if self._remove(key, entry, stale=True):
                    self._report_failure(StoreError("store: the disk is too slow, a value was not written"))
                return

    async def write(self, key: Key, value: Value | None, size: int, timeout: Seconds | None = None) -> bool:
        """Queue a value, and return True when this or a later value of its key is written or has failed.

        Return False after `timeout` seconds (the queue's own limit if None). The value then stays in the queue.
        """
        completion: Future[None] = Future()
        self._put(key, PendingWrite(value, size, [completion]))
        self.wake()
        # `asyncio.wait` does not cancel the future with this task, because other tasks may wait for the future.
        timeout_or_default = self._timeout if timeout is None else timeout
        done, _ = await asyncio.wait([asyncio.wrap_future(completion)], timeout=timeout_or_default)
        return bool(done)

    def discard(self, key: Key, value: Value | None) -> None:
        """Remove this value from the queue and report a failure, unless the value was replaced or written."""
        entry = self._pending.get(key)
        if entry is not None and entry.value is value and self._remove(key, entry, stale=True):
            self._report_failure(StoreError("store: the disk is too slow, a value was not written"))

    async def wait_written(self, key: Key) -> None:
        """Wait until this key's queued value, or a later one, is written or has failed. Stop at the time limit."""
        if key not in self._pending:
            return
        completion: Future[None] = Future()
        with self._lock:
            entry = self._pending.get(key)
            if entry is None:
                return
            entry.completions.append(completion)
        self.wake()
        await asyncio.wait([asyncio.wrap_future(completion)], timeout=self._timeout)

    def _put(self, key: Key, entry: PendingWrite[Value]) -> PendingWrite[Value]:
        with self._lock:
            old = self._pending.get(key)
            self._pending[key] = entry
            self.size += entry.size
            self._forget_unwritten(key)
            if old is not None:
                self.size -= old.size
                entry.completions += old.completions
        return entry

    def wake(self) -> None:
        """Let the writer thread process the queue, and then the work of `idle`."""
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        with self._lock:
            self._woken = True
            if self._run is None or self._run.done():
                try:
                    self._run = self._writer.submit(self._work)
                except RuntimeError:  # the executor is shut down
                    self._discard_pending()
                    self._report_failure(StoreError("store: closed, a value was not written"))

    async def flush(self) -> None:
        """Wait until every queued write has succeeded or failed."""
        while self._pending:
            self.wake()
            await self._writer_done(None)
        await self._writer_done(None)

    async def close(self, finish: Callable[[], Any], stop_waiting: Callable[[], Any] = lambda: None) -> None:
        """Flush, call `finish` in the writer thread, and end the thread.

        After CLOSE_TIMEOUT, discard the remaining values, and call `stop_waiting` to end a write that waits for a lock.
        """
        try:
            await asyncio.wait_for(self.flush(), CLOSE_TIMEOUT)
        except TimeoutError:
            stop_waiting()
            with self._lock:
                lost = self._discard_pending()
            self._report_failure(StoreError(f"store: the disk is too slow, {lost} values were not written at the end"))
        if lost := self.unwritten_count:
            self._report_failure(StoreError(f"store: {lost} values could not be written before the end"))
            with self._lock:
                self._unwritten.clear()
        try:
            await asyncio.wrap_future(self._writer.submit(finish))
        except RuntimeError:
            return
        self._writer.shutdown()

    def _discard_pending(self) -> int:
        """Remove all queued values, and return their number. The caller must hold the lock."""
        pending = list(self._pending.values())
        self._pending.clear()
        self.size = 0
        _complete(pending)
        return len(pending)

    async def _writer_done(self, timeout: Seconds | None) -> bool:
        run = self._run
        if run is None or run.done():
            return True
        # `asyncio.wait` does not cancel the writer's run with this task, because all writes depend on the run.
        done, _ = await asyncio.wait([asyncio.wrap_future(run)], timeout=timeout)
        return bool(done)

    # -- in the writer thread

    def _work(self) -> None:
        pacer = WritePacer()
        while True:
            pacer.pause()
            with self._lock:
                entries = list(islice(self._pending.items(), BATCH_MAX if self._write_all else 1))
                self._woken = False
            if entries:
                self._write_some(entries)
                continue
            more = False
            try:
                more = self._idle()
            except Exception as error:  # the writer thread must not end
                self._report_failure(error)
            with self._lock:
                # `wake` was called during `idle`, perhaps after `idle` had looked for work.
                if not self._pending and not more and not self._woken:
                    self._run = None
                    return

    def _write_some(self, entries: list[tuple[Key, PendingWrite[Value]]]) -> None:
        if self._write_all is not None and len(entries) > 1:
            with contextlib.suppress(Exception):  # separate writes report the failed entry
                self._write_all([(key, entry.value) for key, entry in entries])
                for key, entry in entries:
                    self._is_written(key, entry)
                return
        for key, entry in entries:
            if self._pending.get(key) is entry:  # otherwise a later value has replaced the entry
                self._write_one(key, entry)

    def _write_one(self, key: Key, entry: PendingWrite[Value]) -> None:
        try:
            self._write(key, entry.value)
        except Exception as error:
            self._report_failure(error)  # the failure is reported before waiting tasks continue
            if self._retains and isinstance(error, StoreError):
                self._retain(key, entry)
            else:
                self._remove(key, entry, stale=self._may_hold(key))
        else:
            self._is_written(key, entry)

    def _retain(self, key: Key, entry: PendingWrite[Value]) -> None:
        """Keep a value that could not be written. If the queue is too large, drop values with the oldest attempts."""
        lost = []
        with self._lock:
            if self._pending.get(key) is entry:
                del self._pending[key]
                self.size -= entry.size
                self._unwritten[key] = entry
                self._unwritten_size += entry.size
            while self._unwritten and self.size + self._unwritten_size > self._max:
                lost.append(oldest := next(iter(self._unwritten)))
                # Set the mark before the entry is removed (see `_remove`).
                self.failed_keys.add(oldest)
                self._forget_unwritten(oldest)
        _complete([entry])
        for lost_key in lost:
            if not self._may_hold(lost_key):
                self.failed_keys.discard(lost_key)
        if lost:
            self._report_failure(StoreError("store: too many values wait to be written, the oldest was dropped"))

    def write_again(self, key: Key) -> None:
        """Try again to write the unwritten value of a key, if there is one. Raises StoreError if this fails.

        Only the writer thread may call this method.
        """
        entry = self._unwritten.get(key)
        if entry is None:
            return
        try:
            self._write(key, entry.value)
        except StoreError as error:
            self._report_failure(error)
            with self._lock:
                if self._unwritten.get(key) is entry:
                    self._unwritten[key] = self._unwritten.pop(key)
            raise
        with self._lock:
            if self._unwritten.get(key) is entry:
                self.failed_keys.discard(key)
                self._forget_unwritten(key)

    # -- in both threads

    def _forget_unwritten(self, key: Key) -> None:
        entry = self._unwritten.pop(key, None)
        if entry is not None:
            self._unwritten_size -= entry.size

    def _remove(self, key: Key, entry: PendingWrite[Value], *, stale: bool) -> bool:
        """Remove this entry. Return False if a newer entry has replaced it, else True. `stale` is True if the disk can
        have an older value."""
        with self._lock:
            if self._pending.get(key) is not entry:
                # The entry moves behind entries that have waited longer.
                if key in self._pending:
                    self._pending[key] = self._pending.pop(key)
                return False
            # Set the mark before the entry is removed: otherwise a read between the two steps would find the older
            # value on the disk.
            if stale:
                self.failed_keys.add(key)
            else:
                self.failed_keys.discard(key)
            del self._pending[key]
            self.size -= entry.size
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
        failure = error if isinstance(error, StoreError) else StoreError(f"store: the writer failed: {error!r}")
        try:
            self._on_failure(failure)
        except Exception:
            # A metric that fails must not end the writer thread.
            return


def _complete(entries: Iterable[PendingWrite[Any]]) -> None:
    for entry in entries:
        for completion in entry.completions:
            if not completion.done():
                completion.set_result(None)
