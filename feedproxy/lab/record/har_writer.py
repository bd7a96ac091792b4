"""Writer of a HAR file that is valid after every exchange.

Each write replaces the closing brackets by an exchange and new brackets, so a killed process loses at most the exchange
being written. A file of an earlier process is renamed, because entries can refer only to contents that this process has
written to the same file. A new file is also begun if a rotation of logs renames, deletes or truncates the file. If
several processes record to `week.har`, the others write `week-2.har`, `week-3.har` and so on.
"""

import contextlib
import fcntl
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

from feedproxy.clock import Instant
from feedproxy.errors import FeedproxyError, UsageError
from feedproxy.lab.record import har_format
from feedproxy.lab.record.exchange import Exchange

PROCESSES_MAX = 64

DIGESTS_MAX = 131_072
"""For each file, the digests of at most this many contents are remembered, in about 20 MB. At the limit, all are
forgotten, and contents are written again."""


class RecordingFailed(FeedproxyError, detail="recording"):
    """Error for a failed write. The entries that were written before are complete."""


class HarWriter:
    """Writer that appends exchanges to a file, and begins a new file above `limit` bytes (0: no limit). Raises
    UsageError if no file can be opened."""

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
        """Append one exchange, with its content unless the file already has it. Raises RecordingFailed if the file
        cannot be written."""
        new = content if exchange.digest and exchange.digest not in self._written_digests else None
        begins = self._end > len(har_format.HEAD)
        line = (har_format.SEPARATOR if begins else b"") + har_format.entry_line(exchange, new)
        try:
            self._write(line + har_format.TAIL, self._end)
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

    def begin_again_if_replaced(self) -> bool:
        """If another program has renamed or deleted the file, begin a new file. If it has truncated the file, write the
        file from its beginning. In both cases return True, otherwise False. Raises RecordingFailed if no file can be
        opened or written.

        Call this method before each exchange, and before `has`.
        """
        try:
            status = os.fstat(self._file)
            if not _is_same_file(self.path, status):
                self._rotate()
                return True
            # A device, such as /dev/null, has no size.
            if stat.S_ISREG(status.st_mode) and status.st_size < self._end:
                # To continue at the old position would leave zeros at the beginning of the file.
                self._end = self._write_preamble()
                return True
        except OSError as error:
            raise RecordingFailed(f"{self.path}: {error.strerror or error}") from error
        return False

    def has(self, digest: str) -> bool:
        """Return True if the file contains the content with this digest."""
        return digest in self._written_digests

    def close(self, until: Instant = 0.0) -> None:
        """Close the file, and write `until` as the end of the recording unless it is 0. May be called again."""
        if self._file >= 0:
            if until:
                self._write_end(until)
            os.close(self._file)
            self._file = -1

    def _write_preamble(self) -> int:
        self._written_digests.clear()
        self._write(har_format.HEAD + har_format.TAIL, 0)
        return len(har_format.HEAD)

    def _write(self, data: bytes, at: int) -> None:
        view = memoryview(data)
        while view:
            done = os.pwrite(self._file, view, at)
            view, at = view[done:], at + done

    def _write_end(self, until: Instant) -> None:
        try:
            self._write(har_format.closing_tail(until), self._end)
        except OSError:
            self._close_brackets()

    def _close_brackets(self) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, self._end)
            self._write(har_format.TAIL, self._end)

    def _rotate(self) -> None:
        full, self._file = self._file, -1  # after a failure, the number may belong to another file
        try:
            if _is_same_file(self.path, os.fstat(full)):  # otherwise, the operator has moved or deleted the file
                _move_aside(self.path, self._last_instant)
            self.path, self._file = _open_exclusively(self.path)
            self._end = self._write_preamble()
        except OSError as error:
            raise RecordingFailed(f"{self.path}: {error.strerror or error}") from error
        except UsageError as error:
            raise RecordingFailed(str(error)) from error
        finally:
            os.close(full)


def _open(path: Path) -> int:
    # Recordings show which reader reads which feed, so only the operator may read them.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _open_exclusively(path: Path) -> tuple[Path, int]:
    """Open and lock an empty file with this name, or with the next free number appended. Return its path and
    descriptor. Raises UsageError if the file cannot be created."""
    for number in range(1, PROCESSES_MAX + 1):
        candidate = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            if (file := _lock(candidate)) is not None:
                return candidate, file
        except OSError as error:
            raise UsageError(f"{candidate}: {error.strerror or error}") from error
    raise UsageError(f"{path}: other processes are writing this file and {PROCESSES_MAX - 1} more")


def _lock(path: Path) -> int | None:
    while True:
        file = _open(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        status = os.fstat(file)
        if _is_same_file(path, status) and not status.st_size:
            return file
        if _is_same_file(path, status):
            _move_aside(path, status.st_mtime)
        os.close(file)


def _is_same_file(path: Path, status: os.stat_result) -> bool:
    """Return True if `path` still names the file with this status. Another process can have renamed the file."""
    try:
        now = path.stat()
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (status.st_dev, status.st_ino)


def _move_aside(path: Path, last: Instant) -> None:
    stamp = datetime.fromtimestamp(last, UTC).strftime("%Y%m%dT%H%M%SZ")
    number, candidate = 1, path.with_name(f"{path.stem}-{stamp}{path.suffix}")
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.stem}-{stamp}-{number}{path.suffix}")
    path.rename(candidate)
