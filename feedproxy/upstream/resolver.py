"""Name resolution with the system's resolver.

`getaddrinfo` uses the hosts file, search domains and mDNS, but cannot be cancelled. If the name server is silent, a
look-up occupies its thread until the timeout. Look-ups are therefore limited per site and per client
(docs/decisions/connection-limits.md).
"""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from feedproxy.background_work import run_in_daemon_thread
from feedproxy.clock import Seconds
from feedproxy.errors import Overload
from feedproxy.http.target_uri.registrable_domain import site_of_host
from feedproxy.single_flight import SingleFlight
from feedproxy.upstream import local_resource_exhaustion
from feedproxy.upstream.origin_connection_limits import FairLimits, Limit, current_requester

type Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""A function that returns the addresses of a name and port. It raises an error if there is no address."""

LOOKUP_TIMEOUT = 15.0
"""A look-up takes at most this many seconds: enough for three attempts with the default timeout of resolv.conf(5)."""

THREADS = Limit(256, reserve=64)
"""Maximum number of concurrent look-ups, and the number reserved for known feeds."""
PER_SITE = Limit(12, reserve=4)
"""Maximum number of concurrent look-ups for one registrable domain, and the number reserved for known feeds."""
PER_CLIENT = 96
"""One client may have at most this many concurrent look-ups: half of those that are not reserved for known feeds."""
THREAD_WAIT_MAX: Seconds = 5
"""A look-up waits at most this many seconds for a free thread."""


def _system_addresses(host: str) -> list[str]:
    """Return the addresses of a host to which this machine can connect, in the order of RFC 6724. Raises OSError if the
    look-up fails."""
    try:
        address_infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except OSError:
        if local_resource_exhaustion.has_no_descriptor():
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from None
        raise
    return list(dict.fromkeys(str(sockaddr[0]) for _, _, _, _, sockaddr in address_infos))


class Resolver:
    """Resolver of names for one event loop. Each look-up has its own thread."""

    def __init__(self, resolve: Callable[[str], list[str]] = _system_addresses) -> None:
        self._resolve = resolve
        self._shares = FairLimits(THREADS, site=PER_SITE, client=PER_CLIENT)
        self._look_ups: SingleFlight[tuple[str, bool], list[str]] = SingleFlight()
        self._in_thread: set[asyncio.Task[list[str]]] = set()

    def __len__(self) -> int:
        return len(self._shares)

    async def resolve(self, host: str) -> list[str]:
        """Return the addresses of a host. Raises OSError if the look-up fails, and Overload if this machine cannot look
        names up.

        Calls for the same host share one look-up. A call for a known feed (`current_requester`) shares only look-ups
        for known feeds, because slots are reserved for these.
        """
        key = (host, current_requester().is_known)
        task, _ = self._look_ups.join_or_start(key, lambda: self._look_up(host))

        def abandon() -> None:
            # A running thread keeps its slot until it ends. Later look-ups join it.
            if not task.done() and task not in self._in_thread:
                self._look_ups.stop_joining(key)
                task.cancel()

        return await self._look_ups.wait_for(task, None, abandon)

    async def _look_up(self, host: str) -> list[str]:
        slot = await self._shares.acquire(timeout=THREAD_WAIT_MAX, site=site_of_host(host))
        try:
            running = run_in_daemon_thread(partial(self._resolve, host), "lookup")
        except BaseException as error:
            self._shares.release(slot)
            if local_resource_exhaustion.is_exhaustion(error):
                local_resource_exhaustion.shortage_log.warn(f"no thread for a look-up: {error}")
                raise Overload("no thread is available to resolve a name") from error
            raise
        running.add_done_callback(lambda _: self._shares.release(slot))
        task = asyncio.current_task()
        assert task is not None
        self._in_thread.add(task)
        try:
            addresses = await asyncio.shield(running)
        finally:
            self._in_thread.discard(task)
        local_resource_exhaustion.network.record_success()
        return addresses


_RESOLVERS: WeakKeyDictionary[asyncio.AbstractEventLoop, Resolver] = WeakKeyDictionary()


async def system_lookup(host: str, port: int) -> list[str]:
    """Return the addresses of a host, from the Resolver of the running event loop. `port` is not used. Raises OSError
    if the look-up fails, and Overload if this machine cannot look names up."""
    loop = asyncio.get_running_loop()
    if (lookups := _RESOLVERS.get(loop)) is None:
        lookups = _RESOLVERS[loop] = Resolver()
    return await lookups.resolve(host)
