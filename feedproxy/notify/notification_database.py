"""The database of notifications: a SQLite file in the store's folder.

A subscription or an accepted ping cannot be fetched again, unlike a feed in the store. The database therefore commits
subscriptions and pings before they are acknowledged (`synchronous=FULL`, docs/decisions/notification-database.md).

Several processes may open the file. Only the process that holds the lock sends deliveries. In each process, one thread
uses the connection to the database.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from feedproxy.clock import Instant, Seconds
from feedproxy.errors import StoreError
from feedproxy.store.corrupt_files import clear_file, file_fault, make_folder, set_aside
from feedproxy.store.interface import OnFailure
from feedproxy.store.store_location import store_folder

logger = logging.getLogger(__name__)

BUSY_TIMEOUT: Seconds = 10
"""A transaction fails after it has waited this many seconds for another process."""

CLOCK_STEP_MIN: Seconds = 60
"""Deadlines are corrected if the clock was set back by more than this many seconds. A time service makes smaller
steps."""

DUE_MAX: Seconds = 7_200
"""After a start, every delivery and refresh is made due within this many seconds, the longest delay between two
retries. A later due time was computed while the clock was ahead.

The expiries of subscriptions are not changed, because the clock can still be at 1970, and be set forward soon.
"""

SCHEMA_VERSION = 2

JOURNAL_SUFFIXES = ("-wal", "-shm", "-journal")

SCHEMA = """
CREATE TABLE known (  -- every stored feed: its last recorded content, and how a site's ping finds it
    target TEXT PRIMARY KEY, digest TEXT NOT NULL, at REAL NOT NULL, place TEXT NOT NULL, link TEXT NOT NULL,
    name TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX known_place ON known (place);
CREATE INDEX known_link ON known (link);
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, target TEXT NOT NULL, name TEXT NOT NULL,
    url TEXT NOT NULL, listed INTEGER NOT NULL);
CREATE INDEX changes_at ON changes (at);
CREATE TABLE errands (  -- refreshes owed to accepted pings
    target TEXT PRIMARY KEY, due REAL NOT NULL, tries INTEGER NOT NULL, pings INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE rung (  -- last refresh of each target by pings
    target TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE strangers (  -- unknown sites that pinged
    url TEXT PRIMARY KEY, name TEXT NOT NULL, first REAL NOT NULL, last REAL NOT NULL, count INTEGER NOT NULL);
CREATE TABLE subscriptions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, role TEXT NOT NULL, protocol TEXT NOT NULL, topic TEXT NOT NULL,
    callback TEXT NOT NULL, host TEXT NOT NULL, state TEXT NOT NULL, since REAL NOT NULL, expires REAL NOT NULL,
    renew_at REAL, secret TEXT NOT NULL, data TEXT NOT NULL, last_try REAL, last_success REAL,
    failures INTEGER NOT NULL, note TEXT NOT NULL, moved_from TEXT NOT NULL DEFAULT '',
    UNIQUE (role, protocol, topic, callback));
CREATE INDEX subscriptions_topic ON subscriptions (topic, role, state);
CREATE INDEX subscriptions_moved ON subscriptions (moved_from, role, state) WHERE moved_from <> '';
CREATE INDEX subscriptions_expires ON subscriptions (expires);
CREATE INDEX subscriptions_renew ON subscriptions (renew_at) WHERE renew_at IS NOT NULL;
CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, protocol TEXT NOT NULL, what TEXT NOT NULL, topic TEXT NOT NULL,
    callback TEXT NOT NULL, host TEXT NOT NULL, subscription INTEGER, change INTEGER NOT NULL, data TEXT NOT NULL,
    due REAL NOT NULL, tries INTEGER NOT NULL, since REAL NOT NULL, note TEXT NOT NULL,
    UNIQUE (protocol, what, topic, callback));
CREATE INDEX deliveries_due ON deliveries (due);
CREATE INDEX deliveries_subscription ON deliveries (subscription);
"""

MIGRATION_FROM_1 = """
ALTER TABLE subscriptions ADD COLUMN moved_from TEXT NOT NULL DEFAULT '';
CREATE INDEX subscriptions_moved ON subscriptions (moved_from, role, state) WHERE moved_from <> '';
"""
"""SQL that migrates a database from schema version 1 to 2."""


def _shift_deadlines(db: sqlite3.Connection, seconds: Seconds) -> None:
    """Subtract `seconds` from all deadlines, because the clock was set back by this time. A clock that was a year ahead
    would otherwise delay deliveries and prolong subscriptions by a year."""
    for statement in (
        "UPDATE deliveries SET due = due - ?1, since = since - ?1",
        "UPDATE subscriptions SET expires = expires - ?1, renew_at = renew_at - ?1",
        "UPDATE errands SET due = due - ?1",
        "UPDATE rung SET at = at - ?1",
    ):
        db.execute(statement, (seconds,))


def _limit_due(db: sqlite3.Connection, latest: Instant) -> None:
    for table in ("deliveries", "errands"):
        db.execute(f"UPDATE {table} SET due = ?1 WHERE due > ?1", (latest,))  # noqa: S608 -- fixed names


def database_file(store: str) -> Path | None:
    """Return the path of the database in the store's folder, or None for a store in memory. For a store on another
    machine, the folder is the platform's cache folder: each proxy has its own subscribers."""
    if store == "memory:":
        return None
    folder = store_folder("" if "://" in store else store)
    return folder.absolute() / "notify" / "ledger.sqlite3"


class NotificationDatabase:
    """The database of notifications. It runs transactions in its own thread."""

    def __init__(self, file: Path | None, on_failure: OnFailure) -> None:
        """Create the object; the first transaction opens the file. `on_failure` gets the error of each failed
        transaction."""
        self._file = file
        self._on_failure = on_failure
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="feedproxy-ledger")
        self._lock: int | None = None
        self._corrected_at: Instant | None = None
        self.closed = False

    async def run[T](self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` as one transaction. Return its result after the commit. Raises StoreError if the database
        fails."""
        if self.closed:
            raise StoreError("the notification database is closed")
        try:
            return await asyncio.wrap_future(self._thread.submit(self._transact, work))
        except StoreError as error:
            self._on_failure(error)
            raise

    async def fetch(self, query: str, *parameters: object) -> list[sqlite3.Row]:
        """Return all rows of a query. Raises StoreError if the database fails."""
        return await self.run(lambda db: db.execute(query, parameters).fetchall())

    async def execute(self, statement: str, *parameters: object) -> int:
        """Execute a statement as one transaction, and return the number of changed rows. Raises StoreError if the
        database fails."""
        return await self.run(lambda db: db.execute(statement, parameters).rowcount)

    async def correct_deadlines(self, now: Instant) -> None:
        """Move all deadlines back if the clock was set back since the last call. The first call limits when deliveries
        and refreshes are due (DUE_MAX). Raises StoreError if the database fails."""
        if self._corrected_at is None:
            await self.run(partial(_limit_due, latest=now + DUE_MAX))
            self._corrected_at = now
        if (step := self._corrected_at - now) > CLOCK_STEP_MIN:
            logger.warning("notify: clock set back by %.0f s, deadlines moved back by as much", step)
            await self.run(partial(_shift_deadlines, seconds=step))
        self._corrected_at = now

    def acquire_delivery_lock(self) -> bool:
        """Acquire the lock for sending deliveries, until the process exits. Return False if another process holds the
        lock."""
        if self._file is None or self._lock is not None:
            return True
        handle = -1
        try:
            make_folder(self._file.parent)
            lock = self._file.with_suffix(".lock")
            clear_file(lock)
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if handle >= 0:
                os.close(handle)
            return False
        self._lock = handle
        return True

    async def close(self) -> None:
        """Finish the running transaction and close the file. May be called again."""
        if self.closed:
            return
        self.closed = True
        await asyncio.wrap_future(self._thread.submit(self._disconnect))
        self._thread.shutdown()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # -- in the thread

    def _transact[T](self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is not None and _inode(self._file) != self._inode:
                self._disconnect()  # the file was removed or restored, and SQLite would write to the former one
            if self._connection is None:
                self._connection = self._open()
                self._inode = _inode(self._file)
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            return result
        except (sqlite3.Error, OSError) as error:
            if _is_corrupt(error):
                with contextlib.suppress(OSError):  # the disk is read-only: the next transaction tries again
                    self._set_aside(error)
            raise StoreError(f"notification database failed: {error}") from error

    def _open(self) -> sqlite3.Connection:
        if self._file is None:
            return _prepare(sqlite3.connect(":memory:", isolation_level=None))
        make_folder(self._file.parent)
        clear_file(self._file)
        for suffix in JOURNAL_SUFFIXES:
            clear_file(Path(f"{self._file}{suffix}"))
        # SQLite gives its journals the permissions of this file, which contains secrets.
        os.close(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            return _prepare(sqlite3.connect(self._file, timeout=BUSY_TIMEOUT, isolation_level=None))
        except sqlite3.Error as error:
            if not _is_corrupt(error):
                raise
            self._set_aside(error)
            return _prepare(sqlite3.connect(self._file, timeout=BUSY_TIMEOUT, isolation_level=None))

    def _set_aside(self, reason: Exception) -> None:
        self._disconnect()
        if self._file is None:
            return
        for suffix in ("", *JOURNAL_SUFFIXES):
            file, corrupt_file = Path(f"{self._file}{suffix}"), Path(f"{self._file}.corrupt{suffix}")
            if file_fault(corrupt_file):
                set_aside(corrupt_file, "it is in the way")
            if file.exists():
                file.replace(corrupt_file)
            else:
                corrupt_file.unlink(missing_ok=True)  # belongs to a database that was set aside before
        logger.warning("notify: database %s set aside as .corrupt, starting with a new one: %s", self._file, reason)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _inode(file: Path | None) -> int | None:
    try:
        return file.stat().st_ino if file is not None else None
    except OSError:
        return None


def _prepare(connection: sqlite3.Connection) -> sqlite3.Connection:
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")  # two processes may open it at the same time
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version < SCHEMA_VERSION:
            for statement in (MIGRATION_FROM_1 if version else SCHEMA).split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
        if version > SCHEMA_VERSION:
            raise StoreError("the notification database was written by a later version of feedproxy")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_corrupt(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if not isinstance(code, int):
        return False
    if code & 0xFF == sqlite3.SQLITE_ERROR:
        return "no such table" in str(error) or "no such column" in str(error) or "has no column" in str(error)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
