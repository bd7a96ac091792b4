"""The sockets that readers connect to."""

import contextlib
import errno
import socket

BACKLOG = 1024
"""Connections that wait to be accepted; nginx has 511 a worker."""

DEFER = 5
"""Seconds a connection may be without a request before we hear of it (TCP_DEFER_ACCEPT).

A connection for a single request then costs one wake-up instead of two, and who only knocks costs nothing.
"""

TRIES = 8
"""Ports the system may name for one family that are taken in the other."""


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
    # What is set here, the connections inherit.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(AttributeError, OSError):
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER)
    bound.listen(BACKLOG)
