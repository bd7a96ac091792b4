"""Writing of the log: lines in batches, and without waiting for the program that reads a pipe, a socket or a terminal.

If that program (journald, Docker, a pager) stopped reading, a write to the full pipe would wait, and the event loop
would answer no client.
"""

import asyncio
import contextlib
import errno
import logging
import os
import select
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.telemetry.log_format import line_formatter

CHUNK = select.PIPE_BUF
"""A pipe that poll(2) reports as writable takes this many bytes, one page, without a wait."""

BACKLOG_MAX = 4 * 1024 * 1024
"""At most this many bytes wait for the reader of the log. Further lines are dropped."""

CLOSE_TIMEOUT: Seconds = 2
"""Before the process exits, it waits at most this many seconds until the backlog of log lines is written."""

BATCH_INTERVAL: Seconds = 0.05
"""A log line of the access log or of a `LineBatch` is buffered for at most this many seconds. Writing each line at once
would cost a fifth of a hit's time."""

MARK = "<line>"


class NonBlockingStream:
    """A stream with a `write` that returns at once. A thread writes the lines for which there was no room. `report`
    returns the log line that states a number of dropped lines."""

    def __init__(self, stream: Any, report: Callable[[int], str]) -> None:
        self._stream = stream
        self._report = report
        self._descriptor: int = stream.fileno()
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLOUT)
        # A terminal may report room for less than a chunk.
        self._always_waits = os.isatty(self._descriptor)
        self._has_nowait = True
        self.dropped_count = 0
        """Number of lines dropped since the start."""
        self._reset()
        os.register_at_fork(after_in_child=self._reset)  # the thread does not run in the child

    def _reset(self) -> None:
        self._backlog: deque[bytes | int] = deque()
        """The unwritten lines. A number stands for as many dropped lines."""
        self._backlog_size = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Write lines, or add them to the backlog. Raises OSError if the other end of the pipe is closed."""
        lines = self._encode(text)
        with self._lock:
            if self._thread is None and not self._backlog:
                lines = lines[self._write_available(lines) :]
                if not lines:
                    return
            self._append(lines)
            self._start_thread()

    def flush(self) -> None:
        """Do nothing. `write` has written all that there was room for, and the thread writes the backlog."""

    def close(self) -> None:
        """Return when the backlog is written, or after CLOSE_TIMEOUT seconds."""
        with self._lock:
            self._start_thread()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_TIMEOUT)

    def _encode(self, text: str) -> bytes:
        encoded: bytes = text.encode(self._stream.encoding or "utf-8", "backslashreplace")
        return encoded

    def _append(self, lines: bytes) -> None:
        """Add lines to the backlog. If the backlog is full, drop the lines and add only their number."""
        if self._backlog_size + len(lines) <= BACKLOG_MAX:
            self._backlog.append(lines)
            self._backlog_size += len(lines)
            return
        dropped = lines.count(b"\n")
        self.dropped_count += dropped
        if self._backlog and isinstance(last := self._backlog[-1], int):
            self._backlog[-1] = last + dropped
        else:
            self._backlog.append(dropped)

    def _start_thread(self) -> None:
        """Start the thread if there is a backlog. After a failure, the next `write` tries again."""
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

        RWF_NOWAIT prevents a wait if another worker has used the room that poll(2) reported. Linux before 6.4 lacks it
        for pipes. O_NONBLOCK would affect all processes that share the pipe.
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
        """Write lines, and wait whenever the pipe is full. Raises OSError if the other end of the pipe is closed."""
        start = 0
        while start < len(lines):
            try:
                start += os.write(self._descriptor, lines[start : _end_of_chunk(lines, start)])
            except BlockingIOError:  # another program that shares the descriptor has set O_NONBLOCK
                self._poll.poll()


def _end_of_chunk(lines: bytes, start: int) -> int:
    """Return the position after the last line that ends within CHUNK bytes from `start`. If the first line is longer,
    return the position after this line.

    The system does not mix a write of at most CHUNK bytes with writes of other workers.
    """
    end = lines.rfind(b"\n", start, start + CHUNK) + 1 or lines.find(b"\n", start) + 1
    return end or len(lines)


def non_blocking(stream: Any, report: Callable[[int], str]) -> Any:
    """Return a stream that never waits for the reader of the log. A file, or a stream without a descriptor, is returned
    unchanged. `report` returns the log line that states a number of dropped lines."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return stream  # it is closed, or exists only in memory
    return stream if stat.S_ISREG(mode) else NonBlockingStream(stream, report)


class LineHandler(logging.StreamHandler[Any]):
    """Handler that can write many log lines, such as those of one event-loop iteration, with one system call."""

    def __init__(self, stream: Any) -> None:
        super().__init__(non_blocking(stream, self._dropped_line))
        self._prefix_of = ("", 0)
        """The name of the logger and the second for which `_prefix` was made."""
        self._prefix = ""

    def close(self) -> None:
        if isinstance(self.stream, NonBlockingStream):
            self.stream.close()
        super().close()

    def _dropped_line(self, count: int) -> str:
        message = "log: %d lines dropped while the log was not read"
        return self.format(logging.LogRecord(__name__, logging.WARNING, "", 0, message, (count,), None)) + "\n"

    def set_form(self, form: str) -> None:
        self._prefix_of = ("", 0)
        self.setFormatter(line_formatter(form))

    def write_all(self, name: str, lines: Sequence[str]) -> None:
        """Write lines as if the logger `name` had logged each at INFO."""
        prefix_of = (name, int(time.time()))
        if prefix_of != self._prefix_of:
            self._prefix_of = prefix_of
            # Formatters escape control characters, but do not change this placeholder.
            record = logging.LogRecord(name, logging.INFO, "", 0, "%s", (MARK,), None)
            self._prefix = self.format(record).partition(MARK)[0]
        try:
            self.stream.write(self._prefix + f"\n{self._prefix}".join(lines) + "\n")
            self.flush()
        except Exception:
            self.handleError(logging.LogRecord(name, logging.INFO, "", 0, "%d lines", (len(lines),), None))


def dropped_line_count() -> int:
    streams = [handler.stream for handler in logging.getLogger().handlers if isinstance(handler, LineHandler)]
    return sum([stream.dropped_count for stream in streams if isinstance(stream, NonBlockingStream)])


def write_all(logger: logging.Logger, lines: Sequence[str]) -> None:
    """Log lines at INFO, with one write if all handlers support it."""
    if not logger.isEnabledFor(logging.INFO):
        return
    handlers, ancestor = list[logging.Handler](), logger
    while True:
        handlers += ancestor.handlers
        if ancestor.parent is None or not ancestor.propagate:
            break
        ancestor = ancestor.parent
    if all(type(handler) is LineHandler for handler in handlers):
        for handler in handlers:
            assert isinstance(handler, LineHandler)
            handler.write_all(logger.name, lines)
    else:
        for line in lines:
            logger.info("%s", line)


class LineBatch:
    """Lines of one logger that are written together."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._is_scheduled = False
        self.lines: list[str] = []
        """The lines that are not written yet. A blank line stands for a request that is counted, but not logged."""
        self.written_count = 0

    def add(self, line: str) -> None:
        """Write a line within BATCH_INTERVAL seconds."""
        self.lines.append(line)
        self.schedule_flush()

    def schedule_flush(self) -> None:
        """Write the lines within BATCH_INTERVAL seconds."""
        if self.lines and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_later(BATCH_INTERVAL, self.flush)

    def flush(self) -> None:
        """Write the lines now."""
        self._is_scheduled = False
        lines, self.lines[:] = list(self.lines), ()
        self.written_count += len(lines)
        if lines_to_write := [line for line in lines if line]:
            write_all(self._logger, lines_to_write)
