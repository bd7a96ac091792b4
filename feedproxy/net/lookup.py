"""From names to addresses, with the machine's own resolver."""

import asyncio
import functools
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

type Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Turns a name and a port into addresses as text. Raises OSError where there is none."""

PATIENCE = 15.0
"""Seconds a name may take to be looked up: three tries of five seconds, as resolvers have it."""

# Threads of its own: the event loop's common ones are few, and a name server that does not answer would hold
# them all, and with them parsing, compressing and the store. Many: a stranger may have a slow name server.
_THREADS = ThreadPoolExecutor(64, thread_name_prefix="lookup")


async def system_lookup(host: str, port: int) -> list[str]:
    """The addresses of a host, as this machine can use them, in the order of RFC 6724. Raises OSError."""
    ask = functools.partial(socket.getaddrinfo, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    found = await asyncio.get_running_loop().run_in_executor(_THREADS, ask, host, port)
    return list(dict.fromkeys(str(sockaddr[0]) for _, _, _, _, sockaddr in found))
