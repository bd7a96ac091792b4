"""systemd's protocols for socket activation (sd_listen_fds(3)) and notification (sd_notify(3)). Without systemd, the
functions have no effect."""

import contextlib
import os
import socket
import time

from feedproxy.clock import Seconds
from feedproxy.errors import UsageError

FIRST = 3
"""First descriptor that systemd passes (SD_LISTEN_FDS_START)."""
ADMIN = "admin"
"""FileDescriptorName of the admin listener's sockets. All other sockets are for clients."""


def notify(state: str) -> None:
    """Send a state such as `READY=1` to the service manager."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as wire:
        # A notification that cannot be sent at once is dropped.
        wire.setblocking(False)
        wire.sendto(state.encode(), address)


def notify_reloading() -> None:
    """Notify the service manager that the proxy begins to load its configuration again. `notify_ready` ends the reload.

    The message contains the time of the monotonic clock. The time shows systemd that the message is later than
    systemd's own request (`Type=notify-reload`, sd_notify(3)).
    """
    notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}\nSTATUS=loading the configuration")


def notify_ready() -> None:
    notify("READY=1\nSTATUS=ready")


def watchdog() -> Seconds | None:
    """Return the seconds between two notifications `WATCHDOG=1`: half of WatchdogSec, as sd_watchdog_enabled(3)
    recommends. Return None if systemd has no watchdog for the service."""
    pid, microseconds = os.environ.get("WATCHDOG_PID", ""), os.environ.get("WATCHDOG_USEC", "")
    if (pid and pid != str(os.getpid())) or not microseconds.isdigit() or int(microseconds) == 0:
        return None
    return int(microseconds) / 2e6


def disable_notifications() -> None:
    """Disable notifications in this process. The supervisor sends them for its workers."""
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        os.environ.pop(name, None)


def sockets() -> tuple[tuple[socket.socket, ...], tuple[socket.socket, ...]]:
    """Return the sockets that systemd passed, for clients and for the admin listener: two tuples, which can be empty.

    Raises UsageError if a descriptor is no listening TCP socket. Call this function only once.
    """
    pid, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    names = os.environ.pop("LISTEN_FDNAMES", "").split(":")
    if pid != str(os.getpid()) or not count.isdigit():
        return (), ()
    readers: list[socket.socket] = []
    admin: list[socket.socket] = []
    for number in range(int(count)):
        try:
            os.set_inheritable(FIRST + number, False)
            passed_socket = socket.socket(fileno=FIRST + number)
            listens = passed_socket.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        except OSError as error:
            raise UsageError(f"LISTEN_FDS: descriptor {FIRST + number} is not a socket: {error.strerror}") from error
        if (
            passed_socket.family not in (socket.AF_INET, socket.AF_INET6)
            or passed_socket.type != socket.SOCK_STREAM
            or not listens
        ):
            raise UsageError(
                f"LISTEN_FDS: descriptor {FIRST + number}: expected a listening TCP socket (ListenStream=PORT)"
            )
        (admin if names[number : number + 1] == [ADMIN] else readers).append(passed_socket)
    return tuple(readers), tuple(admin)
