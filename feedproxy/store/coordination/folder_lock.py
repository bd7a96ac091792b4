"""Lock of a store's folder against its use by two servers.

If two servers used one folder, each would answer with copies in its memory that the other has already replaced on the
disk. Notifications would be delivered twice. The kernel releases the lock (flock) when the process ends.
"""

import contextlib
import fcntl
import os
from pathlib import Path

from feedproxy.errors import FeedproxyError

LOCK_NAME = "in-use"
"""Name of the locked file in the store's folder. The file contains the process id."""


class FolderInUse(FeedproxyError):
    """Error for a folder that another process uses."""


def acquire(folder: Path) -> int | None:
    """Lock the folder, and create it if it is missing. Return the file descriptor of the lock.

    Return None if the file system has no locks, or if the folder cannot be written. Raises FolderInUse if it is locked.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise FolderInUse(
            f"store: {folder} is in use by process {holder or '?'}: expected a folder that no other feedproxy uses,"
            " or reuse_port in both"
        ) from None
    except OSError:  # the file system has no locks
        os.close(descriptor)
        return None
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
