"""Writing of the log to a pipe, a socket or a terminal without waiting for the program that reads it.

A write to a full pipe waits until its reader has read. If journald, Docker or a pager stops reading, the event loop
would wait with it, and no client would get an answer.
"""

import contextlib
import logging
import os
import select
import stat
import threading
from collections import deque
from typing import Any

from feedproxy.clock import Seconds

logger = logging.getLogger(__name__)

CHUNK = select.PIPE_BUF
"""Bytes that a pipe takes without a wait if poll(2) reports room in it: one page."""

BACKLOG_MAX = 4 * 1024 * 1024
"""Bytes that wait for a reader of the log. Further lines are dropped."""

CLOSE_TIMEOUT: Seconds = 2
"""Seconds for which the end of the process waits for a reader of the log."""


class NonBlockingStream:
    """A stream with a `write` that returns at once. While the reader does not read, a thread writes the backlog."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._descriptor: int = stream.fileno()
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLOUT)
        # A terminal may report room for less than a chunk.
        self._always_waits = os.isatty(self._descriptor)
        self._reset()
        os.register_at_fork(after_in_child=self._reset)  # the thread does not run in the child

    def _reset(self) -> None:
        self._backlog: deque[bytes] = deque()
        self._backlog_size = 0
        self._dropped = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Write lines, or add them to the backlog. Raises OSError if the reader has closed its end."""
        lines: bytes = text.encode(self._stream.encoding or "utf-8", "backslashreplace")
        with self._lock:
            if self._thread is None:
                lines = lines[self._write_available(lines) :]
                if not lines:
                    return
                self._thread = threading.Thread(target=self._write_backlog, name="feedproxy-log", daemon=True)
                self._thread.start()
            if self._backlog_size + len(lines) > BACKLOG_MAX:
                self._dropped += lines.count(b"\n")
                return
            self._backlog.append(lines)
            self._backlog_size += len(lines)

    def flush(self) -> None:
        """Do nothing, because nothing is buffered that can be written."""

    def close(self) -> None:
        """Return after the backlog is written, or after CLOSE_TIMEOUT."""
        if (thread := self._thread) is not None:
            thread.join(CLOSE_TIMEOUT)

    def _write_available(self, lines: bytes) -> int:
        """Write as many lines as there is room for. Return the number of bytes written."""
        start = 0
        while start < len(lines) and not self._always_waits:
            end = _end_of_chunk(lines, start)
            if end - start > CHUNK or not self._poll.poll(0):
                break
            start += os.write(self._descriptor, lines[start:end])
        return start

    def _write_backlog(self) -> None:
        while True:
            with self._lock:
                if not self._backlog and not self._dropped:
                    self._thread = None
                    return
                lines = self._backlog.popleft() if self._backlog else b""
                dropped, self._dropped = (0, self._dropped) if lines else (self._dropped, 0)
            with contextlib.suppress(OSError):
                start = 0
                while start < len(lines):
                    start += os.write(self._descriptor, lines[start : _end_of_chunk(lines, start)])
            with self._lock:
                self._backlog_size -= len(lines)
            if dropped:
                logger.warning("log: %d lines dropped while the log was not read", dropped)


def _end_of_chunk(lines: bytes, start: int) -> int:
    """Return the end of the last line that begins at `start` or later and ends within CHUNK bytes, or of one longer
    line.

    Several workers write to one pipe. It keeps writes of at most PIPE_BUF bytes together.
    """
    end = lines.rfind(b"\n", start, start + CHUNK) + 1 or lines.find(b"\n", start) + 1
    return end or len(lines)


def non_blocking(stream: Any) -> Any:
    """Return a stream that writes to the same place and never waits for a reader. A file is returned unchanged."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return stream  # it is closed, or exists only in memory
    return stream if stat.S_ISREG(mode) else NonBlockingStream(stream)
