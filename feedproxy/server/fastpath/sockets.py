"""The listening sockets of the fast path: how they are bound, set up and closed."""

import asyncio
import contextlib
import ctypes
import errno
import socket
import struct
from collections.abc import Sequence

from feedproxy.clock import Seconds

BACKLOG = 1024
"""The accept queue of a socket holds at most this many connections."""

DEFER_ACCEPT = 5
"""The kernel delays the acceptance of a connection without a request by at most this many seconds (TCP_DEFER_ACCEPT). A
connection for a single request then causes one wake-up instead of two."""

PORT_TRIES = 8
"""If the system chooses the port, at most this many attempts are made to find a port that is free for all address
families."""


DRAIN_QUIET_TIME: Seconds = 0.2
"""An accept queue counts as empty after this many seconds without a waiting connection."""
DRAIN_TIME_MAX: Seconds = 2
"""When a listener stops, it accepts the connections in its accept queue for at most this many seconds."""

_DROP_SYN_FILTER = ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
"""A packet filter (classic BPF) that drops packets with the TCP flag SYN but not ACK."""
_ATTACH_FILTER = 26
_DETACH_FILTER = 27
_ACCEPT_QUEUE = 24
"""Offset in Linux's tcp_info of `tcpi_unacked`: for a listening socket, the number of connections in the accept
queue."""


def open_listen_sockets(host: str, port: int, *, reuse_port: bool) -> list[socket.socket]:
    """Return listening sockets for `host`. The arguments and errors are those of `bind_sockets`."""
    sockets = bind_sockets(host, port, reuse_port=reuse_port)
    for bound in sockets:
        start_listening(bound)
    return sockets


def bind_sockets(host: str, port: int, *, reuse_port: bool) -> list[socket.socket]:
    """Return sockets bound to each address of `host`, all on one port. Raises OSError if an address cannot be bound.

    An empty `host` stands for all addresses. For port 0, the system chooses the port. If `reuse_port` is true, other
    processes may listen on the same port.
    """
    for tries_left in range(PORT_TRIES, 0, -1):
        try:
            return _bind_sockets(host, port, reuse_port=reuse_port)
        except OSError as error:
            if port or tries_left == 1 or error.errno != errno.EADDRINUSE:
                raise
    raise AssertionError("unreachable")


def _bind_sockets(host: str, port: int, *, reuse_port: bool) -> list[socket.socket]:
    addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    left_out: OSError | None = None
    try:
        for family, _, _, _, address in dict.fromkeys(addresses):
            bound_port = sockets[0].getsockname()[1] if sockets else port
            try:
                sockets.append(bind_socket(family, (address[0], bound_port, *address[2:]), reuse_port=reuse_port))
            except OSError as error:
                # A machine may list IPv6 addresses, such as ::1 for localhost, although it does not support IPv6
                # (EAFNOSUPPORT) or IPv6 is disabled (EADDRNOTAVAIL). Another address of a host that cannot be bound is
                # probably that of another machine.
                is_missing = error.errno == errno.EADDRNOTAVAIL and (not host or address[0] == "::1")
                if error.errno != errno.EAFNOSUPPORT and not is_missing:
                    raise
                left_out = error
    except OSError:
        for bound in sockets:
            bound.close()
        raise
    if not sockets:
        raise left_out or OSError(errno.EADDRNOTAVAIL, f"host {host!r} has no address to listen on")
    return sockets


def bind_socket(family: int, address: tuple[str | int, ...], *, reuse_port: bool) -> socket.socket:
    """Return a socket bound to an address. Raises OSError if the address cannot be bound."""
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def start_listening(bound: socket.socket) -> None:
    """Make a bound socket listen with the options of the fast path."""
    bound.setblocking(False)
    with contextlib.suppress(OSError):
        # A worker that has exited may have left its filter on the socket.
        bound.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
    with contextlib.suppress(OSError):
        # A worker that has exited may have listened with TLS (client_tls_connection.py). A system that cannot change
        # the option has kept its default, 1.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    # Accepted connections inherit these options.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(AttributeError, OSError):
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER_ACCEPT)
    bound.listen(BACKLOG)


def reject_new_connections(bound: socket.socket) -> None:
    """Make the kernel ignore new connections to a listening socket, if the kernel supports the filter. An ignored
    client tries again after a second. An accepted connection would be reset when the socket is closed."""
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in _DROP_SYN_FILTER))
    with contextlib.suppress(OSError):
        bound.setsockopt(
            socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", len(_DROP_SYN_FILTER), ctypes.addressof(program))
        )


async def wait_accept_queue_empty(sockets: Sequence[socket.socket]) -> None:
    """Return when the accept queues have been empty for DRAIN_QUIET_TIME seconds, or after DRAIN_TIME_MAX seconds."""
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
