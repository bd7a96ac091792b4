"""Look-ups of the names of this machine only: tests, and programs that they fork, send no query to a name server."""

import socket
from typing import Any

_getaddrinfo = socket.getaddrinfo


def look_up_local_names_only() -> None:
    """Make look-ups of this process find numeric addresses and names of this machine, and know no other names."""
    setattr(socket, "getaddrinfo", _local_addresses)  # noqa: B010 -- mypy knows it for a function of another type


def _local_addresses(
    host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
) -> list[tuple[Any, ...]]:
    if host not in (None, "localhost", b"localhost", socket.gethostname()):
        flags |= socket.AI_NUMERICHOST
    return [*_getaddrinfo(host, port, family, type, proto, flags)]
