"""Where aiohttp meets the wire: heads are ours, both ways; pool, TLS and body framing are aiohttp's.

aiohttp's own reading loses a good 304 when bytes follow it in the same packet, bounds each field but not the
head, repeats requests on connections that were never used before, and sends every field value as UTF-8.
It has no public place to mend that, so this module, and only this one, stands on inner names of aiohttp:
`TCPConnector._factory`, `ClientResponse._protocol` and ResponseHandler's `set_response_params`, `feed_data`,
`_payload` and `_parser`.
tests/net/test_wire.py fails when one of them moves.
(docs/decisions/fetching-with-aiohttp.md)
"""

import asyncio
import functools
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, cast

from aiohttp import ClientResponse, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler

from feedproxy.errors import BrokenMessage, FetchError
from feedproxy.http.message import Fields, Response
from feedproxy.net.head import could_be_http, find_end, parse_head

HEADS_MAX = 20
"""Heads before the response counts as none: curl, too, tires of endless 1xx."""


class StaleConnection(FetchError):
    """A pooled connection turned out to be closed before a byte of this answer came: safe to ask again
    (RFC 9112, section 9.3.1)."""

    detail = "broken-message"


class Latin1Transport:
    """A transport that writes a request head in the bytes its str stood for.

    Only heads are written through it: GET and HEAD have no content.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """aiohttp has encoded the head as UTF-8; a field value's characters are bytes (http/message.py)."""
        self._transport.write(data if data.isascii() else data.decode().encode("latin-1"))


class ExactProtocol(ResponseHandler):
    """A connection that reads heads strictly, passes over 1xx, and takes no surplus bytes for an answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, head_max: int, open_connections: set[object]) -> None:
        super().__init__(loop)
        self._head_max = head_max
        self._open = open_connections
        self._exchanges = 0
        self._asked = self._silent = self._answered = False
        self._method_has_content = True
        self._head: bytearray | None = None
        self._heads = self._head_bytes = 0
        self.interim: list[Response] = []
        """The 1xx responses of the exchange under way."""
        self.doubt = ""
        """What its framing left doubtful (head.py)."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._open.add(self)
        super().connection_made(cast(asyncio.Transport, Latin1Transport(cast(asyncio.Transport, transport))))

    def set_response_params(self, *, skip_payload: bool = False, **params: Any) -> None:
        """aiohttp is about to send a request on this connection."""
        self._exchanges += 1
        self._asked = self._silent = True
        self._answered = False
        self._method_has_content = not skip_payload
        self._head, self._heads, self._head_bytes = bytearray(), 0, 0
        self.interim, self.doubt = [], ""
        # The head was measured here, as a whole; no part of it can be above these. (Which limits there are
        # differs between releases of aiohttp: those that it passes are replaced.)
        size = 2 * self._head_max
        limits = {"max_line_size": size, "max_field_size": size, "max_headers": size}
        super().set_response_params(
            skip_payload=skip_payload, **{name: limits.get(name, value) for name, value in params.items()}
        )

    def data_received(self, data: bytes) -> None:
        if data and not self._asked:
            # A late rest of the last answer, or a 408 to an idle connection: no answer to what comes next.
            self._abandon()
            return
        self._silent = self._silent and not data
        if self._head is None:
            super().data_received(data)
            self._mark_end()
            return
        self._head += data
        try:
            while self._head is not None and self._read_head(self._head):
                pass
        except BrokenMessage as broken:
            self._fail(broken)

    def _read_head(self, data: bytearray) -> bool:
        """Take one head, if it is there, off the beginning; True if another may follow (after a 1xx)."""
        while data.startswith((b"\r", b"\n")):
            del data[:1]
        if not could_be_http(data):
            raise BrokenMessage(f"no HTTP/1 status line: {bytes(data[:60])!r}")
        end = find_end(data)
        if self._head_bytes + (end or len(data)) > self._head_max or self._heads == HEADS_MAX:
            raise BrokenMessage(f"the head of the answer is above {self._head_max} bytes")
        if not end:
            return False
        head = parse_head(bytes(data[:end]))
        del data[:end]
        self._heads += 1
        self._head_bytes += end
        if head.status == 101:
            raise BrokenMessage("101 Switching Protocols, which nobody asked for")
        if head.is_interim:
            if head.status != 100:
                self.interim.append(Response(head.status, Fields(head.fields()).end_to_end()))
            return bool(data)
        rest, self._head, self.doubt = bytes(data), None, head.doubt
        if not head.reusable:
            self.force_close()
        has_content = self._method_has_content and head.has_content("GET")
        if rest and not has_content:
            # "any response with a ... 304 ... is always terminated by the first empty line" -- RFC 9112, 6.3
            self.force_close()
        # Apart from what follows it: an error in the rest would take the head with it.
        super().data_received(head.wire())
        if rest and has_content and self._parser is not None:
            super().data_received(rest)
        self._mark_end()
        return False

    def feed_data(self, data: Any, size: int = 0) -> None:
        """aiohttp has read a message. A second one in the same exchange is nobody's."""
        if self._answered:
            self._abandon()
        else:
            self._answered = True
            super().feed_data(data, size)

    def _mark_end(self) -> None:
        if self._payload is None or self._payload.is_eof():
            self._asked = False
        elif self.exception() is not None:
            # aiohttp tells nobody who reads the body that a chunk was broken: he would wait for his deadline.
            self._payload.set_exception(BrokenMessage(f"broken within the body: {self.exception()}"))

    def connection_lost(self, exc: BaseException | None) -> None:
        self._open.discard(self)
        if self._asked:
            if self._silent and self._exchanges > 1:
                self._fail(StaleConnection("the pooled connection was closed"))
            elif self._head is not None:
                got = "in the head of the answer" if self._head or self._heads else "without an answer"
                self._fail(BrokenMessage(f"the origin closed the connection {got}"))
            elif exc is not None and self._payload is not None and not self._payload.is_eof():
                # A reset is no end: a body without a length is then as incomplete as any other.
                self._payload.set_exception(BrokenMessage("the connection broke within the body"))
        super().connection_lost(exc)

    def _fail(self, error: FetchError) -> None:
        self._asked, self._head = False, None
        self.set_exception(error)
        self._abandon()

    def _abandon(self) -> None:
        self.force_close()
        if self.transport is not None:
            self.transport.close()


def interim_of(answer: ClientResponse) -> tuple[Response, ...]:
    """The 1xx responses that came on the connection before this answer."""
    protocol = answer._protocol
    return tuple(protocol.interim) if isinstance(protocol, ExactProtocol) else ()


def doubt_of(answer: ClientResponse) -> str:
    """What the framing of this answer left doubtful, in words."""
    protocol = answer._protocol
    return protocol.doubt if isinstance(protocol, ExactProtocol) else ""


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
    """A pool of connections that go only where the policy lets them, and read heads as ExactProtocol does."""

    def __init__(
        self,
        resolver: CheckedResolver,
        *,
        ssl_context: ssl.SSLContext | None,
        connections: int,
        per_host: int,
        head_max: int,
        open_connections: set[object],
    ) -> None:
        super().__init__(
            resolver=resolver,
            use_dns_cache=False,  # each new connection is resolved and checked anew
            ssl=ssl_context or True,
            limit=connections,
            limit_per_host=per_host,
        )
        loop = asyncio.get_running_loop()
        self._factory: Any = functools.partial(
            ExactProtocol, loop=loop, head_max=head_max, open_connections=open_connections
        )
