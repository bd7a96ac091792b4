"""Listening sockets of the fast path."""

import asyncio
import contextlib
import ctypes
import errno
import socket
import struct
from collections.abc import Sequence

from feedproxy.clock import Seconds

BACKLOG = 1024
"""Connections in the accept queue; nginx has 511 a worker."""

DEFER_ACCEPT = 5
"""Seconds a connection may stay without a request before it is reported (TCP_DEFER_ACCEPT).

A connection for a single request costs one wake-up instead of two, and connections that never send a request are not
accepted.
"""

PORT_TRIES = 8
"""Ports that the system may choose for one address family although they are taken in the other."""


DRAIN_QUIET_TIME: Seconds = 0.2
"""Time without a waiting connection after which none is on its way: several round trips within a continent, for clients
that have connected and not sent their request yet."""
DRAIN_TIME_MAX: Seconds = 2
"""Time during which connections that were made before the end are accepted, at most."""

_DROP_SYN_FILTER = ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
"""Classic BPF: load the octet of TCP's flags, keep SYN and ACK of it; drop where SYN alone is set, else take it."""
_ATTACH_FILTER = 26
_DETACH_FILTER = 27
_ACCEPT_QUEUE = 24
"""Place of `tcpi_unacked` in Linux's tcp_info: of a listening socket the connections that wait to be accepted."""


def open_listen_sockets(host: str, port: int, *, reuse_port: bool = False) -> list[socket.socket]:
    """Return listening sockets for `host`, one for each address family, all on one port even if the system chooses it
    (0).

    An empty `host` means all addresses. With `reuse_port` other processes may listen there as well. Raise OSError.
    """
    for tries_left in range(PORT_TRIES, 0, -1):
        try:
            return _open_sockets(host, port, reuse_port=reuse_port)
        except OSError as error:
            if port or tries_left == 1 or error.errno != errno.EADDRINUSE:
                raise
    raise AssertionError("unreachable")


def _open_sockets(host: str, port: int, *, reuse_port: bool) -> list[socket.socket]:
    addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            address_and_port = (
                (address[0], opened[0].getsockname()[1], *address[2:]) if opened and not port else address
            )
            try:
                bound = socket.socket(family, kind, protocol)
            except OSError:  # this machine lacks the address family
                continue
            opened.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind(address_and_port)
    except OSError:
        for bound in opened:
            bound.close()
        raise
    if not opened:
        raise OSError(errno.EADDRNOTAVAIL, f"no address for {host!r}")
    for bound in opened:
        start_listening(bound)
    return opened


def start_listening(bound: socket.socket) -> None:
    """Let a bound socket listen with the fast path's options."""
    bound.setblocking(False)
    with contextlib.suppress(OSError):
        # A worker that ended may have left its filter.
        bound.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
    # Accepted connections inherit these options.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(AttributeError, OSError):
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER_ACCEPT)
    bound.listen(BACKLOG)


def reject_new_connections(bound: socket.socket) -> None:
    """Have the kernel ignore new connections to a listening socket, while it completes those that have begun.

    An ignored client tries again after a second, and then reaches the process that listens or is refused. Both are
    better than a connection that is made and then reset. Where the kernel cannot do that, nothing changes.
    """
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in _DROP_SYN_FILTER))
    with contextlib.suppress(OSError):
        bound.setsockopt(
            socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", len(_DROP_SYN_FILTER), ctypes.addressof(program))
        )


async def wait_accept_queue_empty(sockets: Sequence[socket.socket]) -> None:
    """Return when no connection has waited to be accepted for DRAIN_QUIET_TIME."""
    loop = asyncio.get_running_loop()
    end = loop.time() + DRAIN_TIME_MAX
    quiet = loop.time() + DRAIN_QUIET_TIME
    while loop.time() < min(quiet, end):
        await asyncio.sleep(0.01)
        if any(map(_has_waiting_connections, sockets)):
            quiet = loop.time() + DRAIN_QUIET_TIME


def _has_waiting_connections(bound: socket.socket) -> bool:
    try:
        info = bound.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    except (OSError, AttributeError):
        return False
    return bool(struct.unpack_from("I", info, _ACCEPT_QUEUE)[0])
