"""Broken parts of a store's folder are renamed, and new ones take their place.

A part is broken where it is of another type than expected (a directory, a FIFO, a socket, a dangling symbolic link), or
where the process may not read and write it. Nothing is opened to find that out: opening a FIFO can wait for ever.
"""

import logging
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)

SUFFIX = ".corrupt"
KEPT_MAX = 100
"""Names tried for what is set aside, where an earlier one cannot be removed."""


def set_aside(path: Path, reason: str) -> Path:
    """Rename `path` to `NAME.corrupt`, in place of an earlier one, and log it. Raises OSError."""
    for number in range(KEPT_MAX):
        aside = path.with_name(f"{path.name}{SUFFIX}{f'.{number}' if number else ''}")
        if _remove(aside):
            break
    path.rename(aside)
    logger.warning("store: %s was set aside as %s: %s", path, aside.name, reason)
    return aside


def make_folder(path: Path) -> None:
    """Make this folder, unless it is there; set aside what cannot serve as one. Raises OSError."""
    reason = folder_fault(path)
    if reason:
        set_aside(path, reason)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def clear_file(path: Path) -> None:
    """Set aside what is there under this name, unless it is a file that can be read and written. Raises OSError."""
    reason = file_fault(path)
    if reason:
        set_aside(path, reason)


def folder_fault(path: Path) -> str:
    """Why this cannot serve as a folder; empty where it can, or where nothing is there."""
    return _fault(path, stat.S_ISDIR, "no folder", os.R_OK | os.W_OK | os.X_OK)


def file_fault(path: Path) -> str:
    """Why this cannot serve as a file; empty where it can, or where nothing is there."""
    return _fault(path, stat.S_ISREG, "no regular file", os.R_OK | os.W_OK)


def _fault(path: Path, is_expected: Callable[[int], bool], otherwise: str, access: int) -> str:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "a dangling symbolic link" if path.is_symlink() else ""
    except NotADirectoryError:
        return ""  # the fault is that of the folder above
    except OSError as error:
        return error.strerror or str(error)
    if not is_expected(mode):
        return otherwise
    # A file system that is mounted read-only is no fault of the file.
    if not os.access(path, access) and not os.statvfs(path).f_flag & os.ST_RDONLY:
        return "it may not be read and written"
    return ""


def _remove(path: Path) -> bool:
    """Whether nothing is there under this name (any more)."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        return False
    return True
