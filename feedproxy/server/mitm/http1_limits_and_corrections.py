"""Limits of HTTP/1 heads, and corrections to mitmproxy 12's handling of streamed HTTP/1 messages.

* mitmproxy treats an origin's 1xx response as the final response, and the client hangs. Here, the stream gets 1xx
  responses in addition to the final response.
* mitmproxy raises NotImplementedError for trailers. Here, trailers are dropped, as RFC 9110, section 6.5.1, permits.
* mitmproxy does not limit message heads. Here, all heads are limited in size, and a client's heads in time.
* mitmproxy passes on control characters and folded lines. Here, feedproxy's parsers read all heads
  (http/request_validation.py, upstream/response_head_parser.py).
* mitmproxy treats a client that closes its sending side as disconnected. Here, the client gets its response.
* mitmproxy hangs after an empty line before a request. Here, the line is skipped (RFC 9112, section 2.2).
* mitmproxy refuses an HTTP/1.0 request without Host. Here, the request is for the address at which it arrived.
* mitmproxy writes an empty piece of content as the last chunk. Here, the piece is dropped.
* mitmproxy answers unreadable messages with its own page. Here, the client gets feedproxy's page.

This module replaces two of mitmproxy's internal names, once per process.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11
from mitmproxy import http
from mitmproxy.connection import Client, ConnectionState
from mitmproxy.net.http import http1
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import http as http_layers
from mitmproxy.proxy.layers.http import _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    HttpEvent,
    RequestData,
    RequestHeaders,
    RequestProtocolError,
    RequestTrailers,
    ResponseData,
    ResponseHeaders,
    ResponseProtocolError,
    ResponseTrailers,
)

from feedproxy.cache.cache_status import CacheStatus, Detail, append
from feedproxy.clock import Seconds
from feedproxy.errors import BadRequest
from feedproxy.http import uri
from feedproxy.http.credential_fields import authenticates_connection
from feedproxy.http.field_lines import Line
from feedproxy.http.request_validation import read_request
from feedproxy.request.endpoint_registry import CONTENT_MAX
from feedproxy.request.problem_details import problem_response
from feedproxy.server.mitm.server_addresses import ParentProxyHost
from feedproxy.server.response_head import is_well_formed
from feedproxy.upstream.chunked import ChunkedParser
from feedproxy.upstream.response_head_parser import ResponseHead, could_be_http, find_end, parse_head
from feedproxy.upstream.upstream_errors import MalformedResponse

logger = logging.getLogger("feedproxy")

HEAD_MAX = 65_536
"""Maximum size of an origin's message head, and of the lines between chunks, in bytes: the default of `header_max`."""

LINGERING_TIME: Seconds = 30
"""Input is discarded for this many seconds after a response that precedes the end of its request, as in nginx
(lingering_time)."""

UNREADABLE_CONTENT = "The content of this request breaks off, or its chunks cannot be read."
"""Reason of the response 400 to a request with such content, and message of the flow's error after this response."""

EMPTY_LINES_MAX = 16
"""Maximum number of empty lines before a request. Old clients send an empty line after the content of a POST."""

INTERIM_MAX = 20
"""Maximum number of 1xx responses before a response, as in upstream/response_parser.py."""


@dataclass
class DiscardRequestBody(HttpEvent):
    """The command by which a stream makes its HTTP/1 connection discard further input."""


class ChunkReader:
    """Reader of chunked content in place of h11's reader. Trailers are skipped."""

    def __init__(self, *, of_request: bool) -> None:
        self._chunks = ChunkedParser(HEAD_MAX, of_request=of_request)

    def __call__(self, buf: Any) -> Any:
        """Return the event for the next piece of content or for the end of the content, or None if neither has arrived.
        Raises h11.RemoteProtocolError if the chunks are invalid."""
        while not self._chunks.done:
            data = buf.maybe_extract_at_most(len(buf))
            if not data:
                return None
            try:
                content = b"".join(self._chunks.feed(bytes(data)))
            except MalformedResponse as error:
                raise h11.RemoteProtocolError(str(error)) from error
            buf += self._chunks.rest
            if content:
                return h11.Data(data=content)
        return h11.EndOfMessage()

    def read_eof(self) -> Any:
        """Record the end of the connection. Raises h11.RemoteProtocolError if the content is incomplete."""
        if self._chunks.done:
            return h11.EndOfMessage()
        raise h11.RemoteProtocolError("connection closed within chunked content")


class LimitedHttp1Server(_http1.Http1Server):
    """mitmproxy's HTTP/1 layer for clients, with limits and strict parsing of requests.

    A head with more than `head_max` bytes gets the response 431. A head that is incomplete after `head_timeout` seconds
    (0: no limit) gets the response 408. Both responses end the connection.

    While a client waits for a response, it may send at most as many bytes as a head and CONTENT_MAX together. With
    more, the connection is closed.
    """

    _head_started: float | None = None
    _timer_set = False
    _empty_lines = 0
    _client_eof = False
    _lingering_timer: commands.RequestWakeup | None = None

    def __init__(
        self,
        context: Context,
        *,
        head_max: int,
        head_timeout: Seconds,
        still_reads: Callable[[Client], bool],
        count_unreadable: Callable[[Client, int, bytes], None],
    ) -> None:
        """Set the limits.

        `still_reads` returns True if a client that has closed its sending side can still read. `count_unreadable` is
        called with the client, the status and the page that answers an unreadable head.
        """
        super().__init__(context)
        self._head_max = head_max
        self._head_timeout = head_timeout
        self._still_reads = still_reads
        self._count_unreadable = count_unreadable

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if self._lingering_timer is not None and not isinstance(event, HttpEvent):
            is_over = isinstance(event, events.Wakeup) and event.command is self._lingering_timer
            if is_over or isinstance(event, events.ConnectionClosed):
                yield commands.CloseConnection(self.conn)
            return
        if isinstance(event, events.Wakeup):
            self._timer_set = False
        else:
            yield from super()._handle_event(event)
        if not self._head_timeout:
            return
        if self.state != self.read_headers or not self.buf:
            self._head_started = None
            return
        if isinstance(event, events.DataReceived) and self._head_started is None:
            self._head_started = time.monotonic()
        if self._head_started is not None and not self._timer_set:
            yield from self._await_head(self._head_started + self._head_timeout - time.monotonic())

    def _await_head(self, remaining: Seconds) -> layer.CommandGenerator[None]:
        if remaining > 0.001:
            # There is one timer at a time, however many heads a client starts.
            self._timer_set = True
            yield commands.RequestWakeup(remaining)
            return
        page = late_head_page()
        self._count_unreadable(self.context.client, 408, page)
        yield commands.SendData(self.conn, page)
        yield commands.CloseConnection(self.conn)
        self.state = self.done

    def refuse(self, status: int, reason: str = "") -> layer.CommandGenerator[None]:
        """Answer an unreadable request, and end the connection."""
        page = error_page(status, reason)
        if self.state == self.read_headers:  # later refusals belong to a request that is counted
            self._count_unreadable(self.context.client, status, page)
        yield commands.SendData(self.conn, page)
        yield from self.end()

    def end(self) -> layer.CommandGenerator[None]:
        """Close the connection after discarding input for LINGERING_TIME seconds."""
        self._lingering_timer = commands.RequestWakeup(LINGERING_TIME)
        self.state = self.done
        yield commands.CloseTcpConnection(self.conn, half_close=True)
        yield self._lingering_timer

    def send(self, event: HttpEvent) -> layer.CommandGenerator[None]:
        if isinstance(event, DiscardRequestBody):
            if self.state != self.done:  # otherwise all input has arrived, and the connection ends
                yield from self.end()
            return
        if event.stream_id != self.stream_id:
            return  # the exchange has ended, and the connection serves the next exchange
        if isinstance(event, ResponseData) and not event.data:
            return  # an empty chunk would be the last one
        if isinstance(event, ResponseTrailers):
            return
        if isinstance(event, ResponseHeaders) and not is_well_formed(_encode_head(event.response)):
            logger.error("response withheld: its head has control characters")
            yield from self.refuse(502)
            return
        if isinstance(event, ResponseHeaders) and event.response.status_code < 200:
            yield commands.SendData(self.conn, _encode_head(event.response))  # the response is still to come
            return
        yield from super().send(event)

    def read_headers(self, event: events.ConnectionEvent) -> layer.CommandGenerator[None]:
        if not isinstance(event, events.DataReceived):
            yield from super().read_headers(event)
            return
        self._skip_empty_lines()
        if _head_length(self.buf) > self._head_max:
            logger.info("HTTP/1: answered 431: the request head is longer than %d bytes", self._head_max)
            yield from self.refuse(431, "The head of this request is too long.")
            return
        if self._empty_lines > EMPTY_LINES_MAX:
            yield from self._refuse_head(BadRequest("there are only empty lines where a request should be"))
            return
        lines = self.buf.maybe_extract_lines()
        if not lines:
            return
        try:
            head = read_request([bytes(line) for line in lines])
            self.request = http1.read_request_head(head.lines())
            if head.is_for_whole_server:
                self.request.path = "*"  # mitmproxy adds a path to absolute-form
            size = http1.expected_http_body_size(self.request)
        except (BadRequest, ValueError) as error:
            yield from self._refuse_head(error)
            return
        self._empty_lines = 0
        self._add_missing_host(self.request)
        yield ReceiveHttp(RequestHeaders(self.stream_id, self.request, size == 0))
        self.body_reader = _body_reader(size, of_request=True)
        self.state = self.read_body
        yield from self.state(event)

    def _add_missing_host(self, request: http.Request) -> None:
        is_without_host = request.http_version == "HTTP/1.0" and not request.data.host and not request.host_header
        if is_without_host and request.method != "CONNECT" and self.context.client.sockname:
            address, port, *_ = self.context.client.sockname
            # A zone id is no part of Host (RFC 6874, section 3).
            request.headers["Host"] = uri.join_host_port(address.partition("%")[0], port)

    def _refuse_head(self, error: BadRequest | ValueError) -> layer.CommandGenerator[None]:
        # mitmproxy's message repeats the request line, which may contain a password.
        refused = error if isinstance(error, BadRequest) else BadRequest("invalid request line")
        logger.info("HTTP/1: answered %d: %s", refused.status_hint, refused)
        yield from self.refuse(refused.status_hint, f"This request could not be read: {refused}.")

    def _skip_empty_lines(self) -> None:
        # "In the interest of robustness, a server that is expecting to receive and parse a request-line SHOULD ignore
        # at least one empty line (CRLF) received prior to the request-line." -- RFC 9112, section 2.2
        while self._empty_lines <= EMPTY_LINES_MAX and bytes(self.buf).startswith((b"\r\n", b"\n")):
            self.buf.maybe_extract_lines()
            self._empty_lines += 1

    def read_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        for command in super().read_body(event):
            if isinstance(command, commands.CloseConnection) and self.state == self.read_body and not self.response:
                # The request is malformed, and no part of a response has been sent.
                yield from self.refuse(400, UNREADABLE_CONTENT)
                continue
            is_answered = self._lingering_timer is not None
            if is_answered and isinstance(command, ReceiveHttp) and isinstance(command.event, RequestProtocolError):
                command.event.message = UNREADABLE_CONTENT  # the access log then shows the response
            yield command

    def wait(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.ConnectionClosed) and self._client_may_still_read(event):
            self._client_eof = True
            return
        if isinstance(event, events.DataReceived) and len(self.buf) > self._head_max + CONTENT_MAX:
            disconnected = RequestProtocolError(self.stream_id, "too much at once", ErrorCode.CLIENT_DISCONNECTED)
            self.state = self.done
            yield commands.CloseConnection(self.conn)
            yield ReceiveHttp(disconnected)
            return
        yield from super().wait(event)

    def _client_may_still_read(self, event: events.ConnectionClosed) -> bool:
        is_half_closed = event.connection.state is ConnectionState.CAN_WRITE
        is_tunnel = self.request is not None and self.request.method == "CONNECT"
        return is_half_closed and not is_tunnel and self._still_reads(self.context.client)

    def mark_done(self, *, request: bool = False, response: bool = False) -> layer.CommandGenerator[None]:
        yield from super().mark_done(request=request, response=response)
        if self._client_eof and self.state == self.read_headers:
            yield from self.read_headers(events.ConnectionClosed(self.conn))


class InterimTolerantClient(_http1.Http1Client):
    """mitmproxy's HTTP/1 layer for servers, which also accepts interim responses (1xx)."""

    _interim = 0
    _reusable = True

    def send(self, event: HttpEvent) -> layer.CommandGenerator[None]:
        if isinstance(event, RequestData) and not event.data:
            return  # an empty chunk would be the last one
        if isinstance(event, RequestTrailers):
            return
        if isinstance(event, RequestHeaders) and event.request.http_version == "HTTP/1.0":
            # The version in a head is the version of its sender (RFC 9110, section 2.5). The client's version is
            # restored afterwards.
            request = event.request.copy()
            request.http_version = "HTTP/1.1"
            event = RequestHeaders(event.stream_id, request, event.end_stream)
        yield from super().send(event)

    def read_headers(self, event: events.ConnectionEvent) -> layer.CommandGenerator[None]:
        if not isinstance(event, events.DataReceived) or not self.request:
            yield from super().read_headers(event)
            return
        interim: list[ResponseHead] = []
        try:
            head = self._next_head(interim)
        except MalformedResponse as error:
            yield commands.CloseConnection(self.conn)
            assert self.stream_id is not None
            yield ReceiveHttp(ResponseProtocolError(self.stream_id, str(error), ErrorCode.GENERIC_SERVER_ERROR))
            return
        assert self.stream_id is not None
        for interim_head in interim:
            yield ReceiveHttp(ResponseHeaders(self.stream_id, response_of(interim_head, self.request.method), False))
        if head is None:
            return
        has_content = head.has_content(self.request.method)
        size = 0 if not has_content else None if head.chunked else -1 if head.length is None else head.length
        # The announced content may arrive later, in place of the next response.
        self._reusable = head.reusable and (has_content or not (head.chunked or head.length))
        # Credentials of some schemes, such as NTLM, authenticate the connection to the origin. No other user of the
        # client, which may be a proxy, must get this connection.
        self._reusable &= not any(map(authenticates_connection, self.request.headers.get_all("authorization")))
        # Some servers leave the content of a request unread, and take it for the next request. The response to it would
        # answer another user of the client, which may be a proxy (RFC 9110, section 9.3.1; RFC 9112, section 11.2).
        self._reusable &= not _has_content(self.request.headers)
        # mitmproxy sends no second request for an HTTP/2 client on a connection, nor through a parent proxy, and opens
        # at most five connections at once.
        address = self.context.server.address
        is_for_parent = address is not None and isinstance(address[0], ParentProxyHost)
        self._reusable &= self.context.client.alpn != b"h2" and not is_for_parent
        self.response = response_of(head, self.request.method)
        yield ReceiveHttp(ResponseHeaders(self.stream_id, self.response, size == 0))
        self.body_reader = _body_reader(size, of_request=False)
        self.state = self.read_body
        yield from self.state(event)

    def _next_head(self, interim: list[ResponseHead]) -> ResponseHead | None:
        """Return the head of the final response, or None if it is incomplete. Add the heads of interim responses to
        `interim`, except 100 (Continue), which this proxy sends itself. Raises MalformedResponse if a head is
        invalid."""
        while True:
            data = bytes(self.buf)
            if not could_be_http(data):
                raise MalformedResponse(f"no HTTP/1 status line: {data[:60]!r}")
            end = find_end(data)
            if (end or len(data)) > HEAD_MAX or self._interim > INTERIM_MAX:
                raise MalformedResponse("the response head is too long")
            if not end:
                return None
            self.buf.maybe_extract_at_most(end)
            head = parse_head(data[:end])
            if head.status == 101:
                raise MalformedResponse("unexpected 101 Switching Protocols: the request had no Upgrade")
            if not head.is_interim:
                self._interim = 0
                return head
            self._interim += 1
            if head.status != 100:
                interim.append(head)

    def mark_done(self, *, request: bool = False, response: bool = False) -> layer.CommandGenerator[None]:
        yield from super().mark_done(request=request, response=response)
        if not self._reusable and self.state == self.read_headers:
            yield commands.CloseConnection(self.conn)
            self.state = self.done


def _has_content(request: http.Headers) -> bool:
    return "transfer-encoding" in request or request.get("content-length", "0") != "0"


def response_of(head: ResponseHead, method: str) -> http.Response:
    """Return a response head in mitmproxy's form. `method` is that of the request."""
    fields, now = without_framing(head.lines, head.status, method), time.time()
    return http.Response(b"HTTP/1.1", head.status, head.reason, http.Headers(fields), None, None, now, None)


def without_framing(fields: Iterable[Line], status: int, method: str) -> list[Line]:
    """Return the fields of a response without the framing fields that HTTP forbids for its status and method."""
    unwanted: tuple[bytes, ...] = ()
    if status in (204, 304):
        # "A server MUST NOT send a Transfer-Encoding header field in any response with a status code of 1xx
        # (Informational) or 204 (No Content)" -- RFC 9112, section 6.1; nor Content-Length (RFC 9110, section 8.6)
        unwanted = (b"content-length", b"transfer-encoding")
    elif method == "HEAD":
        unwanted = (b"transfer-encoding",)
    return [line for line in fields if line[0].lower() not in unwanted]


def _encode_head(response: http.Response) -> bytes:
    return b"HTTP/1.1 %d %b\r\n%b\r\n" % (response.status_code, response.data.reason, bytes(response.headers))


def _body_reader(size: int | None, *, of_request: bool) -> Any:
    return ChunkReader(of_request=of_request) if size is None else _http1.make_body_reader(size)


def error_page(status: int, reason: str = "") -> bytes:
    """Return the complete response to an unreadable request, as bytes."""
    page: bytes = http1.assemble_response(error_response(status, reason))
    return page


def late_head_page() -> bytes:
    """Log that the head of a request did not come in time. Return the complete response, as bytes."""
    logger.info("HTTP/1: answered 408: the request head did not come in time")
    return error_page(408, "The head of this request did not come in time.")


def error_response(status: int, reason: str = "") -> http.Response:
    """Return the response to an unreadable request, in mitmproxy's form."""
    is_client_error = status < 500 or status in (501, 505)
    detail = Detail.BAD_REQUEST if is_client_error else Detail.UNREACHABLE
    reason = reason or ("This request could not be read." if is_client_error else "The origin failed.")
    response = problem_response(status, detail, reason)
    fields = append(response.fields, CacheStatus(detail=detail)).with_field("Connection", "close")
    answer = http.Response.make(status, response.body)
    answer.reason = HTTPStatus(status).phrase
    answer.headers = http.Headers([(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields])
    return answer


def install() -> None:
    """Replace mitmproxy's HTTP/1 client and its function for error pages by those of this module."""
    http_layers.Http1Client = InterimTolerantClient  # type: ignore[attr-defined]
    _http1.make_error_response = _make_error_page


def _make_error_page(status_code: int, message: str = "") -> bytes:
    logger.info("HTTP/1: answered %d: %s", status_code, message)
    return error_page(status_code)


def _head_length(buf: Any) -> int:
    received = bytes(buf)
    end = received.find(b"\r\n\r\n")
    return end if end >= 0 else len(received)
