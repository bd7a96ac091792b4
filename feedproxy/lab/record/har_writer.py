"""Writer of a HAR file that is valid after every exchange.

Each exchange overwrites the closing brackets and appends them again, in one write. A killed process loses at most the
exchange that it was writing; har.read skips its incomplete line. Nothing is synced: a power failure may lose more.

An existing file is renamed, never appended to: each file has every content that its entries refer to. If several
processes write one name, the first gets it and the others write `week-2.har` and so on.
"""

import contextlib
import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

from feedproxy.clock import Instant
from feedproxy.errors import FeedproxyError, UsageError
from feedproxy.lab.record import har
from feedproxy.lab.record.exchange import Exchange

PROCESSES_MAX = 64

DIGESTS_MAX = 131_072
"""Contents that a file is known to hold: some 20 MB of memory. Beyond that they are forgotten, and written again."""


class RecordingFailed(FeedproxyError):
    """A write failed; the entries before it are complete."""

    detail = "recording"


class HarWriter:
    """Appends exchanges to a file. Above `limit` bytes it starts a new file; 0 means no limit.

    Raises UsageError if no file can be opened.
    """

    def __init__(self, path: Path, *, limit: int = 0) -> None:
        self._limit = limit
        self._written_digests: set[str] = set()
        self._last_instant: Instant = 0.0
        self.path, self._file = _open_exclusively(path)
        try:
            self._end = self._write_preamble()
        except OSError as error:
            os.close(self._file)
            raise UsageError(f"{self.path}: {error.strerror or error}") from error

    def append(self, exchange: Exchange, content: bytes | None) -> None:
        """Append one exchange; its content only if the file lacks it. Raises RecordingFailed."""
        new = content if exchange.digest and exchange.digest not in self._written_digests else None
        begins = self._end > len(har.HEAD)
        line = (har.SEPARATOR if begins else b"") + har.entry_line(exchange, new)
        try:
            self._write(line + har.TAIL, self._end)
        except OSError as error:
            self._close_brackets()
            raise RecordingFailed(f"{self.path}: {error.strerror or error}") from error
        self._end += len(line)
        self._last_instant = exchange.at
        if new is not None:
            if len(self._written_digests) >= DIGESTS_MAX:
                self._written_digests.clear()
            self._written_digests.add(exchange.digest)
        if self._limit and self._end > self._limit:
            self._rotate()

    def has(self, digest: str) -> bool:
        """Return True if the file has the content."""
        return digest in self._written_digests

    def close(self, until: Instant = 0.0) -> None:
        """Close the file; closing twice is allowed. `until`, if given, is written as the end of the recording."""
        if self._file >= 0:
            if until:
                self._write_end(until)
            os.close(self._file)
            self._file = -1

    def _write_preamble(self) -> int:
        self._written_digests.clear()
        self._write(har.HEAD + har.TAIL, 0)
        return len(har.HEAD)

    def _write(self, data: bytes, at: int) -> None:
        view = memoryview(data)
        while view:
            done = os.pwrite(self._file, view, at)
            view, at = view[done:], at + done

    def _write_end(self, until: Instant) -> None:
        try:
            self._write(har.closing_tail(until), self._end)
        except OSError:
            self._close_brackets()

    def _close_brackets(self) -> None:
        """Remove what a failed write left behind the last complete entry."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, self._end)
            self._write(har.TAIL, self._end)

    def _rotate(self) -> None:
        """Rename the full file and start another. Raises RecordingFailed."""
        full = self._file
        try:
            _move_aside(self.path, self._last_instant)
            self._file = _open(self.path)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._end = self._write_preamble()
        except OSError as error:
            raise RecordingFailed(f"{self.path}: {error.strerror or error}") from error
        finally:
            os.close(full)


def _open(path: Path) -> int:
    # Recordings show which reader reads which feed: only the operator may read them.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _open_exclusively(path: Path) -> tuple[Path, int]:
    """Open and lock an empty file of this name, or of the next free one. Raises UsageError."""
    for number in range(1, PROCESSES_MAX + 1):
        named = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            if (file := _lock(named)) is not None:
                return named, file
        except OSError as error:
            raise UsageError(f"{named}: {error.strerror or error}") from error
    raise UsageError(f"{path}: other processes are writing this file and {PROCESSES_MAX - 1} more")


def _lock(path: Path) -> int | None:
    """Open an empty file and lock it; return None if another process writes it. Raises OSError."""
    while True:
        file = _open(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        found = os.fstat(file)
        if _is_same_file(path, found) and not found.st_size:
            return file
        if _is_same_file(path, found):
            _move_aside(path, found.st_mtime)
        os.close(file)


def _is_same_file(path: Path, found: os.stat_result) -> bool:
    """Return True if the path still names this file; another process may have renamed it."""
    try:
        now = path.stat()
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino)


def _move_aside(path: Path, last: Instant) -> None:
    """Rename a file after the second of its last exchange. Raises OSError."""
    stamp = datetime.fromtimestamp(last, UTC).strftime("%Y%m%dT%H%M%SZ")
    number, named = 1, path.with_name(f"{path.stem}-{stamp}{path.suffix}")
    while named.exists():
        number += 1
        named = path.with_name(f"{path.stem}-{stamp}-{number}{path.suffix}")
    path.rename(named)
