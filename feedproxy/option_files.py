"""Reading of files that options name, and their paths. A pipe, a device or a huge file must neither block the process
nor use up its memory."""

import errno
import os
import stat
import time
from pathlib import Path

from feedproxy.clock import Seconds
from feedproxy.errors import UsageError

FILE_BYTES_MAX = 64 * 1024 * 1024
"""A file of more than this many bytes is refused. A configuration file of this size has a million rules."""
PIPE_POLL_INTERVAL: Seconds = 0.01
PIECE = 65_536
"""A file is read in pieces of this many bytes."""


def expand(path: str) -> Path:
    """Return a path with `~` and `~USER` replaced by a home folder. Raises UsageError for an unknown user."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{path}: {path.partition('/')[0]} has no home folder") from error


def read(path: Path, *, pipe_timeout: Seconds | None = None) -> bytes:
    """Return the content of a regular file. If `pipe_timeout` is set, `path` may also be a device, or a pipe that the
    writer closes within this many seconds. Raises OSError if the content cannot be read or is too large, or if `path`
    is of another kind."""
    # Without O_NONBLOCK, open() waits until a program opens the pipe for writing.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if pipe_timeout is None and not stat.S_ISREG(mode):
            kind = "pipe" if stat.S_ISFIFO(mode) else "folder" if stat.S_ISDIR(mode) else "device"
            raise OSError(errno.EINVAL, f"it is a {kind}: expected a file, which can be read again after each change")
        return _read_all(descriptor, pipe_timeout if stat.S_ISFIFO(mode) else None)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, pipe_timeout: Seconds | None) -> bytes:
    content, start = bytearray(), time.monotonic()
    while True:
        try:
            piece = os.read(descriptor, PIECE)
        except BlockingIOError:
            piece = b""
            if pipe_timeout is None:
                raise
        else:
            # Before a program has opened a pipe for writing, b"" stands for "nothing yet".
            if not piece and (content or pipe_timeout is None):
                return bytes(content)
        content += piece
        if len(content) > FILE_BYTES_MAX:
            raise OSError(errno.EFBIG, f"larger than {FILE_BYTES_MAX} bytes")
        if not piece and pipe_timeout is not None:
            if time.monotonic() > start + pipe_timeout:
                reason = f"it is a pipe, and no file came from it within {pipe_timeout} s"
                raise TimeoutError(errno.ETIMEDOUT, reason)
            time.sleep(PIPE_POLL_INTERVAL)


def read_text(path: Path) -> str:
    """Return the text in a file. Raises UsageError if it cannot be read or is not UTF-8."""
    try:
        return read(path).decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: expected UTF-8") from error
