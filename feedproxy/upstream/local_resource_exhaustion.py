"""Detection of failures of this machine: no descriptors, memory, ports, or network.

A failure of this machine is not recorded for the feed and causes no back-off.
"""

import errno
import logging
import os
import resource
import socket
import time

from feedproxy.clock import Seconds
from feedproxy.errors import Overload
from feedproxy.repeated_log_messages import LOG_INTERVAL
from feedproxy.upstream.upstream_errors import NoNetwork

logger = logging.getLogger(__name__)

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.EAGAIN})
"""Errors for exhausted resources: descriptors of the process or the system, socket buffers, memory, and ports."""

NO_NETWORK = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.ENONET})
"""Errors for a missing route to an origin. Such an error counts as a failure of this machine only if no other origin
can be reached. A machine without IPv6, for example, has no route to origins that have only IPv6."""

RESOLVER_FAILURES = frozenset({socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_SYSTEM})
"""Error codes of `getaddrinfo` if no name server or resolver responded."""

RECENT_SUCCESS: Seconds = 60
"""The network counts as down after this many seconds without a successful look-up or connection."""

DESCRIPTORS_RESERVED = 32
"""An exchange with an origin begins only if this many file descriptors remain for the store, the listeners, and the
sockets of helper processes."""
ADDRESS_SPACE_RESERVED = 96 * 1024 * 1024
"""Address space that must be free before an exchange begins, in bytes: enough for the largest response."""


class NetworkState:
    """The time of the last successful look-up or connection, which shows whether the network is down."""

    def __init__(self) -> None:
        self._worked = -RECENT_SUCCESS

    def record_success(self) -> None:
        """Record that a name look-up or a connection succeeded."""
        self._worked = time.monotonic()

    @property
    def is_down(self) -> bool:
        """Return True if no look-up or connection has succeeded for RECENT_SUCCESS seconds."""
        return time.monotonic() - self._worked >= RECENT_SUCCESS


class ShortageLog:
    """Log of shortages, with at most one line in LOG_INTERVAL seconds. Each line states how many shortages were left
    out since the previous line."""

    def __init__(self) -> None:
        self._logged_at = -LOG_INTERVAL
        self._left_out = 0

    def warn(self, reason: str) -> None:
        """Log that this machine is out of resources."""
        now = time.monotonic()
        if now - self._logged_at < LOG_INTERVAL:
            self._left_out += 1
            return
        more = f" ({self._left_out} more in the last minutes)" if self._left_out else ""
        self._logged_at, self._left_out = now, 0
        logger.error("this machine is out of resources: %s%s", reason, more)


network = NetworkState()
shortage_log = ShortageLog()


def is_exhaustion(error: BaseException | None) -> bool:
    """Return True if the error means that the process or machine is out of resources."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, RuntimeError):
        return "can't start new thread" in str(error)
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_MEMORY
    return isinstance(error, OSError) and error.errno in EXHAUSTED


def has_no_network(error: BaseException | None) -> bool:
    """Return True if a look-up or connection failed because the network is down."""
    if isinstance(error, socket.gaierror):
        return error.errno in RESOLVER_FAILURES and network.is_down
    return isinstance(error, OSError) and error.errno in NO_NETWORK and network.is_down


def overload_of(error: BaseException | None, failure: str) -> Overload | None:
    """Return the error for the client if a look-up or connection failed because of this machine, or None if it failed
    for another reason.

    `failure` says what failed, such as "example.com cannot be reached". A lack of resources is logged.
    """
    message = f"{failure} now: {getattr(error, 'strerror', None) or error}"
    if is_exhaustion(error):
        shortage_log.warn(f"{failure}: {error}")
        return Overload(message)
    return NoNetwork(message) if has_no_network(error) else None


_ANY_DESCRIPTOR = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
"""Descriptor of /dev/null. `shortage` duplicates the descriptor to learn the lowest free number."""


def shortage() -> str:
    """Return a sentence about a resource of which too little is left for an exchange, or "" if enough is left."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        lowest = os.dup(_ANY_DESCRIPTOR)
    except OSError as error:
        return _files_shortage(most) if error.errno == errno.EMFILE else str(error)
    os.close(lowest)
    # "the lowest-numbered file descriptor not currently open for the process" -- open(2)
    if most != resource.RLIM_INFINITY and lowest >= most - DESCRIPTORS_RESERVED:
        return _files_shortage(most)
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if space != resource.RLIM_INFINITY and space - (address_space() or 0) < ADDRESS_SPACE_RESERVED:
        return f"nearly all of the address space of {space // 1024} KiB is used (ulimit -v)"
    return ""


def _files_shortage(most: int) -> str:
    return f"nearly all of the {most} files that this process may open are open (ulimit -n)"


def address_space() -> int | None:
    """Return the size of this process's address space in bytes, or None if it is unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return None


def has_no_descriptor() -> bool:
    """Return True if this process can open no further file descriptor. The C library's resolver then reports wrong
    errors, because it could not open a socket."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False
