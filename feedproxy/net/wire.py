"""Where aiohttp meets the wire: pool, happy eyeballs and TLS are aiohttp's, the messages are ours.

aiohttp's own reading loses a good 304 when bytes follow it in the same packet, bounds each field but not the
head, repeats requests on connections that were never used before, and sends every field value as UTF-8; and its
request, response and stream take more time than all that is done here. It has no public place for a protocol of one's
own, so this module, and only this one, stands on inner names of aiohttp: `TCPConnector._factory`, and that its pool
asks ResponseHandler `should_close` and `is_connected`.
tests/net/test_wire.py fails when one of them moves.
(docs/decisions/fetching-with-aiohttp.md)
"""

import asyncio
import functools
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler

from feedproxy.clock import Seconds
from feedproxy.errors import BrokenMessage, FetchError, Overload
from feedproxy.net.reading import Reading

UNWANTED_MAX = 262_144
"""Bytes that are read of an answer whose readers have all gone, as by Squid's `quick_abort_min`: a feed is seldom
larger, and is there for the next reader."""

SLOWEST = 1000
"""Bytes a second below which an answer counts as silence where others wait for its place (shares.py)."""


class StaleConnection(FetchError):
    """A pooled connection turned out to be closed before a byte of this answer came: safe to ask again
    (RFC 9112, section 9.3.1)."""

    detail = "broken-message"


class Silence(TimeoutError):
    """For longer than is waited for nothing came."""


class ExactProtocol(ResponseHandler):
    """A connection on which one request after the other is asked, and each answer read by a Reading."""

    def __init__(self, loop: asyncio.AbstractEventLoop, open_connections: set[object]) -> None:
        super().__init__(loop)
        self._open = open_connections
        self._exchanges = 0
        self._reading: Reading | None = None
        self._complete: asyncio.Future[None] | None = None
        self._heard = self._asked = self._deadline = self._patience = 0.0
        self._received = 0
        self._is_wanted: Callable[[], bool] = _always
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._open.add(self)
        super().connection_made(transport)

    @property
    def heard(self) -> Seconds:
        """When the origin was last heard of (the loop's time). One that sends hardly anything was not heard of."""
        slow = self._received < SLOWEST * (self._loop.time() - self._asked)
        return self._asked if slow else self._heard

    async def ask(
        self, request: bytes, reading: Reading, *, patience: Seconds, deadline: float, is_wanted: Callable[[], bool]
    ) -> None:
        """Send a request, and return when its answer is read: nothing may be asked meanwhile.

        `patience` is how long it may be silent, `deadline` when it has to be over (the loop's time). What `is_wanted`
        no more ends after UNWANTED_MAX bytes. Raises Silence, TimeoutError, BrokenMessage, StaleConnection, Overload;
        the connection is then closed.
        """
        assert self._reading is None
        self._exchanges += 1
        self._reading, self._complete = reading, self._loop.create_future()
        self._heard = self._asked = self._loop.time()
        self._received, self._patience, self._deadline = 0, patience, deadline
        self._is_wanted = is_wanted
        if self._watch is None:
            self._watch_again()
        assert self.transport is not None
        self.transport.write(request)
        try:
            await self._complete
        finally:
            self._reading = None

    def data_received(self, data: bytes) -> None:
        reading = self._reading
        if reading is None:
            # A late rest of the last answer, or a 408 to an idle connection: no answer to what comes next.
            self._abandon()
            return
        self._heard = self._loop.time()
        self._received += len(data)
        try:
            complete = reading.feed(data)
        except BrokenMessage as broken:
            self._fail(broken)
        else:
            if complete:
                self._finish(reading)
            elif self._received > UNWANTED_MAX and not self._is_wanted():
                self._fail(Overload("every reader that waited for it has gone"))

    def connection_lost(self, exc: BaseException | None) -> None:
        self._open.discard(self)
        if self._watch is not None:
            self._watch.cancel()
        reading = self._reading
        if reading is not None:
            if reading.silent and self._exchanges > 1:
                self._fail(StaleConnection("the pooled connection was closed"))
            else:
                try:
                    reading.end(reset=exc is not None)
                except BrokenMessage as broken:
                    self._fail(broken)
                else:
                    self._finish(reading)
        super().connection_lost(exc)

    def _finish(self, reading: Reading) -> None:
        self._reading = None
        if not reading.reusable:
            self.force_close()
        if self._complete is not None and not self._complete.done():
            self._complete.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._reading = None
        if self._complete is not None and not self._complete.done():
            self._complete.set_exception(error)
        self._abandon()

    def _abandon(self) -> None:
        self.force_close()
        if self.transport is not None:
            self.transport.close()

    # One timer looks after a connection, whatever is asked on it: it is not set anew for what comes in time.

    def _watch_again(self) -> None:
        self._watch = self._loop.call_at(min(self._heard + self._patience, self._deadline), self._look)

    def _look(self) -> None:
        self._watch, now = None, self._loop.time()
        if self._reading is None:
            return
        if now >= self._deadline:
            self._fail(TimeoutError())
        elif now >= self._heard + self._patience:
            self._fail(Silence())
        else:
            self._watch_again()


def _always() -> bool:
    return True


class CheckedResolver(AbstractResolver):
    """aiohttp's question for addresses, answered by the policy: only what was checked is connected to."""

    def __init__(self, resolve: Callable[[str, int], Awaitable[list[str]]]) -> None:
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises Forbidden, Unreachable, BadTarget."""
        return [
            ResolveResult(
                hostname=host,
                host=ip,
                port=port,
                family=socket.AF_INET6 if ":" in ip else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for ip in await self._resolve(host, port)
        ]

    async def close(self) -> None:
        """Nothing is held."""


class ExactConnector(TCPConnector):
    """A pool of connections that go only where the policy lets them, and speak as ExactProtocol does."""

    def __init__(
        self,
        resolver: CheckedResolver,
        *,
        ssl_context: ssl.SSLContext | None,
        open_connections: set[object],
    ) -> None:
        super().__init__(
            resolver=resolver,
            use_dns_cache=False,  # each new connection is resolved and checked anew
            ssl=ssl_context or True,
            limit=0,  # shares.py bounds the exchanges
        )
        loop = asyncio.get_running_loop()
        self._factory: Any = functools.partial(ExactProtocol, loop=loop, open_connections=open_connections)
