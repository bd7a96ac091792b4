"""Reads of the disk in threads, so that a slow disk does not delay hits from memory.

Handing a read to a thread and its result back takes 40 to 120 µs of CPU time (docs/decisions/store-on-disk.md).
"""

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from feedproxy.clock import Seconds
from feedproxy.errors import StoreError

THREADS_MAX = 4
"""Maximum number of reading threads. A further thread starts only while all others read. Each thread has its own
connections, with 16 descriptors and page caches of up to 2 MiB (sqlite_rows.py)."""
READ_TIMEOUT: Seconds = 30
"""Maximum time of a read, in seconds. After it, callers continue without the value, and the store counts as failed
until the read ends. A disk to which other programs wrote without pause delayed reads by up to 19 s."""
CLOSE_TIMEOUT: Seconds = 5
"""Maximum time for which closing waits for the reads in progress, in seconds."""


@dataclass(slots=True, eq=False)
class Read:
    """A read in progress. A read is discarded if the value was replaced after the read had started."""

    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    is_discarded: bool = False
    is_late: bool = False


class DiskReads[Value]:
    """The reads in progress, by key. Concurrent callers with the same key share one read."""

    def __init__(
        self,
        read: Callable[[str], Value],
        *,
        on_value: Callable[[str, Value], None],
        on_failure: Callable[[str, StoreError], None],
        close_thread: Callable[[], None],
    ) -> None:
        """Create an empty set of reads. Threads are started when they are needed.

        - `read`: read a value, in a thread. Raises StoreError.
        - `on_value`: receive a value, in the event loop, before the callers of `wait_for` continue.
        - `on_failure`: receive the failure of a read, in the event loop.
        - `close_thread`: release what `read` keeps for its thread.
        """
        self._read, self._on_value, self._on_failure, self._close_thread = read, on_value, on_failure, close_thread
        self._reads: dict[str, Read] = {}
        self._waiting: deque[tuple[str, Read, asyncio.AbstractEventLoop]] = deque()
        self._started_count = self._late_count = 0
        self._queue: queue.SimpleQueue[tuple[str, Read, asyncio.AbstractEventLoop] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    @property
    def is_stalled(self) -> bool:
        """Return True while a read takes more than READ_TIMEOUT."""
        return self._late_count > 0

    async def wait_for(self, key: str) -> bool:
        """Read a value, and wait until `on_value` or `on_failure` was called. Return False if the read was discarded.

        Otherwise return True. While the disk is stalled, return True at once, without a read and without a call.
        """
        if self.is_stalled:
            return True
        loop = asyncio.get_running_loop()
        read = self._reads.get(key)
        if read is None:
            read = self._reads[key] = Read()
            self._waiting.append((key, read, loop))
            self._start_reads()
        waiter = loop.create_future()
        read.waiters.append(waiter)
        timer = loop.call_later(READ_TIMEOUT, self._give_up, key, read)
        try:
            await waiter
        finally:
            timer.cancel()
        return not read.is_discarded

    def discard(self, key: str) -> None:
        """Ignore the result of the read in progress, because the value is being replaced."""
        if (read := self._reads.pop(key, None)) is not None:
            read.is_discarded = True
            _release(read)

    def discard_all(self) -> None:
        for key in list(self._reads):
            self.discard(key)

    async def close(self) -> None:
        """End each thread after its read in progress. A thread that the disk blocks beyond CLOSE_TIMEOUT ends later."""
        self._waiting.clear()
        for _ in self._threads:
            self._queue.put(None)
        until = asyncio.get_running_loop().time() + CLOSE_TIMEOUT
        for thread in self._threads:
            await asyncio.to_thread(thread.join, max(0.0, until - asyncio.get_running_loop().time()))
        self._threads.clear()

    def _give_up(self, key: str, read: Read) -> None:
        if not read.waiters:
            return  # the read ended or was discarded just now, before its callers have cancelled their timers
        read.is_late = True
        self._late_count += 1
        self._on_failure(key, StoreError(f"store: a read has taken more than {READ_TIMEOUT:g} s"))
        _release(read)

    def _start_reads(self) -> None:
        # If the threads started the waiting reads, the results of many reads would arrive at once, and displace each
        # other before their callers use them (PEEKED_MAX in tiered.py).
        while self._waiting and self._started_count < THREADS_MAX:
            self._started_count += 1
            key, read, loop = self._waiting.popleft()
            if len(self._threads) < self._started_count:
                self._start_thread()
            if self._threads:
                self._queue.put((key, read, loop))
            else:
                loop.call_soon(self._end, key, read, StoreError("store: no thread can be started to read the disk"))

    def _start_thread(self) -> None:
        # A thread that the disk blocks must not delay the end of the process.
        thread = threading.Thread(target=self._work, name="feedproxy-store-read", daemon=True)
        with contextlib.suppress(RuntimeError):  # the system permits no further thread
            thread.start()
            self._threads.append(thread)

    def _end(self, key: str, read: Read, result: Value | StoreError) -> None:
        self._started_count -= 1
        self._start_reads()
        self._late_count -= read.is_late
        if not read.is_discarded:
            del self._reads[key]
            if isinstance(result, StoreError):
                self._on_failure(key, result)
            else:
                self._on_value(key, result)
        _release(read)

    # -- in the threads

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            key, read, loop = item
            result: Value | StoreError
            try:
                result = self._read(key)
            except StoreError as error:
                result = error
            except Exception as error:  # the thread must not end
                result = StoreError(f"store: a read failed: {error!r}")
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(self._end, key, read, result)
            del item, read, result
        self._close_thread()


def _release(read: Read) -> None:
    for waiter in read.waiters:
        if not waiter.done():
            waiter.set_result(None)
    read.waiters.clear()
