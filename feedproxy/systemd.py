"""systemd's two protocols: sockets that it opened (sd_listen_fds(3)), and what it is told (sd_notify(3)).

Both are a few lines over the environment, so no library is used. Without systemd nothing here does anything.
"""

import contextlib
import os
import socket

from feedproxy.clock import Seconds
from feedproxy.errors import UsageError

FIRST = 3
"""SD_LISTEN_FDS_START: the first descriptor that is passed."""
ADMIN = "admin"
"""FileDescriptorName of the admin listener's sockets; those of any other name are for readers."""


def notify(state: str) -> None:
    """Tell the service manager, `READY=1` for example."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as wire:
        # What cannot be told now is not worth waiting for.
        wire.setblocking(False)
        wire.sendto(state.encode(), address)


def watchdog() -> Seconds | None:
    """How often `WATCHDOG=1` has to be said: half of WatchdogSec. None where nobody waits for it."""
    pid, microseconds = os.environ.get("WATCHDOG_PID", ""), os.environ.get("WATCHDOG_USEC", "")
    if (pid and pid != str(os.getpid())) or not microseconds.isdigit() or int(microseconds) == 0:
        return None
    return int(microseconds) / 2e6


def be_silent() -> None:
    """Tell nothing from now on: in a process that was started by the one that tells."""
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        os.environ.pop(name, None)


def sockets() -> tuple[tuple[socket.socket, ...], tuple[socket.socket, ...]]:
    """The sockets that were passed, for readers and for the admin listener. Raises UsageError. To be called once."""
    pid, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    names = os.environ.pop("LISTEN_FDNAMES", "").split(":")
    if pid != str(os.getpid()) or not count.isdigit():
        return (), ()
    readers: list[socket.socket] = []
    admin: list[socket.socket] = []
    for number in range(int(count)):
        try:
            os.set_inheritable(FIRST + number, False)
            passed = socket.socket(fileno=FIRST + number)
            listens = passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        except OSError as error:
            raise UsageError(f"LISTEN_FDS: descriptor {FIRST + number} is no socket: {error.strerror}") from error
        if passed.family not in (socket.AF_INET, socket.AF_INET6) or passed.type != socket.SOCK_STREAM or not listens:
            raise UsageError(f"LISTEN_FDS: descriptor {FIRST + number} is no listening TCP socket (ListenStream=PORT)")
        (admin if names[number : number + 1] == [ADMIN] else readers).append(passed)
    return tuple(readers), tuple(admin)
