"""Connections to origins. aiohttp opens and pools them. feedproxy itself sends the requests and parses the responses.

aiohttp's own parser can lose a 304, and its client repeats requests on connections that were never used before. This
module relies on internal names of aiohttp: `TCPConnector._factory`, `should_close` and `is_connected` of
ResponseHandler, and `_create_connection` and `_conns` of a connector. A test fails when one of these names changes
(docs/decisions/fetching-with-aiohttp.md).
"""

import asyncio
import functools
import socket
import ssl
from collections.abc import Callable
from typing import Any

from aiohttp import (
    BaseConnector,
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientRequest,
    TCPConnector,
)
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler

from feedproxy.clock import Seconds
from feedproxy.errors import Overload
from feedproxy.upstream.origin_certificate_verification import upstream_context
from feedproxy.upstream.parent_proxy import Parent
from feedproxy.upstream.parent_proxy_tunnel import checked_tunnel, connect_to_parent
from feedproxy.upstream.resolver import Lookup
from feedproxy.upstream.response_parser import ResponseParser
from feedproxy.upstream.upstream_errors import FetchError, MalformedResponse

UNREAD_MAX = 262_144
"""If no client waits for a response any more, reading stops when more than this many bytes have arrived in total. A
smaller response, such as most feeds, is read to the end and stored. Squid's `quick_abort_min` has the same purpose."""

RATE_MIN = 1000
"""An origin that sends a response at fewer bytes per second than this counts as silent. A silent exchange may be ended
in favour of a waiting request (origin_connection_limits.py)."""

IDLE_MAX: Seconds = 15
"""A connection closes itself after this many seconds without a request. aiohttp's pool would instead close all idle
connections in one step, which takes 20 ms after two thousand fetches."""
POOL_KEEPALIVE: Seconds = IDLE_MAX + 5
"""aiohttp's pool forgets a connection after this many seconds without a request. By then, the connection has closed
itself."""


class StaleConnection(FetchError, detail="broken-message"):
    """Error for a pooled connection that was closed before the first byte of the response. The request may be repeated
    (RFC 9112, section 9.3.1)."""


class ReadTimeout(TimeoutError):
    """Error for an origin that was silent for longer than the limit."""


class OriginProtocol(ResponseHandler):
    """A connection to an origin, for one request at a time. A ResponseParser parses each response."""

    def __init__(self, loop: asyncio.AbstractEventLoop, open_connections: set[object]) -> None:
        super().__init__(loop)
        self._open = open_connections
        self._exchanges = 0
        self._reading: ResponseParser | None = None
        self._complete: asyncio.Future[None] | None = None
        self._received_at = self._sent_at = self._deadline = self._silence_limit = 0.0
        self._received = 0
        self._is_wanted: Callable[[], bool] = _always
        self._on_part: Callable[[int], None] = _ignore
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._open.add(self)
        super().connection_made(transport)

    @property
    def last_received(self) -> Seconds:
        """Return the time at which the origin last sent bytes, on the event loop's clock. If the origin has sent fewer
        than RATE_MIN bytes per second since the request, return the time of the request."""
        slow = self._received < RATE_MIN * (self._loop.time() - self._sent_at)
        return self._sent_at if slow else self._received_at

    async def send_request(
        self,
        request: bytes,
        parser: ResponseParser,
        *,
        read_timeout: Seconds,
        deadline: float,
        is_wanted: Callable[[], bool],
        on_part: Callable[[int], None],
    ) -> None:
        """Send a request, and return when its response is complete.

        * `read_timeout` limits each silence of the origin, in seconds.
        * `deadline` is the time at which the response must be complete, on the event loop's clock.
        * `is_wanted` returns False if no client waits. Reading then stops when more than UNREAD_MAX bytes have arrived.
        * `on_part` is called when a part of a response has arrived, with the number of bytes so far.

        Raises ReadTimeout after too long a silence, TimeoutError at the deadline, and MalformedResponse for an invalid
        response. Raises StaleConnection if a pooled connection was closed, and Overload if reading stopped because no
        client waits. The connection is closed after each of these errors.
        """
        assert self._reading is None
        self._exchanges += 1
        self._reading, self._complete = parser, self._loop.create_future()
        self._received_at = self._sent_at = self._loop.time()
        self._received, self._silence_limit, self._deadline = 0, read_timeout, deadline
        self._is_wanted, self._on_part = is_wanted, on_part
        self._schedule_check(min(self._sent_at + min(read_timeout, IDLE_MAX), deadline))
        assert self.transport is not None
        self.transport.write(request)
        try:
            await self._complete
        finally:
            # `is_wanted` refers to this connection: only a garbage collection would free such a cycle.
            self._reading, self._is_wanted, self._on_part = None, _always, _ignore

    def data_received(self, data: bytes) -> None:
        parser = self._reading
        if parser is None:
            # The data is a late part of the last response, or a 408 on an idle connection. It must not answer a later
            # request.
            self._abandon()
            return
        self._received_at = self._loop.time()
        self._received += len(data)
        try:
            complete = parser.feed(data)
        except MalformedResponse as broken:
            self._fail(broken)
        else:
            if complete:
                self._finish(parser)
            elif self._received > UNREAD_MAX and not self._is_wanted():
                self._fail(Overload("all clients that waited for the response have disconnected"))
            else:
                self._on_part(self._received)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._open.discard(self)
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        parser = self._reading
        if parser is not None:
            if parser.silent and self._exchanges > 1:
                self._fail(StaleConnection("the pooled connection was closed"))
            else:
                try:
                    parser.end(reset=exc is not None)
                except MalformedResponse as broken:
                    self._fail(broken)
                else:
                    self._finish(parser)
        super().connection_lost(exc)

    def _finish(self, parser: ResponseParser) -> None:
        self._reading = None
        if not parser.reusable:
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

    # Each connection has one timer for all its requests and pauses, because a new timer for each would cost more.

    def _schedule_check(self, at: float) -> None:
        """Check the connection at this time on the event loop's clock. A check that is scheduled for an earlier time
        remains."""
        if self._watch is not None:
            if self._watch.when() <= at:
                return
            self._watch.cancel()
        self._watch = self._loop.call_at(at, self._check)

    def _check(self) -> None:
        """End a request that takes too long, and close a connection that is idle for too long."""
        self._watch, now = None, self._loop.time()
        if self._reading is None:
            idle_until = self._received_at + IDLE_MAX
            if now >= idle_until:
                self.close()
            else:
                self._schedule_check(idle_until)
        elif now >= self._deadline:
            self._fail(TimeoutError())
        elif now >= self._received_at + self._silence_limit:
            self._fail(ReadTimeout())
        else:
            self._schedule_check(min(self._received_at + self._silence_limit, self._deadline))


def _always() -> bool:
    return True


def _ignore(size: int) -> None:
    """Do nothing."""


class CheckedResolver(AbstractResolver):
    """Resolver for aiohttp that returns checked addresses only."""

    def __init__(self, resolve: Lookup) -> None:
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host. Raises the errors of the check: Forbidden, Unreachable or BadTarget."""
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
        """Do nothing: the resolver has no resources to release."""


class OriginConnector(TCPConnector):
    """Pool of connections to origins at permitted addresses. An OriginProtocol handles each connection."""

    def __init__(
        self,
        resolver: CheckedResolver,
        *,
        ssl_context: ssl.SSLContext | None,
        open_connections: set[object],
    ) -> None:
        super().__init__(
            resolver=resolver,
            use_dns_cache=False,  # the name is resolved and checked for each new connection
            ssl=ssl_context or True,
            limit=0,  # origin_connection_limits.py limits the number of exchanges
            keepalive_timeout=POOL_KEEPALIVE,
        )
        loop = asyncio.get_running_loop()
        self._factory: Any = functools.partial(OriginProtocol, loop=loop, open_connections=open_connections)


class ParentConnector(BaseConnector):
    """Pool of connections through one parent proxy. Requests for https targets, and all requests through a SOCKS5
    proxy, use a tunnel. Other requests are sent to the parent itself. `check` must permit the host of a tunnel."""

    def __init__(
        self,
        parent: Parent,
        *,
        check: Lookup,
        resolve_parent: Lookup,
        ssl_context: ssl.SSLContext | None,
        open_connections: set[object],
    ) -> None:
        super().__init__(
            limit=0,  # origin_connection_limits.py limits the number of exchanges
            keepalive_timeout=POOL_KEEPALIVE,
        )
        self._parent = parent
        self._check = check
        self._resolve_parent = resolve_parent
        self._tls = ssl_context or upstream_context(None, insecure=False)
        self._factory: Any = functools.partial(OriginProtocol, asyncio.get_running_loop(), open_connections)

    async def _create_connection(self, req: ClientRequest, traces: Any, timeout: Any) -> ResponseHandler:
        host, port = req.url.raw_host or "", req.url.port or 0
        if self._parent.is_http and not req.is_ssl():
            sock = await connect_to_parent(self._parent, self._resolve_parent)
        else:
            sock = await checked_tunnel(self._parent, self._check, self._resolve_parent, host, port)
        tls: dict[str, Any] = {"ssl": self._tls, "server_hostname": host.rstrip(".")} if req.is_ssl() else {}
        try:
            _, protocol = await asyncio.get_running_loop().create_connection(self._factory, sock=sock, **tls)
        except ssl.CertificateError as error:
            raise ClientConnectorCertificateError(req.connection_key, error) from error
        except ssl.SSLError as error:
            raise ClientConnectorSSLError(req.connection_key, error) from error
        except OSError as error:
            raise ClientConnectorError(req.connection_key, error) from error
        assert isinstance(protocol, ResponseHandler)
        return protocol


def close_idle_connections(pool: BaseConnector, request: ClientRequest) -> None:
    """Close the idle connections that the pool could use for this request."""
    for protocol, _ in pool._conns.pop(request.connection_key, ()):
        protocol.close()
