"""One shard of the store on disk: a folder with a SQLite file.

All errors of SQLite, diskcache and the system become StoreError. The writer renames the folder of a corrupt file to
`NAME.corrupt` and creates an empty folder. Only the values of the shard are lost. Other processes then open the new
file. Their connections to the old file do no harm.

While a shard cannot be opened, for example on a full disk, its reads and writes fail. Each write tries to open it.
"""

import contextlib
import errno
import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import diskcache
from diskcache.core import DBNAME

from feedproxy.clock import Instant, Seconds
from feedproxy.errors import StoreError
from feedproxy.store.corrupt_files import cause_of, clear_file, file_fault, is_corrupt, make_folder, set_aside
from feedproxy.store.interface import OnFailure
from feedproxy.store.sqlite_rows import Rows

LOCK_TRIES = 40
"""Number of attempts of a write to get the shard's lock, of 0.25 s each (sqlite_rows.py). After a failed write, later
writes make one attempt each, until a write succeeds."""
OPEN_TIMEOUT: Seconds = 5
"""Maximum time, in seconds, for which a process waits while another process opens, renames or creates files. It then
continues without the lock, because a stopped process (SIGSTOP) keeps its lock."""
RETRY_INTERVAL: Seconds = 1
"""Minimum time between two attempts to open a shard, in seconds."""

_LOG = logging.getLogger(__name__)
_JOURNALS = tuple(f"{DBNAME}-{kind}" for kind in ("wal", "shm", "journal"))
_ERRORS = (sqlite3.Error, diskcache.Timeout, OSError, UnicodeError)
_MISSHAPEN = (TypeError, ValueError, LookupError, AttributeError)
"""Errors of diskcache for a SQLite file with tables that another program created."""


class Shard:
    """The values of one shard, keyed by text.

    Several threads read and one thread writes. Each thread calls `close` when it ends.
    """

    def __init__(self, folder: Path, *, size_max: int | None, on_failure: OnFailure) -> None:
        """Open the shard, or create it if it is missing or corrupt.

        A failure is reported to `on_failure`. The shard is then opened later.
        """
        self._folder = folder
        self._path = str(folder / DBNAME)
        self._size_max = size_max
        self._on_failure = on_failure
        self._corrupt = False
        self._locked_out = False
        self._opened: Rows | None = None
        self._inode: int | None = None
        self.opened_count = 0
        self._failure = ""
        self._retry_at: Seconds = 0.0
        self._opening = threading.Lock()
        try:
            self._reopen()
        except StoreError as error:
            on_failure(error)

    @property
    def _rows(self) -> Rows:
        if self._opened is None:
            raise StoreError(self._failure)
        return self._opened

    # -- reading

    def get(self, key: str) -> bytes | None:
        """Return the value of this key, or None if no value is stored. Raises StoreError if the disk fails."""
        with self._translate_errors():
            value: bytes | None = self._current_rows().get(key)
            return value

    def holds(self, key: str) -> bool:
        with self._translate_errors():
            return key in self._current_rows()

    def keys(self) -> Iterator[str]:
        with self._translate_errors():
            yield from self._current_rows().iter_keys()

    def _current_rows(self) -> Rows:
        """Return the rows of the file that now has the shard's name. Raises StoreError if it cannot be opened.

        A connection to a removed or replaced file would return values that another process has changed or purged since.
        """
        if self._opened is not None and _inode(self._path) != self._inode:
            self._open_present_file()
        return self._rows

    # -- writing

    def set(self, key: str, value: bytes) -> None:
        """Store this value. Raises StoreError if the disk fails. The old value can then remain."""
        self._write(lambda rows: rows.set(key, value))

    def set_all(self, values: Mapping[str, bytes]) -> None:
        """Store all of these values, or none. Each must be smaller than FILE_MIN. Raises StoreError if this fails."""
        self._write(lambda rows: rows.set_all(values))

    def delete(self, key: str) -> None:
        """Remove the value of this key. Raises StoreError if the disk fails. The old value can then remain."""
        self._write(lambda rows: rows.delete(key))

    def cull_slice(self, limit: int) -> int:
        """Remove at most `limit` of the least recently stored values, if the shard exceeds its size limit.

        Return the number of removed values. Raises StoreError if the disk fails.
        """
        with self._translate_errors():
            culled: int = self._rows.cull_slice(limit)
            return culled

    def checkpoint(self) -> None:
        """Checkpoint the journal if the files are too large (`Rows.checkpoint`). Raises StoreError if this fails."""
        with self._translate_errors():
            self._rows.checkpoint()

    def remove_orphans(self, before: Instant) -> None:
        with self._translate_errors():
            self._rows.remove_orphans(before)

    def repair(self) -> None:
        """Open the file again if it is replaced, removed, corrupt or not open. Raises StoreError if the disk fails."""
        if self._opened is None:
            if time.monotonic() < self._retry_at:
                raise StoreError(self._failure)
            self._reopen()
            _LOG.info("store: %s is open again", self._folder)
        elif self._corrupt or _inode(self._path) != self._inode:
            self._open_present_file()

    def stop_waiting(self) -> None:
        """Let operations fail instead of waiting for a lock. May be called from any thread."""
        self._locked_out = True

    def close(self) -> None:
        """Close the connection of the calling thread."""
        if self._opened is not None:
            with contextlib.suppress(sqlite3.Error):
                self._opened.close()

    # -- inside

    def _write(self, operation: Callable[[Rows], object]) -> None:
        self.repair()
        try:
            self._try(operation)
        except StoreError:
            if not self._corrupt:
                raise
            self.repair()
            self._try(operation)

    def _try(self, operation: Callable[[Rows], object]) -> None:
        try:
            with self._translate_errors():
                tries = 1
                while not self._locked_out and tries < LOCK_TRIES:
                    tries += 1
                    with contextlib.suppress(diskcache.Timeout):
                        operation(self._rows)
                        return
                self._locked_out = True
                operation(self._rows)
                self._locked_out = False
        except StoreError:
            # A failed COMMIT leaves its transaction open, and every later BEGIN would fail.
            self.close()
            raise

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except diskcache.Timeout as error:
            raise StoreError(f"store: shard {self._folder} is locked by another process") from error
        except _ERRORS as error:
            if is_corrupt(error):
                self._corrupt = True
            raise StoreError(f"store: shard {self._folder} cannot be used: {cause_of(error)}") from error

    def _open_present_file(self) -> None:
        """Open the file that now has the shard's name, or a new one if it is corrupt or missing. Raises StoreError."""
        with self._opening:
            if not self._corrupt:
                if _inode(self._path) == self._inode:
                    return  # another thread has just opened the file
                self._on_failure(
                    StoreError(f"store: shard {self._folder.name} was removed or replaced: opening it again")
                )
            self.close()
            self._reopen()

    def _reopen(self) -> None:
        try:
            with self._translate_errors():
                # The parent folder, `feeds` or `state`, contains the lock of every shard.
                make_folder(self._folder.parent)
                with self._lock():
                    if self._corrupt and (self._opened is None or _inode(self._path) == self._inode):
                        self._set_aside("corrupt")
                    self._opened = self._open()
                    self.opened_count += 1
                    self._inode = _inode(self._path)
                    self._corrupt = False
        except StoreError as error:
            self._failure = str(error)
            self._opened = None
            self._retry_at = time.monotonic() + RETRY_INTERVAL
            raise

    def _open(self) -> Rows:
        make_folder(self._folder)
        reason = file_fault(self._folder / DBNAME)
        if reason:
            self._set_aside(f"{DBNAME} is {reason}")
        for name in _JOURNALS:
            # Without its journal, the file is in the state of the last checkpoint.
            clear_file(self._folder / name)
        try:
            return Rows(self._folder, size_max=self._size_max)
        except (*_ERRORS, *_MISSHAPEN) as error:
            # UnicodeError, a damaged text, is a ValueError, too.
            is_misshapen = isinstance(error, _MISSHAPEN) and not isinstance(error, UnicodeError)
            if not isinstance(error, _MISSHAPEN) and not is_corrupt(error):
                raise
            self._set_aside(f"the tables of {DBNAME} are not those of a store" if is_misshapen else str(error))
        return Rows(self._folder, size_max=self._size_max)

    def _set_aside(self, reason: str) -> None:
        quarantined = set_aside(self._folder, reason)
        self._on_failure(
            StoreError(
                f"store: shard {self._folder.name} was set aside as {quarantined}, and a new one was created: {reason}"
            )
        )

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        path = self._folder.parent / "lock"
        clear_file(path)
        lock = _open_lock(path)
        try:
            deadline = time.monotonic() + OPEN_TIMEOUT
            while not _try_flock(lock):
                if time.monotonic() >= deadline:
                    _LOG.warning(
                        "store: %s is locked by another process for %g s: opened without the lock", path, OPEN_TIMEOUT
                    )
                    break
                time.sleep(0.01)
            yield
        finally:
            os.close(lock)


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a read-only file system can be read


def _try_flock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _inode(path: str) -> int | None:
    """Return the inode number of a file, or None if the file is missing or inaccessible.

    Each read calls this function, and pathlib.Path would take longer.
    """
    try:
        return os.stat(path).st_ino
    except OSError:
        return None
