"""Quarantine (renaming) of broken files and folders of a store, and the errors that show a corrupt file.

A path is broken if the process must not read and write it, or if it has the wrong type, such as a FIFO or a dangling
symbolic link. The check opens nothing, because opening a FIFO can block.
"""

import logging
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)

SUFFIX = ".corrupt"
NAMES_MAX = 100
"""Maximum number of names tried for a broken file. A name in use can be taken only if its file can be removed."""

_CORRUPT = frozenset(
    # The last two errors are included because this program's SQL is valid: they mean that tables or indexes were
    # altered.
    (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT)
)
_UNREADABLE = frozenset(
    (
        sqlite3.SQLITE_IOERR_READ,
        sqlite3.SQLITE_IOERR_SHORT_READ,
        sqlite3.SQLITE_IOERR_CORRUPTFS,
        sqlite3.SQLITE_IOERR_DATA,
    )
)


def cause_of(error: BaseException) -> BaseException:
    """Return the reason of an error: for the failure of a ROLLBACK, the error before it, otherwise `error` itself."""
    # If SQLite has rolled back by itself, as on a full disk, diskcache's ROLLBACK fails and hides the reason.
    if "no transaction is active" in str(error) and error.__context__ is not None:
        return error.__context__
    return error


def is_corrupt(error: BaseException) -> bool:
    """Return True if an error of SQLite or diskcache shows that the file of a shard is corrupt or unreadable."""
    error = cause_of(error)
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    code = getattr(error, "sqlite_errorcode", None)
    if not isinstance(code, int):
        return str(error).startswith("Could not decode")
    return code & 0xFF in _CORRUPT or code in _UNREADABLE


def set_aside(path: Path, reason: str) -> Path:
    """Rename `path` to `NAME.corrupt`, log a warning, and return the new path. An earlier file is replaced.

    If the earlier file cannot be removed, the new name gets a number. Raises OSError if `path` cannot be renamed.
    """
    for number in range(NAMES_MAX):
        quarantined = path.with_name(f"{path.name}{SUFFIX}{f'.{number}' if number else ''}")
        if _remove(quarantined):
            break
    path.rename(quarantined)
    logger.warning("store: %s was set aside as %s: %s", path, quarantined.name, reason)
    return quarantined


def make_folder(path: Path) -> None:
    """Create the folder `path` unless it exists. A broken path is renamed first. Raises OSError if this fails."""
    reason = _fault(path, stat.S_ISDIR, "not a folder", os.R_OK | os.W_OK | os.X_OK)
    if reason:
        set_aside(path, reason)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def clear_file(path: Path) -> None:
    """Rename `path` if it exists and is not a readable and writable file. Raises OSError if this fails."""
    reason = file_fault(path)
    if reason:
        set_aside(path, reason)


def file_fault(path: Path) -> str:
    """Return the reason why `path` cannot be used as a file, or "" if it can be used or does not exist."""
    return _fault(path, stat.S_ISREG, "not a regular file", os.R_OK | os.W_OK)


def _fault(path: Path, is_expected: Callable[[int], bool], fault_if_unexpected: str, access: int) -> str:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "a dangling symbolic link" if path.is_symlink() else ""
    except (NotADirectoryError, PermissionError):
        return ""  # the fault is in a parent folder
    except OSError as error:
        return error.strerror or str(error)
    if not is_expected(mode):
        return fault_if_unexpected
    # A read-only file system is not a fault of the file.
    if not os.access(path, access) and not os.statvfs(path).f_flag & os.ST_RDONLY:
        return "not readable and writable"
    return ""


def _remove(path: Path) -> bool:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        return False
    return True
