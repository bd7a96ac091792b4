"""A HAR file that grows: whole and valid after every exchange, whenever the process ends.

Each exchange overwrites the closing brackets and writes them anew, in one write. A process that is killed loses
what it had not handed to the system yet: nothing, or the exchange it was just writing, whose beginning then ends
the file; har.read passes over it. (A power failure is another matter: nothing is synced.)

A file that is there already is moved aside, never written to: each file has every content that it names. Of several
processes that are given one name the first has it, the others write `week-2.har` and so on.
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
    """The system would not write; what was written before is whole."""

    detail = "recording"


class HarWriter:
    """Appends exchanges. `limit` is the size in bytes above which a new file is begun; 0 for no limit.

    Raises UsageError where no file can be had.
    """

    def __init__(self, path: Path, *, limit: int = 0) -> None:
        self._limit = limit
        self._told: set[str] = set()
        self._last: Instant = 0.0
        self.path, self._file = _claim(path)
        try:
            self._end = self._begin()
        except OSError as error:
            os.close(self._file)
            raise UsageError(f"{self.path}: {error.strerror or error}") from error

    def append(self, exchange: Exchange, content: bytes | None) -> None:
        """Write one exchange; its content only if this file has it not. Raises RecordingFailed."""
        new = content if exchange.digest and exchange.digest not in self._told else None
        begins = self._end > len(har.HEAD)
        line = (har.SEPARATOR if begins else b"") + har.entry_line(exchange, new)
        try:
            self._write(line + har.TAIL, self._end)
        except OSError as error:
            self._close_brackets()
            raise RecordingFailed(f"{self.path}: {error.strerror or error}") from error
        self._end += len(line)
        self._last = exchange.at
        if new is not None:
            if len(self._told) >= DIGESTS_MAX:
                self._told.clear()
            self._told.add(exchange.digest)
        if self._limit and self._end > self._limit:
            self._rotate()

    def has(self, digest: str) -> bool:
        """Whether this file has the content already."""
        return digest in self._told

    def close(self, until: Instant = 0.0) -> None:
        """Nothing is left to be written; closing twice is allowed. `until`: nothing else was there to be recorded."""
        if self._file >= 0:
            if until:
                self._say(until)
            os.close(self._file)
            self._file = -1

    def _begin(self) -> int:
        self._told.clear()
        self._write(har.HEAD + har.TAIL, 0)
        return len(har.HEAD)

    def _write(self, data: bytes, at: int) -> None:
        view = memoryview(data)
        while view:
            done = os.pwrite(self._file, view, at)
            view, at = view[done:], at + done

    def _say(self, until: Instant) -> None:
        try:
            self._write(har.closing_tail(until), self._end)
        except OSError:
            self._close_brackets()

    def _close_brackets(self) -> None:
        """After a write that failed, what was whole before is whole again."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, self._end)
            self._write(har.TAIL, self._end)

    def _rotate(self) -> None:
        """Move the full file aside and begin another. Raises RecordingFailed."""
        full = self._file
        try:
            _move_aside(self.path, self._last)
            self._file = _open(self.path)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._end = self._begin()
        except OSError as error:
            raise RecordingFailed(f"{self.path}: {error.strerror or error}") from error
        finally:
            os.close(full)


def _open(path: Path) -> int:
    # Recordings tell who reads what: they are the operator's alone.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _claim(path: Path) -> tuple[Path, int]:
    """A file of this name, or of the next that no other process writes; locked, and empty. Raises UsageError."""
    for number in range(1, PROCESSES_MAX + 1):
        named = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            if (file := _lock(named)) is not None:
                return named, file
        except OSError as error:
            raise UsageError(f"{named}: {error.strerror or error}") from error
    raise UsageError(f"{path}: other processes are writing this file and {PROCESSES_MAX - 1} more")


def _lock(path: Path) -> int | None:
    """The file, empty, and locked for us; None where another process writes it. Raises OSError."""
    while True:
        file = _open(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        found = os.fstat(file)
        if _is_still(path, found) and not found.st_size:
            return file
        if _is_still(path, found):
            _move_aside(path, found.st_mtime)
        os.close(file)


def _is_still(path: Path, found: os.stat_result) -> bool:
    """Whether this name still leads to this file: another process may have moved it aside."""
    try:
        now = path.stat()
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino)


def _move_aside(path: Path, last: Instant) -> None:
    """Name a file after the second of its last exchange. Raises OSError."""
    stamp = datetime.fromtimestamp(last, UTC).strftime("%Y%m%dT%H%M%SZ")
    number, named = 1, path.with_name(f"{path.stem}-{stamp}{path.suffix}")
    while named.exists():
        number += 1
        named = path.with_name(f"{path.stem}-{stamp}-{number}{path.suffix}")
    path.rename(named)
