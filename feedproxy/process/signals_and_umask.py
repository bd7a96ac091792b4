"""Signals while the proxy starts, signals that are always ignored, and the umask."""

import contextlib
import os
import signal

WRITABLE_BY_OTHERS = 0o022
"""Bits of a file's mode that permit other accounts to write to the file."""


def prepare() -> None:
    """Set the signal handlers for the start, and the umask."""
    with contextlib.suppress(AttributeError, ValueError):  # no such signal, or not the main thread
        # SIGHUP is ignored until there is a handler: it must not end a proxy that is starting.
        # SIGUSR1 and SIGUSR2 are always ignored. Programs that rotate logs send them to servers.
        for ignored in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(ignored, signal.SIG_IGN)
        # The first process of a container ignores SIGTERM without a handler.
        signal.signal(signal.SIGTERM, _end_start)
    # Whatever the umask, other accounts must not replace the certificate authority or other files of this process.
    os.umask(os.umask(WRITABLE_BY_OTHERS) | WRITABLE_BY_OTHERS)


def _end_start(number: int, frame: object) -> None:
    # Python would ignore an exception in a callback of the garbage collection, which a supervisor runs at the start.
    os._exit(0)
