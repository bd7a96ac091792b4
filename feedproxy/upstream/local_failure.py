"""Detection of failures of this machine: no descriptors, memory, ports, or network.

The origin does not cause such a failure. Therefore it is not recorded for the feed and causes no back-off.
"""

import errno
import logging
import os
import resource
import socket
import time
from collections.abc import Callable

from feedproxy.clock import Seconds

logger = logging.getLogger(__name__)

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.EAGAIN})
"""Errors for exhausted resources: descriptors of the process or the system, socket buffers, memory, and ports."""

NO_NETWORK = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.ENONET})
"""Errors for a missing route to an origin. They count as a failure of this machine only if no other origin can be
reached either. For example, a machine without IPv6 has no route to an origin that has only IPv6 addresses."""

RESOLVER_FAILURES = frozenset({socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_SYSTEM})
"""Error codes of a name resolution that failed because the origin's name server or this machine's resolver did not
respond."""

RECENT_SUCCESS: Seconds = 60
"""Seconds without a successful look-up or connection after which the network counts as down."""

LOG_INTERVAL: Seconds = 60

DESCRIPTORS_RESERVED = 32
"""Number of file descriptors that exchanges with origins leave to the store, the listeners and other processes."""
ADDRESS_SPACE_RESERVED = 96 * 1024 * 1024
"""Bytes of address space that must be free before an exchange begins, if the operator has limited the address space.
The largest response takes less than that, even decoded."""

EXCHANGES_PER_CHECK = 8
"""Number of exchanges that may begin after a check of the resources without another check. Their descriptors are a
quarter of DESCRIPTORS_RESERVED."""
CHECK_INTERVAL: Seconds = 0.1
"""Seconds after which the resources are checked again, because clients and helpers take descriptors, too."""


class NetworkState:
    """The time of the last successful look-up or connection. It shows whether a failure concerns this machine's network
    or only one origin."""

    def __init__(self) -> None:
        self._worked = -RECENT_SUCCESS

    def record_success(self) -> None:
        """Record that a name look-up or a connection succeeded."""
        self._worked = time.monotonic()

    @property
    def is_down(self) -> bool:
        """Return True if no look-up or connection has succeeded for RECENT_SUCCESS seconds."""
        return time.monotonic() - self._worked >= RECENT_SUCCESS


class RateLimitedLog:
    """A log with at most one line in LOG_INTERVAL seconds. Each line states the number of suppressed lines."""

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
complaints = RateLimitedLog()


def is_exhaustion(error: BaseException | None) -> bool:
    """Return True if this error means that the process or the machine is out of resources."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, RuntimeError):
        return "can't start new thread" in str(error)
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_MEMORY
    return isinstance(error, OSError) and error.errno in EXHAUSTED


def is_local(error: BaseException | None) -> bool:
    """Return True if a name look-up or a connection failed because of this machine, not the origin."""
    if is_exhaustion(error):
        return True
    if isinstance(error, socket.gaierror):
        return error.errno in RESOLVER_FAILURES and network.is_down
    return isinstance(error, OSError) and error.errno in NO_NETWORK and network.is_down


_ANY_DESCRIPTOR = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
"""A descriptor of /dev/null. `_is_nearly_exhausted` duplicates this descriptor to learn the lowest free number, which
takes a fifth of the time of opening a file.
"""


class ResourceCheck:
    """A check of the descriptors and the memory that are left before an exchange with an origin begins.

    The check takes four system calls. After a check that found enough, the next exchanges are therefore permitted
    without a check: EXCHANGES_PER_CHECK exchanges in the following CHECK_INTERVAL seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._permitted = 0
        self._expires = 0.0

    def is_nearly_exhausted(self) -> bool:
        """Return True if this process has too few descriptors or too little address space left for an exchange."""
        now = self._monotonic()
        if self._permitted and now < self._expires:
            self._permitted -= 1
            return False
        is_exhausted = _is_nearly_exhausted()
        self._permitted, self._expires = 0 if is_exhausted else EXCHANGES_PER_CHECK, now + CHECK_INTERVAL
        return is_exhausted


def _is_nearly_exhausted() -> bool:
    """Return True if this process has too few descriptors or too little address space left for an exchange.

    A full file table of the system (ENFILE) is detected when the exchange opens its socket (`is_exhaustion`).
    """
    try:
        lowest = os.dup(_ANY_DESCRIPTOR)
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENOMEM)
    os.close(lowest)
    # "the lowest-numbered file descriptor not currently open for the process" -- open(2)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and lowest >= most - DESCRIPTORS_RESERVED:
        return True
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    return space != resource.RLIM_INFINITY and space - (address_space() or 0) < ADDRESS_SPACE_RESERVED


def address_space() -> int | None:
    """Return the size of this process's address space in bytes, or None if it is unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return None


def has_no_descriptor() -> bool:
    """Return True if this process can open no further file descriptor. The errors of the C library's resolver then have
    no meaning, because the resolver could not open a socket."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False
