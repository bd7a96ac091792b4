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

DEFER = 5
"""Seconds a connection may be without a request before we hear of it (TCP_DEFER_ACCEPT).

A connection for a single request then costs one wake-up instead of two, and who only knocks costs nothing.
"""

TRIES = 8
"""Ports the system may name for one family that are taken in the other."""


QUIET: Seconds = 0.2
"""Time without a connection that waits, after which none is on its way any more: several round trips within a
continent, for what has connected and not yet sent its request."""
LAST_MAX: Seconds = 2
"""Time in which what has connected before the end is accepted, at most."""

_FILTER = ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
"""Classic BPF: load the octet of TCP's flags, keep SYN and ACK of it; drop where SYN alone is set, else take it."""
_ATTACH_FILTER = 26
_DETACH_FILTER = 27
_ACCEPT_QUEUE = 24
"""Place of `tcpi_unacked` in Linux's tcp_info: of a listening socket the connections that wait to be accepted."""


def listening(host: str, port: int, *, reuse_port: bool = False) -> list[socket.socket]:
    """Sockets that listen there, one for each family; all on one port, also where the system chooses it (0).

    `host` is empty for all addresses. With `reuse_port` other processes may listen there as well. Raises OSError.
    """
    for left in range(TRIES, 0, -1):
        try:
            return _listening(host, port, reuse_port=reuse_port)
        except OSError as error:
            if port or left == 1 or error.errno != errno.EADDRINUSE:
                raise
    raise AssertionError("unreachable")


def _listening(host: str, port: int, *, reuse_port: bool) -> list[socket.socket]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            where = (address[0], made[0].getsockname()[1], *address[2:]) if made and not port else address
            try:
                each = socket.socket(family, kind, protocol)
            except OSError:  # this machine has no such family
                continue
            made.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind(where)
    except OSError:
        for each in made:
            each.close()
        raise
    if not made:
        raise OSError(errno.EADDRNOTAVAIL, f"no address for {host!r}")
    for each in made:
        ready(each)
    return made


def ready(bound: socket.socket) -> None:
    """Let a bound socket listen, in the way the listener in front wants it."""
    bound.setblocking(False)
    with contextlib.suppress(OSError):
        # A worker that ended may have left it.
        bound.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
    # What is set here, the connections inherit.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(AttributeError, OSError):
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER)
    bound.listen(BACKLOG)


def turn_away(bound: socket.socket) -> None:
    """Have the system ignore new connections to a listening socket, while it completes those that have begun.

    Who is ignored tries again after a second, and then reaches the process that listens, or is refused: both are
    better than a connection that was made and is reset when the socket is closed. Where the system cannot do that,
    nothing changes.
    """
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in _FILTER))
    with contextlib.suppress(OSError):
        bound.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", len(_FILTER), ctypes.addressof(program)))


async def all_accepted(sockets: Sequence[socket.socket]) -> None:
    """Return when nothing has waited to be accepted for a moment."""
    loop = asyncio.get_running_loop()
    end = loop.time() + LAST_MAX
    quiet = loop.time() + QUIET
    while loop.time() < min(quiet, end):
        await asyncio.sleep(0.01)
        if any(map(_waits, sockets)):
            quiet = loop.time() + QUIET


def _waits(bound: socket.socket) -> bool:
    try:
        info = bound.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    except (OSError, AttributeError):
        return False
    return bool(struct.unpack_from("I", info, _ACCEPT_QUEUE)[0])
