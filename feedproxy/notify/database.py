"""The ledger: a SQLite file of its own in the store's folder, for what was promised to others.

The store of feeds is a cache: it may forget, writes behind, and is set right by asking origins again. A subscription
or an accepted ping cannot be asked for again, so these are written before they are answered (`synchronous=FULL`), and
what belongs together in one transaction. SQLite because the queue asks for what is due, whose host is free, in order;
with diskcache's Deque or Index that would be a walk through everything.
(docs/decisions/a-ledger-beside-the-store.md)

One thread has the connection; several processes may have the file. Only one of them delivers: who holds the lock.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from feedproxy.clock import Seconds
from feedproxy.errors import StoreError
from feedproxy.store.quarantine import clear_file, file_fault, make_folder, set_aside
from feedproxy.store.tiered import store_folder

logger = logging.getLogger(__name__)

BUSY_TIMEOUT: Seconds = 10
"""Another process may write for so long before ours is given up."""

SCHEMA_VERSION = 2

JOURNAL_SUFFIXES = ("-wal", "-shm", "-journal")

SCHEMA = """
CREATE TABLE known (  -- every feed held: what was last told of it, and how a site's ping finds it
    target TEXT PRIMARY KEY, digest TEXT NOT NULL, at REAL NOT NULL, place TEXT NOT NULL, link TEXT NOT NULL,
    name TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX known_place ON known (place);
CREATE INDEX known_link ON known (link);
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, target TEXT NOT NULL, name TEXT NOT NULL,
    url TEXT NOT NULL, listed INTEGER NOT NULL);
CREATE INDEX changes_at ON changes (at);
CREATE TABLE errands (  -- refreshes that were promised to who pinged
    target TEXT PRIMARY KEY, due REAL NOT NULL, tries INTEGER NOT NULL, pings INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE rung (target TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE strangers (
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
"""What a ledger of version 1 lacks."""


def shift_deadlines(db: sqlite3.Connection, seconds: Seconds) -> None:
    """The clock was put back by so much: what is to come stays as far away as it was. Within a transaction.

    Else a clock that was a year ahead would leave deliveries waiting and subscriptions standing for that year.
    """
    for statement in (
        "UPDATE deliveries SET due = due - ?1, since = since - ?1",
        "UPDATE subscriptions SET expires = expires - ?1, renew_at = renew_at - ?1",
        "UPDATE errands SET due = due - ?1",
        "UPDATE rung SET at = at - ?1",
    ):
        db.execute(statement, (seconds,))


def database_file(store: str) -> Path | None:
    """Where the ledger of a store lies: in its folder; None for one in memory.

    A store on another machine is shared by many, and a promise is kept by who gave it: then it is the platform's
    cache folder.
    """
    if store == "memory:":
        return None
    folder = store_folder("" if "://" in store else store)
    return folder.absolute() / "notify" / "ledger.sqlite3"


class NotificationDatabase:
    """Transactions in a thread of their own. Opened at the first one."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="feedproxy-ledger")
        self._lock: int | None = None
        self.closed = False

    async def run[T](self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do this as one transaction, committed when it returns. Raises StoreError."""
        if self.closed:
            raise StoreError("the ledger is closed")
        return await asyncio.wrap_future(self._thread.submit(self._transact, work))

    def acquire_delivery_lock(self) -> bool:
        """Whether this process is the one that delivers: the first to ask, until it ends."""
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
        """Finish what is under way, and let go. Closing twice is allowed."""
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
            if self._connection is None:
                self._connection = self._open()
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
                self._set_aside(error)
            raise StoreError(f"cannot write the subscription database: {error}") from error

    def _open(self) -> sqlite3.Connection:
        if self._file is None:
            return _prepare(sqlite3.connect(":memory:", isolation_level=None))
        make_folder(self._file.parent)
        clear_file(self._file)
        for suffix in JOURNAL_SUFFIXES:
            clear_file(Path(f"{self._file}{suffix}"))
        # SQLite gives its journals the permissions of this file, and there are secrets in it.
        os.close(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            return _prepare(sqlite3.connect(self._file, timeout=BUSY_TIMEOUT, isolation_level=None))
        except sqlite3.Error as error:
            if not _is_corrupt(error):
                raise
            self._set_aside(error)
            return _prepare(sqlite3.connect(self._file, timeout=BUSY_TIMEOUT, isolation_level=None))

    def _set_aside(self, reason: Exception) -> None:
        """A damaged ledger is kept for who can read it, and a new one begun: subscribers come again by themselves."""
        self._disconnect()
        if self._file is None:
            return
        for suffix in ("", *JOURNAL_SUFFIXES):
            part, aside = Path(f"{self._file}{suffix}"), Path(f"{self._file}.corrupt{suffix}")
            if file_fault(aside):
                set_aside(aside, "it is in the way")
            if part.exists():
                part.replace(aside)
            else:
                aside.unlink(missing_ok=True)  # of another ledger that was set aside
        logger.warning("the ledger %s was set aside as .corrupt and is started anew: %s", self._file, reason)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _prepare(connection: sqlite3.Connection) -> sqlite3.Connection:
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")  # two processes may come at the same time
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version < SCHEMA_VERSION:
            for statement in (MIGRATION_FROM_1 if version else SCHEMA).split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
        if version > SCHEMA_VERSION:
            raise StoreError("the ledger is of a later version of feedproxy")
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
