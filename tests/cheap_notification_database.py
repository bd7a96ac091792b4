"""An equivalent of notification databases in memory, which each proxy of a test opens, at a lower cost.

Databases in files stay as they are.
"""

import functools
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from feedproxy.notify.notification_database import NotificationDatabase, _prepare
from feedproxy.store.interface import OnFailure


class _SameThread(ThreadPoolExecutor):
    """An executor that calls each function at once. The caller gets the result in the next iteration of its loop."""

    def submit[**P, T](self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = Future[T]()
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def cheapen_databases_in_memory() -> None:
    """Let databases in memory copy their tables from one that was made before, and use no thread of their own."""
    make, open_file = NotificationDatabase.__init__, NotificationDatabase._open

    def init(self: Any, file: Path | None, on_failure: OnFailure) -> None:
        make(self, file, on_failure)
        if file is None:
            self._thread = _SameThread(1)

    def open_(self: Any) -> sqlite3.Connection:
        return open_file(self) if self._file is not None else _copy()

    setattr(NotificationDatabase, "__init__", init)  # noqa: B010 -- mypy permits no assignment
    setattr(NotificationDatabase, "_open", open_)  # noqa: B010


def _copy() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.deserialize(_tables())
    return connection


@functools.cache
def _tables() -> bytes:
    connection = _prepare(sqlite3.connect(":memory:", isolation_level=None))
    try:
        return connection.serialize()
    finally:
        connection.close()
