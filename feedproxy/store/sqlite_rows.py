"""diskcache without pickle: texts as keys, and bytes as values.

diskcache unpickles values, so a program with write access to the file could run code in the proxy. diskcache also opens
any file that a row names. This module refuses pickled values, and opens only files with names that diskcache gives.
"""

import contextlib
import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import diskcache
from diskcache.core import DBNAME, MODE_BINARY, MODE_RAW, UNKNOWN

from feedproxy.clock import Instant
from feedproxy.errors import StoreError
from feedproxy.store.corrupt_files import make_folder

FILE_MIN = 256 * 1024
"""Minimum size, in bytes, of a value that has a file of its own. With a much larger size, SQLite would copy long chains
of pages (docs/decisions/store-on-disk.md)."""
PAGE_CACHE_KIB = 256
"""Size of the page cache of each connection, in KiB. A cache four times as large is not faster
(docs/decisions/store-on-disk.md)."""
JOURNAL_MAX = 4 * 1024 * 1024
"""After a checkpoint, SQLite truncates the journal of a file to this many bytes: about the size at which SQLite starts
a checkpoint (1000 pages). `size_max` does not include the journal."""
MAP_MAX = 0
"""Size of the file's memory map, in bytes. 0: the file is not mapped, because a failing disk would then end the process
(docs/decisions/store-on-disk.md)."""
PAGE_ROWS = 256
"""Number of keys that one query reads when all keys are listed, in half a millisecond."""
BUSY_TIMEOUT = 0.25
"""Maximum time, in seconds, for which a statement waits for a lock. Reads wait only while SQLite recovers its log."""

OPEN_TIMEOUT = 0.5
"""Maximum time, in seconds, for which opening a file waits for a lock. diskcache waits for 60 s."""

_FILES_OF = "SELECT filename FROM Cache WHERE raw = 1 AND filename IS NOT NULL AND key IN ({marks})"
_STORE_INLINE = (
    "INSERT INTO Cache (key, raw, store_time, access_time, mode, value) VALUES {marks}"
    " ON CONFLICT (key, raw) DO UPDATE SET store_time = excluded.store_time, access_time = excluded.access_time,"
    " access_count = 0, size = 0, mode = excluded.mode, filename = NULL, value = excluded.value"
)
_VOLUME = "SELECT page_count, value FROM pragma_page_count, Settings WHERE key = 'size'"
_OLDEST = "SELECT filename FROM Cache ORDER BY store_time LIMIT ?"
_DELETE_OLDEST = "DELETE FROM Cache WHERE rowid IN (SELECT rowid FROM Cache ORDER BY store_time LIMIT ?)"
_INSERT_SETTING = "INSERT OR REPLACE INTO Settings VALUES (?, ?)"
_UPDATE_SETTING = "UPDATE Settings SET value = ? WHERE key = ?"
_SETUP_STATEMENT = re.compile("INSERT|UPDATE|CREATE|DROP")
"""Pattern of the statements by which diskcache sets up a file whenever it opens it."""
_UNWRITABLE = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR))
_FILE_NAME = re.compile(r"[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{28}\.val", re.ASCII)


class BytesOnly(diskcache.Disk):  # type: ignore[misc] # diskcache has no types
    """diskcache's disk format with str keys and bytes values. Raises StoreError for any other type."""

    def put(self, key: object) -> tuple[str, bool]:
        if type(key) is not str:
            raise StoreError(f"invalid key of type {type(key).__name__}: expected str")
        return key, True

    def get(self, key: object, raw: bool) -> object:
        if type(key) is not str or not raw:
            raise StoreError("the store has a key of another program")
        return key

    def store(self, value: object, read: bool, key: object = UNKNOWN) -> tuple[int, int, str | None, bytes | None]:
        if type(value) is not bytes or read:
            raise StoreError(f"invalid value of type {type(value).__name__}: expected bytes")
        if len(value) < self.min_file_size:
            return 0, MODE_RAW, None, value
        name, path = self.filename(key, value)
        _write_file(Path(path), value)
        return len(value), MODE_BINARY, name, None

    def fetch(self, mode: int, filename: object, value: object, read: bool) -> bytes:
        if mode == MODE_RAW and type(value) is bytes and not read:
            return value
        if mode == MODE_BINARY and value is None and not read and _is_value_file(filename):
            try:
                # Without O_NONBLOCK, opening a FIFO would wait for a writer.
                flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
                with open(os.open(Path(self._directory, str(filename)), flags), "rb") as file:
                    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                        raise OSError("not a regular file")
                    return file.read()
            except FileNotFoundError:
                # Another process has just replaced the file. diskcache treats this as a miss.
                raise
            except OSError as error:
                raise StoreError(f"store: {filename} cannot be read: {error}") from error
        raise StoreError("the store has a value of another program")

    def remove(self, file_path: object) -> None:
        if _is_value_file(file_path):
            super().remove(file_path)


def _is_value_file(filename: object) -> bool:
    return type(filename) is str and _FILE_NAME.fullmatch(filename) is not None


def _write_file(path: Path, value: bytes) -> None:
    for last_try in (False, False, True):
        try:
            make_folder(path.parent.parent)
            make_folder(path.parent)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            break
        except FileNotFoundError:
            # Another process has just removed the folder because it was empty.
            if last_try:
                raise
    try:
        with open(descriptor, "wb") as file:
            file.write(value)
    except OSError:
        # An incomplete file would take space on a full disk.
        path.unlink(missing_ok=True)
        raise


def _setting_in(statement: str, parameters: tuple[Any, ...]) -> tuple[str, tuple[type, object]] | None:
    """Return the name of the setting that a statement writes, with its type and value, or None if it writes none."""
    if statement == _INSERT_SETTING:
        name, value = parameters[0]
    elif statement == _UPDATE_SETTING:
        value, name = parameters[0]
    else:
        return None
    return name, (type(value), value)


class Rows(diskcache.Cache):  # type: ignore[misc] # diskcache has no types
    """One SQLite file, and the files of large values. Raises the errors of sqlite3, diskcache and the system.

    Each thread has its own connection. `close` closes only the connection of the calling thread.
    """

    def __init__(self, folder: Path, *, size_max: int | None) -> None:
        make_folder(folder)
        with contextlib.suppress(FileExistsError):
            # SQLite gives its journals the permissions of this file.
            os.close(os.open(folder / DBNAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        self.size_max = size_max
        self._open_deadline = time.monotonic() + OPEN_TIMEOUT
        self._has_settings = False
        # Whenever diskcache opens a file, it writes each of 17 settings twice, each time in a transaction of its own.
        # Only settings that the file lacks are written.
        self._settings: dict[str, tuple[type, object]] = {}
        self._is_open = False
        super().__init__(
            str(folder),
            timeout=BUSY_TIMEOUT,
            disk=BytesOnly,
            cull_limit=0,
            disk_min_file_size=FILE_MIN,
            eviction_policy="least-recently-stored",
            size_limit=size_max or 0,
            sqlite_cache_size=-PAGE_CACHE_KIB,
            sqlite_journal_size_limit=JOURNAL_MAX,
            sqlite_mmap_size=MAP_MAX,
            statistics=0,
            tag_index=0,
        )
        self._is_open = True

    @property
    def _sql(self) -> Callable[..., Any]:
        """Return a function that executes a statement, and repeats it for a limited time while the file is locked."""
        execute: Callable[..., Any] = self._con.execute

        def execute_checked(statement: str, *parameters: Any) -> Any:
            setting = None if self._is_open else _setting_in(statement, parameters)
            if setting is not None and self._settings.get(setting[0]) == setting[1]:
                return None
            try:
                result = execute(statement, *parameters)
            except sqlite3.OperationalError as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                if (
                    not self._is_open
                    and self._has_settings
                    and code in _UNWRITABLE
                    and _SETUP_STATEMENT.match(statement)
                ):
                    # The file was set up before, and can still be read while it cannot be written.
                    return execute("SELECT 0 WHERE 0")
                if (
                    code == sqlite3.SQLITE_BUSY
                    and time.monotonic() > self._open_deadline
                    and not statement.startswith("BEGIN")
                ):
                    raise diskcache.Timeout from error  # this error causes no further attempt
                raise
            if statement.startswith("SELECT key, value FROM Settings"):
                self._has_settings = True
                self._settings = {name: (type(value), value) for name, value in execute(statement)}
            if setting is not None:
                self._settings[setting[0]] = setting[1]
            return result

        return execute_checked

    def set_all(self, values: Mapping[str, bytes]) -> None:
        """Store several values, which must be smaller than FILE_MIN, in one transaction.

        One statement stores all values: after each statement, the thread can wait for Python's interpreter lock.
        """
        with self._transact() as (sql, cleanup):
            for (name,) in sql(_FILES_OF.format(marks=", ".join("?" * len(values))), tuple(values)).fetchall():
                cleanup(name)
            now = time.time()
            columns = [column for key, value in values.items() for column in (key, 1, now, now, MODE_RAW, value)]
            sql(_STORE_INLINE.format(marks=", ".join(["(?, ?, ?, ?, ?, ?)"] * len(values))), columns)

    def volume(self) -> int:
        """Return the size of the SQLite file and of the files of values, in bytes."""
        ((page_count, size_of_files),) = self._sql(_VOLUME).fetchall()
        volume: int = self._page_size * page_count + size_of_files
        return volume

    def cull_slice(self, limit: int) -> int:
        """Remove at most `limit` of the least recently stored values, if all together exceed `size_max`. Return the
        number of removed values. diskcache's own `cull` blocks all writes for seconds."""
        if self.size_max is None or self.volume() <= self.size_max:
            return 0
        with self._transact() as (sql, cleanup):
            names = [name for (name,) in sql(_OLDEST, (limit,)).fetchall()]
            sql(_DELETE_OLDEST, (limit,))
            for name in names:
                cleanup(name)
        return len(names)

    def checkpoint(self) -> None:
        """Checkpoint the journal if the files take more than `size_max` + JOURNAL_MAX bytes.

        Only a checkpoint returns the space of removed values to the file system.
        """
        if self.size_max is None:
            return
        bytes_used = sum(path.lstat().st_size for path in Path(self.directory).glob(f"{DBNAME}*"))
        if bytes_used > self.size_max + JOURNAL_MAX:
            # PASSIVE does not wait. Pages that another process uses are checkpointed next time.
            self._sql("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def iter_keys(self) -> Iterator[str]:
        last = ""
        page = "SELECT key FROM Cache WHERE key > ? AND raw = 1 AND typeof(key) = 'text' ORDER BY key LIMIT ?"
        while keys := [key for (key,) in self._sql(page, (last, PAGE_ROWS)).fetchall()]:
            yield from keys
            last = keys[-1]

    def remove_orphans(self, before: Instant) -> int:
        """Remove files older than `before` that no row names, and return their number.

        Such a file remains if a process is killed between writing the file and its row.
        """
        root = Path(self.directory)
        old_files = {path for path in root.glob("??/??/*.val") if path.lstat().st_mtime < before}
        if not old_files:
            return 0
        named_files = self._sql("SELECT filename FROM Cache WHERE filename IS NOT NULL").fetchall()
        orphans = old_files - {root / name for (name,) in named_files}
        for path in orphans:
            self.disk.remove(path.relative_to(root).as_posix())
        return len(orphans)
