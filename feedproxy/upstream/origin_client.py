"""HTTP client for origins and callbacks. Each request gives one complete response, or an error with the reason.

Callers handle redirects, cookies, content codings and caching.
"""

import asyncio
import os
import re
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.connector import Connection
from msgspec import Struct
from yarl import URL

from feedproxy.clock import Clock, Seconds
from feedproxy.errors import BadTarget, FeedproxyError, Overload
from feedproxy.http import uri
from feedproxy.http.credential_fields import authenticates_connection
from feedproxy.http.message import Fields, Request, Response
from feedproxy.http.target_uri.registrable_domain import site_or_self
from feedproxy.settings import Settings
from feedproxy.upstream import local_resource_exhaustion
from feedproxy.upstream.address_policy import AddressPolicy, AddressTrust
from feedproxy.upstream.connection_pool import (
    CheckedResolver,
    OriginConnector,
    OriginProtocol,
    ParentConnector,
    ReadTimeout,
    StaleConnection,
    close_idle_connections,
)
from feedproxy.upstream.fetch_result import Fetched, Oversized, PendingFetch
from feedproxy.upstream.origin_connection_limits import (
    CONNECTIONS,
    OWN_CLIENT,
    OWN_HOST,
    PER_CLIENT,
    PER_HOST,
    PER_SITE,
    FairLimits,
    Limit,
    ReceivingLimit,
    Slot,
)
from feedproxy.upstream.parent_proxy import Parent
from feedproxy.upstream.parent_proxy_tunnel import parent_name, unauthorized_error
from feedproxy.upstream.resolver import Lookup
from feedproxy.upstream.response_parser import ResponseParser
from feedproxy.upstream.upstream_errors import FetchTimeout, MalformedResponse, Unreachable, tls_failure_reason

_SENDABLE = re.compile(r"[\t -~\x80-\xff]*+")
_SENDABLE_BYTES = bytes([ord("\t"), *range(ord(" "), ord("~") + 1), *range(0x80, 0x100)])
"""The bytes that a field value may contain."""
_TARGET = re.compile(r"(https?://[!\"$-.0->@-~]+)([!\"$-~]*)(?:#.*)?")
"""Pattern of a target, with groups for scheme and authority, and for path and query."""

_WITHOUT_CONTENT = frozenset({"GET", "HEAD"})
"""Methods of requests without content and without Content-Length."""

_IDEMPOTENT = _WITHOUT_CONTENT | {"PURGE"}
"""Methods of requests that may be repeated (RFC 9110, section 9.2.2)."""

CACHED_HOSTS_MAX = 1024
"""At most this many `_Host` objects are cached."""


class FetchLimits(Struct, frozen=True):
    """The limits of one exchange, in seconds and bytes, and of concurrent exchanges (origin_connection_limits.py)."""

    connect: Seconds = 10
    """Maximum seconds for the start of a connection: name resolution, connection and TLS handshake. The wait for a free
    connection has the same limit."""
    first_byte: Seconds = 30
    """Maximum seconds of silence of the origin, before the first byte and within the response."""
    total: Seconds = 60
    header_max: int = 65_536
    """Maximum size of the head in bytes, including 1xx responses."""
    buffer_max: int = 10_000_000
    """Maximum size of the content as transferred, in bytes."""
    receiving_max: int = 64_000_000
    """Maximum size of all incomplete responses together, in bytes (ReceivingLimit)."""
    connections: Limit = CONNECTIONS
    per_site: Limit = PER_SITE
    per_host: Limit = PER_HOST
    per_client: int = PER_CLIENT
    own_host: Limit = OWN_HOST
    own_client: int = OWN_CLIENT

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return the limits that the settings define."""
        return cls(
            connect=settings.connect_timeout,
            first_byte=settings.first_byte_timeout,
            total=settings.fetch_timeout,
            header_max=settings.header_max,
            buffer_max=settings.buffer_max,
            receiving_max=settings.receiving_max,
        )


class _Host(Struct, frozen=True):
    """Scheme, host and port of targets, in the forms that requests need."""

    name: str
    port: int
    authority: str
    line: bytes
    """The field line with Host, as bytes."""
    request: aiohttp.ClientRequest
    """A request by which aiohttp selects a connection of the pool, and which is never sent."""
    site: str
    root: bytes
    """The scheme and authority of a target, for requests in absolute-form."""

    @property
    def is_tls(self) -> bool:
        return self.root.startswith(b"https:")


class _Message(Struct, frozen=True):
    """A request as it is sent, and what selects its connection."""

    data: bytes
    """The head and content."""
    method: str
    host: _Host
    parent: Parent | None
    trust: AddressTrust
    is_reusable: bool
    """False if the connection must be closed after the response, because the request has content or authenticates
    it."""


class Fetcher:
    """A pooled HTTP/1.1 client. `async with` closes the client at the end. Without `async with`, call `close`."""

    def __init__(
        self,
        policy: AddressPolicy,
        limits: FetchLimits | None = None,
        *,
        clock: Clock,
        ssl_context: ssl.SSLContext | None = None,
        parent_of: Callable[[str], Parent | None] = lambda target: None,
    ) -> None:
        self._policy = policy
        self._parent_of = parent_of
        self._limits = limits or FetchLimits()
        self._clock = clock
        self._ssl_context = ssl_context
        self._timeout = aiohttp.ClientTimeout(connect=min(self._limits.connect, self._limits.total))
        self._pools: dict[tuple[AddressTrust, Parent | None], OriginConnector | ParentConnector] = {}
        bounds = self._limits
        self._shares = {
            False: FairLimits(bounds.connections, site=bounds.per_site, host=bounds.per_host, client=bounds.per_client),
            True: FairLimits(bounds.connections, host=bounds.own_host, client=bounds.own_client),
        }
        self._receiving = ReceivingLimit(bounds.receiving_max)
        self._hosts: dict[str, _Host] = {}
        self._open: set[object] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Current and later exchanges fail."""
        self._closed = True
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.close()

    def fetch(self, request: Request, *, skip_address_check: bool = False) -> PendingFetch:
        """Return a fetch that sends a GET or HEAD to the target's origin.

        The result of the fetch is the response, or Oversized if the content exceeds `FetchLimits.buffer_max`.
        `skip_address_check` is true for targets that the operator configured: port and address are not checked.

        A method other than GET or HEAD raises BadTarget at once. Awaiting the fetch raises Forbidden if the address or
        port is not permitted, and BadTarget if the target is invalid. A failed exchange raises Unreachable,
        FetchTimeout, MalformedResponse, ParentFailed or Overload.
        """
        if request.method not in _WITHOUT_CONTENT:
            raise BadTarget(f"invalid method {request.method}: expected GET or HEAD")
        return self.send(request, trust=AddressTrust.OPERATOR_HOST if skip_address_check else AddressTrust.UNTRUSTED)

    async def send(
        self, request: Request, content: bytes = b"", *, trust: AddressTrust, virtual_host: str = ""
    ) -> Fetched | Oversized:
        """Send a request and return the response, or Oversized if the content exceeds `FetchLimits.buffer_max`.

        `virtual_host` is the value of the field Host, or "" for the authority of the target. Raises the errors of
        `fetch`.
        """
        if shortage := local_resource_exhaustion.shortage():
            local_resource_exhaustion.shortage_log.warn(shortage)
            raise Overload("file descriptors or memory are nearly exhausted")
        message = self._message(request, content, trust, virtual_host)
        host, shares = message.host, self._shares[trust is AddressTrust.OPERATOR_HOST]
        try:
            slot = await shares.acquire(timeout=self._limits.connect, site=host.site, host=host.authority)
            try:
                return await self._fetch_in_slot(slot, message)
            finally:
                self._receiving.release(slot)
                shares.release(slot)
        except FeedproxyError:
            raise
        except ReadTimeout as error:
            raise FetchTimeout(f"{host.authority} sent nothing for {self._limits.first_byte:g} s") from error
        except TimeoutError as error:
            raise FetchTimeout(f"{host.authority} took longer than {self._limits.total:g} s") from error
        except MemoryError as error:
            local_resource_exhaustion.shortage_log.warn("no memory is available for an exchange")
            raise Overload("no memory is available for an exchange") from error
        except (aiohttp.ClientConnectorError, aiohttp.ClientConnectorCertificateError) as error:
            _raise_if_local(getattr(error, "os_error", None), host.authority)
            raise Unreachable(f"{host.authority} cannot be reached: {_connection_error_reason(error)}") from error
        except (aiohttp.ClientError, OSError) as error:
            _raise_if_local(error, host.authority)
            raise MalformedResponse(f"{host.authority}: {error}") from error

    def _message(self, request: Request, content: bytes, trust: AddressTrust, virtual_host: str) -> _Message:
        """Return the request as it is sent. Raises Forbidden if the port or a literal address is not permitted, and
        BadTarget if the target is invalid."""
        host, path = self._host(request.target)
        if trust is AddressTrust.UNTRUSTED:
            # aiohttp calls its resolver only for names; literal addresses are checked here.
            self._policy.check_target(host.name, host.port)
        parent = self._parent_of(request.target)
        lines = _field_lines_to_send(request.fields)
        if parent is not None and parent.is_http and not host.is_tls:
            # "a client MUST send the target URI in "absolute-form"" to a proxy -- RFC 9112, section 3.2.2
            path = host.root + path
            if parent.authorization:
                lines += f"Proxy-Authorization: {parent.authorization}\r\n".encode("ascii")
        if request.method not in _WITHOUT_CONTENT:
            lines += b"Content-Length: %d\r\n" % len(content)
        if not (virtual_host.isascii() and _SENDABLE.fullmatch(virtual_host)):
            raise BadTarget("invalid field 'Host': expected a valid host")
        host_line = b"Host: %b\r\n" % virtual_host.encode("ascii") if virtual_host else host.line
        data = b"%b %b HTTP/1.1\r\n%b%b\r\n%b" % (request.method.encode(), path, host_line, lines, content)
        # A server that leaves the content unread takes it for its next request, and the response to that request would
        # answer the next request on the connection.
        is_reusable = not content and not any(map(authenticates_connection, request.fields.get_all("authorization")))
        return _Message(data, request.method, host, parent, trust, is_reusable)

    async def _fetch_in_slot(self, slot: Slot, message: _Message) -> Fetched | Oversized:
        """Make one exchange in this slot and return its response.

        An idempotent request is repeated on a new connection if the origin closed a pooled connection before it
        responded. Raises Overload if the exchange is ended for a waiting request, or because memory is needed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.total
        try:
            async with asyncio.timeout(None) as timeout:
                # Exchanges of feedproxy's own refreshes are never ended for other requests, only for memory.
                slot.end = lambda: timeout.reschedule(loop.time())
                try:
                    return await self._exchange(slot, message, deadline)
                except StaleConnection:
                    if message.method not in _IDEMPOTENT:
                        raise
                    return await self._exchange(slot, message, deadline, is_repeated=True)
                finally:
                    slot.end = None
        except TimeoutError as error:
            if not slot.is_ended:
                raise
            reason = f"{message.host.authority} took too long or too much memory while other requests waited"
            raise Overload(reason) from error

    async def _exchange(
        self, slot: Slot, message: _Message, deadline: Seconds, *, is_repeated: bool = False
    ) -> Fetched | Oversized:
        request_time = self._clock.now()
        connection = await self._connect(message, is_repeated=is_repeated)
        protocol = connection.protocol
        assert isinstance(protocol, OriginProtocol)
        local_resource_exhaustion.network.record_success()
        slot.silent_since = lambda: protocol.last_received
        head_max, content_max = self._limits.header_max, self._limits.buffer_max
        parser = ResponseParser(head_max, content_max, has_content=message.method != "HEAD", now=self._clock.now)
        try:
            await protocol.send_request(
                message.data,
                parser,
                read_timeout=self._limits.first_byte,
                deadline=deadline,
                is_wanted=lambda: not slot.requester.is_abandoned,
                on_part=lambda size: self._receiving.record(slot, size),
            )
        except BaseException:
            connection.close()
            raise
        if message.is_reusable:
            connection.release()
        else:
            connection.close()
        head = parser.head
        assert head is not None
        if head.status == 407 and message.parent is not None:
            raise unauthorized_error(message.parent, message.host.authority)
        fields, interim = Fields(head.fields()).end_to_end(), tuple(parser.interim)
        if message.method != "HEAD":
            fields = fields.without("content-length")
        if parser.oversized:
            return Oversized(head.status, fields, interim)
        response = Response(head.status, fields, parser.content, head.reason.decode("latin-1"))
        return Fetched(response, request_time, parser.at, interim, head.minor, head.lines, head.framing_anomaly)

    async def _connect(self, message: _Message, *, is_repeated: bool) -> Connection:
        """Return a pooled or new connection to the message's host and port. For a repeated request, idle connections
        are closed first: the other side has probably closed all of them."""
        host, parent, trust = message.host, message.parent, message.trust
        request = host.request
        try:
            if parent is not None and parent.is_http and not host.is_tls:
                # The parent's connections serve all origins, so each request is checked.
                if trust is not AddressTrust.OPERATOR_HOST:
                    async with asyncio.timeout(self._timeout.connect):
                        await self._policy.resolver(trust, parent)(host.name, host.port)
                request = self._host(str(parent))[0].request
            pool = self._pool(trust, parent)
            if is_repeated:
                close_idle_connections(pool, request)
            return await pool.connect(request, [], self._timeout)
        except TimeoutError as error:
            through = f" through {parent_name(parent)}" if parent is not None else ""
            raise FetchTimeout(f"no connection to {host.authority}{through} in {self._timeout.connect:g} s") from error

    def _pool(self, trust: AddressTrust, parent: Parent | None) -> OriginConnector | ParentConnector:
        """Return the connection pool for addresses of this trust and for this parent. Requests with different checks of
        addresses never share a connection."""
        if self._closed:
            raise Unreachable("the client is closed")
        pool = self._pools.get((trust, parent))
        if pool is None:
            pool = self._pools[trust, parent] = self._new_pool(self._policy.resolver(trust, parent), parent)
        return pool

    def _new_pool(self, check: Lookup, parent: Parent | None) -> OriginConnector | ParentConnector:
        if parent is None:
            return OriginConnector(
                CheckedResolver(check),
                ssl_context=self._ssl_context,
                open_connections=self._open,
            )
        return ParentConnector(
            parent,
            check=check,
            resolve_parent=self._policy.resolve_parent,
            ssl_context=self._ssl_context,
            open_connections=self._open,
        )

    def _host(self, target: str) -> tuple[_Host, bytes]:
        """Return the host of a target, and its path with the query. Raises BadTarget if the target is invalid."""
        match = _TARGET.fullmatch(target)
        if match is None:
            raise BadTarget(f"invalid target {target!r}")
        root, path = match[1], match[2]
        host = self._hosts.get(root)
        if host is None:
            if len(self._hosts) >= CACHED_HOSTS_MAX:
                del self._hosts[next(iter(self._hosts))]  # to clear all of them would take 3 ms
            host = self._hosts[root] = _host_of(root)
        return host, (path if path.startswith("/") else f"/{path}").encode("ascii")


def _connection_error_reason(error: aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError) -> str:
    """Return the reason for a failed connection: certificate, TLS handshake, or operating system. aiohttp's messages
    are not used, because they reveal addresses."""
    cause = error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else error.os_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"TLS handshake failed: {tls_failure_reason(cause)}"
    number = cause.errno if isinstance(cause, OSError) else None
    return os.strerror(number) if number and number > 0 else "no connection"


def _host_of(root: str) -> _Host:
    try:
        url = URL(root, encoded=True)
        name, port = url.raw_host, url.port  # both are parsed lazily and may raise
        if not name or port is None:
            raise ValueError("no host")
        request = aiohttp.ClientRequest("GET", url, loop=asyncio.get_running_loop())
    except (ValueError, aiohttp.InvalidURL) as error:
        raise BadTarget(f"invalid target {root!r}: {error}") from error
    line = f"Host: {request.headers['Host']}\r\n".encode("ascii")
    authority = request.headers["Host"].encode("ascii")
    return _Host(
        name,
        port,
        uri.join_host_port(name, port),  # yarl's authority is decoded, which fails for some names (xn--a)
        line,
        request,
        site_or_self(root),
        b"%b://%b" % (url.scheme.encode(), authority),
    )


def _raise_if_local(error: BaseException | None, authority: str) -> None:
    """Raise Overload if an exchange failed because of this machine."""
    if (overload := local_resource_exhaustion.overload_of(error, f"{authority} cannot be reached")) is not None:
        raise overload from error


def _field_lines_to_send(fields: Fields) -> bytes:
    """Return the field lines to send, without hop-by-hop fields, Content-Length, Expect and Host."""
    lines = fields.end_to_end().without("host", "content-length", "expect")
    text = "".join([f"{name}: {value}\r\n" for name, value in lines])
    data = text.encode("latin-1", "replace")
    # A character that may not be sent remains beside the line ends, or `replace` has put another in its place.
    if data.translate(None, _SENDABLE_BYTES) != b"\r\n" * len(lines) or "" in lines or not text.isascii():
        for name, value in lines:
            if not name or not _SENDABLE.fullmatch(name + value):
                raise BadTarget(f"invalid field {name!r}: expected a valid name and value")
    return data
