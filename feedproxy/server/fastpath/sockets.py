"""The sockets that readers connect to."""

import asyncio
import contextlib
import ctypes
import errno
import socket
import struct
from collections.abc import Sequence

from feedproxy.clock import Seconds

BACKLOG = 1024
"""Connections that wait to be accepted; nginx has 511 a worker."""

DEFER_ACCEPT = 5
"""Seconds a connection may be without a request before we hear of it (TCP_DEFER_ACCEPT).

A connection for a single request then costs one wake-up instead of two, and who only knocks costs nothing.
"""

PORT_TRIES = 8
"""Ports the system may name for one family that are taken in the other."""


DRAIN_QUIET_TIME: Seconds = 0.2
"""Time without a connection that waits, after which none is on its way any more: several round trips within a
continent, for what has connected and not yet sent its request."""
DRAIN_TIME_MAX: Seconds = 2
"""Time in which what has connected before the end is accepted, at most."""

_DROP_SYN_FILTER = ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
"""Classic BPF: load the octet of TCP's flags, keep SYN and ACK of it; drop where SYN alone is set, else take it."""
_ATTACH_FILTER = 26
_DETACH_FILTER = 27
_ACCEPT_QUEUE = 24
"""Place of `tcpi_unacked` in Linux's tcp_info: of a listening socket the connections that wait to be accepted."""


def open_listen_sockets(host: str, port: int, *, reuse_port: bool = False) -> list[socket.socket]:
    """Sockets that listen there, one for each family; all on one port, also where the system chooses it (0).

    `host` is empty for all addresses. With `reuse_port` other processes may listen there as well. Raises OSError.
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
            except OSError:  # this machine has no such family
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
    """Let a bound socket listen, in the way the listener in front wants it."""
    bound.setblocking(False)
    with contextlib.suppress(OSError):
        # A worker that ended may have left it.
        bound.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
    # What is set here, the connections inherit.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(AttributeError, OSError):
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER_ACCEPT)
    bound.listen(BACKLOG)


def reject_new_connections(bound: socket.socket) -> None:
    """Have the system ignore new connections to a listening socket, while it completes those that have begun.

    Who is ignored tries again after a second, and then reaches the process that listens, or is refused: both are
    better than a connection that was made and is reset when the socket is closed. Where the system cannot do that,
    nothing changes.
    """
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in _DROP_SYN_FILTER))
    with contextlib.suppress(OSError):
        bound.setsockopt(
            socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", len(_DROP_SYN_FILTER), ctypes.addressof(program))
        )


async def wait_accept_queue_empty(sockets: Sequence[socket.socket]) -> None:
    """Return when nothing has waited to be accepted for a moment."""
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
