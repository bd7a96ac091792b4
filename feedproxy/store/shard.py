"""One part of the store on disk: opened, followed when it is replaced, and set aside when it is corrupt.

Foreign errors end here: what goes out is StoreError. A corrupt file is found when it is opened or when it
is used; then its folder is renamed to `NAME.corrupt` (one is kept) and an empty one takes its place: damage
costs one shard, not the store. Only the writer does this, for a reader must not wait. Processes do it one
after the other under a lock, and one that finds the file replaced already takes the new one. (SQLite looks
whether its file has moved before it removes a journal, so connections to the old one do no harm.)
"""

import contextlib
import fcntl
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import diskcache
from diskcache.core import DBNAME

from feedproxy.clock import Instant
from feedproxy.errors import StoreError
from feedproxy.store.base import OnFailure
from feedproxy.store.rows import Rows

LOCK_TRIES = 40
"""Times BUSY_TIMEOUT: another process may hold the write lock for 10 s before a write is given up."""

_LOG = logging.getLogger(__name__)
_ERRORS = (sqlite3.Error, diskcache.Timeout, OSError, UnicodeError)
_CORRUPT = frozenset(
    # The last two because our SQL is right: tables or indexes are not what they were.
    (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT)
)
_MISSHAPEN = (TypeError, ValueError, LookupError, AttributeError)
"""What diskcache stumbles over when a file's tables are not what it made."""


class Shard:
    """Values by key in one folder. One thread reads, one writes; each calls `close` at its end."""

    def __init__(self, folder: Path, *, size_max: int | None, on_failure: OnFailure) -> None:
        """Open it, made anew where it is missing or corrupt. Raises StoreError where that cannot be done."""
        self._folder = folder
        self._size_max = size_max
        self._on_failure = on_failure
        self._corrupt = False
        with self._translated(), self._locked():
            self._rows, self._inode = self._open()

    # -- reading

    def get(self, key: str) -> bytes | None:
        """The value. Raises StoreError; where the file is corrupt, the next `mend` sets it aside."""
        with self._translated():
            value: bytes | None = self._rows.get(key)
            return value

    def holds(self, key: str) -> bool:
        """Whether there is a value, without reading it. Raises StoreError."""
        with self._translated():
            return key in self._rows

    def keys(self) -> Iterator[str]:
        """Every key. Raises StoreError."""
        with self._translated():
            yield from self._rows.texts()

    # -- writing

    def set(self, key: str, value: bytes) -> None:
        """Keep this value. Raises StoreError; then the old one may still be there."""
        self._write(lambda rows: rows.set(key, value))

    def set_all(self, values: Sequence[tuple[str, bytes]]) -> None:
        """Keep these values, all or none. Raises StoreError."""
        self._write(lambda rows: rows.set_all(values))

    def delete(self, key: str) -> None:
        """Keep nothing under this key. Raises StoreError; then the old value may still be there."""
        self._write(lambda rows: rows.delete(key))

    def cull_slice(self, limit: int) -> int:
        """See Rows.cull_slice. Raises StoreError."""
        with self._translated():
            culled: int = self._rows.cull_slice(limit)
            return culled

    def settle(self) -> None:
        """See Rows.settle. Raises StoreError."""
        with self._translated():
            self._rows.settle()

    def sweep(self, before: Instant) -> None:
        """See Rows.sweep. Raises StoreError."""
        with self._translated():
            self._rows.sweep(before)

    def mend(self) -> None:
        """Open anew where the file was replaced, removed, or found corrupt. Raises StoreError."""
        if not self._corrupt and _inode(self._folder) == self._inode:
            return
        with self._translated():
            self._rows.close()
            with self._locked():
                if self._corrupt and _inode(self._folder) == self._inode:
                    self._set_aside("it was found corrupt")
                self._rows, self._inode = self._open()
                self._corrupt = False

    def close(self) -> None:
        """Close this thread's connection."""
        with contextlib.suppress(sqlite3.Error):
            self._rows.close()

    # -- inside

    def _write(self, act: Callable[[Rows], object]) -> None:
        self.mend()
        try:
            self._try(act)
        except StoreError:
            if not self._corrupt:
                raise
            self.mend()
            self._try(act)

    def _try(self, act: Callable[[Rows], object]) -> None:
        try:
            with self._translated():
                for _ in range(LOCK_TRIES - 1):
                    with contextlib.suppress(diskcache.Timeout):
                        act(self._rows)
                        return
                act(self._rows)
        except StoreError:
            # A failed COMMIT leaves its transaction open, and every later BEGIN would fail.
            self.close()
            raise

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except diskcache.Timeout as error:
            raise StoreError(f"the store's {self._folder.name} is locked") from error
        except _ERRORS as error:
            if _is_corrupt(error):
                self._corrupt = True
            raise StoreError(f"the store's {self._folder.name} failed: {error}") from error

    def _open(self) -> tuple[Rows, int | None]:
        try:
            try:
                rows = Rows(self._folder, size_max=self._size_max)
            except (*_ERRORS, *_MISSHAPEN) as error:
                if not isinstance(error, _MISSHAPEN) and not _is_corrupt(error):
                    raise
                self._set_aside(str(error))
                rows = Rows(self._folder, size_max=self._size_max)
        except _ERRORS as error:
            raise StoreError(f"the store's {self._folder} cannot be opened: {error}") from error
        return rows, _inode(self._folder)

    def _set_aside(self, reason: str) -> None:
        aside = self._folder.with_name(f"{self._folder.name}.corrupt")
        if aside.exists():
            shutil.rmtree(aside)
        self._folder.rename(aside)
        message = f"the store's {self._folder.name} was set aside as {aside} and is started anew: {reason}"
        _LOG.warning(message)
        self._on_failure(StoreError(message))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time opens, renames or makes files."""
        self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder.parent / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _inode(folder: Path) -> int | None:
    try:
        inode: int = (folder / DBNAME).stat().st_ino
    except OSError:
        return None
    return inode


def _is_corrupt(error: BaseException) -> bool:
    # Where SQLite has rolled back by itself (a full disk), diskcache's ROLLBACK fails and hides the reason.
    if "no transaction is active" in str(error) and error.__context__ is not None:
        error = error.__context__
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    code = getattr(error, "sqlite_errorcode", None)
    if not isinstance(code, int):
        return str(error).startswith("Could not decode")
    return code & 0xFF in _CORRUPT
