"""Failures of this machine, told from those of an origin: no descriptors, no memory, no ports, no network.

What fails here says nothing about the origin: it is counted as no failure of a feed, and lengthens no back-off.
"""

import errno
import logging
import os
import resource
import socket
import time

from feedproxy.clock import Seconds

logger = logging.getLogger(__name__)

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.EAGAIN})
"""Descriptors of the process or the system, socket buffers, memory, ports to connect from."""

NO_NETWORK = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.ENONET})
"""No way into the network. One origin can cause it, too: it has an IPv6 address only, and there is no IPv6 here."""

RESOLVER_FAILURES = frozenset({socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_SYSTEM})
"""No answer from a name server: the origin's own, or the one that this machine asks."""

RECENT_SUCCESS: Seconds = 60
"""If nothing at all succeeded within so many seconds, the network is down, not the origin."""

LOG_INTERVAL: Seconds = 60

DESCRIPTORS_RESERVED = 32
"""Descriptors that exchanges leave to the store, the listeners and the processes beside."""
ADDRESS_SPACE_RESERVED = 96 * 1024 * 1024
"""Bytes of address space that exchanges leave where the operator has limited it: the largest answer, decoded."""


class NetworkState:
    """When the network last worked: the evidence for whose failure it is when a name or a network is not reached."""

    def __init__(self) -> None:
        self._worked = -RECENT_SUCCESS

    def record_success(self) -> None:
        """A look-up or a connection succeeded."""
        self._worked = time.monotonic()

    @property
    def is_down(self) -> bool:
        """Nothing has succeeded lately."""
        return time.monotonic() - self._worked >= RECENT_SUCCESS


class RateLimitedLog:
    """At most one log line in LOG_EVERY seconds, with the number of those that were left out."""

    def __init__(self) -> None:
        self._said = -LOG_INTERVAL
        self._left_out = 0

    def warn(self, words: str) -> None:
        """Log that this machine ran out of something."""
        now = time.monotonic()
        if now - self._said < LOG_INTERVAL:
            self._left_out += 1
            return
        more = f" ({self._left_out} more in the last minutes)" if self._left_out else ""
        self._said, self._left_out = now, 0
        logger.error("this machine is out of resources: %s%s", words, more)


network = NetworkState()
complaints = RateLimitedLog()


def is_exhaustion(error: BaseException | None) -> bool:
    """Whether this error says that the process or the machine has run out of something."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, RuntimeError):
        return "can't start new thread" in str(error)
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_MEMORY
    return isinstance(error, OSError) and error.errno in EXHAUSTED


def is_local(error: BaseException | None) -> bool:
    """Whether a look-up or a connection failed through no fault of the origin."""
    if is_exhaustion(error):
        return True
    if isinstance(error, socket.gaierror):
        return error.errno in RESOLVER_FAILURES and network.is_down
    return isinstance(error, OSError) and error.errno in NO_NETWORK and network.is_down


def is_nearly_exhausted() -> bool:
    """Whether so few descriptors, or so little address space, is left that no exchange is to be begun."""
    try:
        lowest = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
    os.close(lowest)
    # "the lowest-numbered file descriptor not currently open for the process" -- open(2)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and lowest >= most - DESCRIPTORS_RESERVED:
        return True
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    return space != resource.RLIM_INFINITY and space - _address_space() < ADDRESS_SPACE_RESERVED


def _address_space() -> int:
    """Bytes of address space in use; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def has_no_descriptor() -> bool:
    """Whether no descriptor is left: the C library then says of a name whatever comes to its mind."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False
