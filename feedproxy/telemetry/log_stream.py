"""Writing of the log to a pipe, a socket or a terminal without waiting for the program that reads it.

A write to a full pipe waits until its reader has read. If journald, Docker or a pager stops reading, the event loop
would wait with it, and no client would get an answer.
"""

import contextlib
import errno
import os
import select
import stat
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from feedproxy.clock import Seconds

CHUNK = select.PIPE_BUF
"""Bytes that a pipe takes without a wait if poll(2) reports room in it: one page."""

BACKLOG_MAX = 4 * 1024 * 1024
"""Bytes that wait for a reader of the log. Further lines are dropped."""

CLOSE_TIMEOUT: Seconds = 2
"""Seconds for which the end of the process waits for a reader of the log."""


class NonBlockingStream:
    """A stream with a `write` that returns at once. While the reader does not read, a thread writes the backlog.

    `report` returns a line of the log that states a number of dropped lines.
    """

    def __init__(self, stream: Any, report: Callable[[int], str]) -> None:
        self._stream = stream
        self._report = report
        self._descriptor: int = stream.fileno()
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLOUT)
        # A terminal may report room for less than a chunk.
        self._always_waits = os.isatty(self._descriptor)
        self._has_nowait = True
        self._reset()
        os.register_at_fork(after_in_child=self._reset)  # the thread does not run in the child

    def _reset(self) -> None:
        self._backlog: deque[bytes | int] = deque()
        """Lines, and at each gap in them the number of dropped lines."""
        self._backlog_size = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Write lines, or add them to the backlog. Raises OSError if the reader has closed its end."""
        lines = self._encode(text)
        with self._lock:
            if self._thread is None and not self._backlog:
                lines = lines[self._write_available(lines) :]
                if not lines:
                    return
            self._append(lines)
            self._start_thread()

    def flush(self) -> None:
        """Do nothing, because nothing is buffered that can be written."""

    def close(self) -> None:
        """Return after the backlog is written, or after CLOSE_TIMEOUT."""
        with self._lock:
            self._start_thread()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_TIMEOUT)

    def _encode(self, text: str) -> bytes:
        encoded: bytes = text.encode(self._stream.encoding or "utf-8", "backslashreplace")
        return encoded

    def _append(self, lines: bytes) -> None:
        """Add lines to the backlog. Without room for them, count them where they are missing."""
        if self._backlog_size + len(lines) <= BACKLOG_MAX:
            self._backlog.append(lines)
            self._backlog_size += len(lines)
            return
        dropped = lines.count(b"\n")
        if self._backlog and isinstance(last := self._backlog[-1], int):
            self._backlog[-1] = last + dropped
        else:
            self._backlog.append(dropped)

    def _start_thread(self) -> None:
        """Start the thread if there is a backlog. Without memory for a thread, the next line tries again."""
        if self._thread is not None or not self._backlog:
            return
        thread = threading.Thread(target=self._write_backlog, name="feedproxy-log", daemon=True)
        with contextlib.suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def _write_available(self, lines: bytes) -> int:
        """Write as many lines as there is room for. Return the number of bytes written."""
        start = 0
        with contextlib.suppress(BlockingIOError):
            while start < len(lines) and not self._always_waits:
                end = _end_of_chunk(lines, start)
                if end - start > CHUNK or not self._poll.poll(0):
                    break
                start += self._write_at_once(lines[start:end])
        return start

    def _write_at_once(self, chunk: bytes) -> int:
        """Write a chunk, and return the number of bytes written. Raises BlockingIOError if there is no room.

        The room that poll(2) has reported may be taken by another worker. Then write(2) would wait. Linux before 6.4
        cannot write to a pipe or a socket without waiting, unless all processes that share it do so.
        """
        if self._has_nowait:
            try:
                return os.pwritev(self._descriptor, [chunk], -1, os.RWF_NOWAIT)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
                self._has_nowait = False
        return os.write(self._descriptor, chunk)

    def _write_backlog(self) -> None:
        while True:
            with self._lock:
                if not self._backlog:
                    self._thread = None
                    return
                part = self._backlog.popleft()
            with contextlib.suppress(OSError):
                self._write_all(self._encode(self._report(part)) if isinstance(part, int) else part)
            if isinstance(part, bytes):
                with self._lock:
                    self._backlog_size -= len(part)

    def _write_all(self, lines: bytes) -> None:
        """Write lines, and wait for room. Raises OSError if the reader has closed its end."""
        start = 0
        while start < len(lines):
            try:
                start += os.write(self._descriptor, lines[start : _end_of_chunk(lines, start)])
            except BlockingIOError:  # another program that shares the descriptor has set O_NONBLOCK
                self._poll.poll()


def _end_of_chunk(lines: bytes, start: int) -> int:
    """Return the end of the last line that begins at `start` or later and ends within CHUNK bytes, or of one longer
    line.

    Several workers write to one pipe. It keeps writes of at most PIPE_BUF bytes together.
    """
    end = lines.rfind(b"\n", start, start + CHUNK) + 1 or lines.find(b"\n", start) + 1
    return end or len(lines)


def non_blocking(stream: Any, report: Callable[[int], str]) -> Any:
    """Return a stream that writes to the same place and never waits for a reader. A file is returned unchanged.

    `report` returns a line of the log that states a number of dropped lines.
    """
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return stream  # it is closed, or exists only in memory
    return stream if stat.S_ISREG(mode) else NonBlockingStream(stream, report)
