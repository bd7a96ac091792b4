"""Subclasses of mitmproxy's HTTP layer.

mitmproxy 12's layer does three things that these subclasses correct:

* It does not distinguish absolute-form, which is for the explicit proxy, from origin-form, which is for the gateway
  (RFC 9112, section 3.2).
* It reports a failure upstream with its own page.
* It reads a request to its end before it answers. Here, a request with unused content is answered at once, and its
  remaining content is discarded for LINGERING_TIME seconds. A close with unread input could destroy the response (RFC
  9112, section 9.6).

The option `header_max` limits the head of a request (http1_limits_and_corrections.py). The option `head_timeout` limits
the time for content that is read before the response.
"""

import logging
import time
from dataclasses import dataclass

from mitmproxy import connection, http
from mitmproxy import flow as mitmproxy_flow
from mitmproxy.net.http import http1
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import DropStream, HttpLayer, HTTPMode, HttpStream, SendHttp
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    HttpEvent,
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    RequestProtocolError,
    RequestTrailers,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
    ResponseTrailers,
)
from mitmproxy.proxy.layers.http._hooks import HttpErrorHook, HttpResponseHook
from mitmproxy.proxy.layers.http._http2 import Http2Server

from feedproxy.clock import Seconds
from feedproxy.errors import BadRequest, FeedproxyError
from feedproxy.http import field_lines
from feedproxy.request.endpoint_registry import CONTENT_MAX
from feedproxy.server.mitm.backpressure import WriteBackpressure
from feedproxy.server.mitm.flow_handler import FlowHandler
from feedproxy.server.mitm.http1_limits_and_corrections import DiscardRequestBody, LimitedHttp1Server, error_response
from feedproxy.server.mitm.http2_head_corrections import clean_http2_request
from feedproxy.server.mitm.http2_limits_and_shutdown import BoundedServer
from feedproxy.server.mitm.request_routing import ABSOLUTE_FORM, RESPOND_EARLY, WITHOUT_CONTENT

logger = logging.getLogger("feedproxy")

NO_ERROR = 0
"""HTTP/2's code for resetting a stream without an error (RFC 9113, section 7)."""


@dataclass
class ContentTimeout(HttpEvent):
    """The event that a stream's deadline for content has passed."""


class FeedStream(HttpStream):
    """The stream of one request and its response."""

    events_in_progress = 0
    """Number of calls in progress that handle events of this stream. mitmproxy handles the next pipelined request
    within such a call. Until the call returns, the stream's reference cycles must not be broken."""

    content_deadline: Seconds | None = None
    """Time of the monotonic clock by which the next part of the request's content must arrive, or None if there
    is no limit."""

    def __init__(self, context: Context, stream_id: int, flow_handler: FlowHandler, content_timeout: Seconds) -> None:
        """Set `content_timeout`: the seconds within which each CONTENT_MAX bytes of content must arrive, unless the
        content is streamed. 0 means no limit."""
        super().__init__(context, stream_id)
        self._flow_handler = flow_handler
        self._content_timeout = content_timeout
        self._is_without_content = False

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, RequestData | ResponseData) and not event.data:
            return  # an empty DATA frame (RFC 9113, section 6.1) has no meaning, but would be the last chunk in HTTP/1
        if isinstance(event, ResponseHeaders) and event.response.status_code < 200:
            yield from self._forward_interim(event.response)
            return
        if isinstance(event, RequestHeaders):
            self._is_without_content = event.end_stream
        if isinstance(event, RequestTrailers | ResponseTrailers) and event.trailers is not None:
            event.trailers = _valid_trailers(event.trailers)
        self.events_in_progress += 1
        if not isinstance(event, ContentTimeout):
            yield from super()._handle_event(event)
        elif self.client_state == self.state_consume_request_body:
            late = BadRequest("The content of this request did not come in time.", status=408)
            yield from self._refuse_content(late)
        self.events_in_progress -= 1

    def _forward_interim(self, response: http.Response) -> layer.CommandGenerator[None]:
        # RFC 9110, section 15.2: a proxy forwards 1xx responses. HTTP/1.0 does not define them.
        if self.flow.request.http_version == "HTTP/1.0" or self.client_state == self.state_errored:
            return
        if (interim := self._flow_handler.streamed_interim_response(self.flow, response)) is not None:
            yield SendHttp(ResponseHeaders(self.stream_id, interim, False), self.context.client)

    def passthrough(self, event: events.Event) -> layer.CommandGenerator[None]:
        # The layer of a tunnel would fail at an event of HTTP. If a peer disconnects before the tunnel is open, the
        # HTTP error therefore becomes the end of the peer's messages.
        if isinstance(event, RequestProtocolError):
            event = RequestEndOfMessage(self.stream_id)
        elif isinstance(event, ResponseProtocolError):
            event = ResponseEndOfMessage(self.stream_id)
        yield from super().passthrough(event)

    def check_invalid(self, request: bool) -> layer.CommandGenerator[bool]:
        # http1_limits_and_corrections.py has checked heads of HTTP/1.
        try:
            if request and self.flow.request.is_http2:
                clean_http2_request(self.flow.request)
        except BadRequest as error:
            yield from self._refuse(error)
            return True
        if request:
            # In HTTP/2, :authority takes the place of Host, also in requests that are not for a proxy.
            is_absolute = bool(self.flow.request.data.authority) and not self.flow.request.is_http2
            self.flow.metadata[ABSOLUTE_FORM] = is_absolute
            self.flow.metadata[WITHOUT_CONTENT] = self._is_without_content
        return (yield from super().check_invalid(request))

    def _refuse(self, error: BadRequest) -> layer.CommandGenerator[None]:
        """Answer a malformed request with an error, without running mitmproxy's hooks for the request."""
        logger.info("HTTP: answered %d: %s", error.status_hint, error)
        self.flow.error = mitmproxy_flow.Error(str(error))
        yield HttpErrorHook(self.flow)
        self.flow.live = False
        response = error_response(error.status_hint, f"This request could not be read: {error}.")
        self._flow_handler.count_unreadable(self.context.client, error.status_hint, http1.assemble_response(response))
        yield from self._send(response)
        self.server_state = self.state_errored
        yield from self._reset()
        yield DropStream(self.stream_id)

    def start_response_stream(self) -> layer.CommandGenerator[None]:
        self._close_if_content_is_missing()
        yield from super().start_response_stream()

    def send_response(self, already_streamed: bool = False) -> layer.CommandGenerator[None]:
        # RFC 9110, section 15.2: a proxy forwards 1xx responses. HTTP/1.0 does not define them.
        if self.flow.request.http_version != "HTTP/1.0":
            for interim in self._flow_handler.interim_responses(self.flow):
                yield SendHttp(ResponseHeaders(self.stream_id, interim, False), self.context.client)
        if not already_streamed:
            self._close_if_content_is_missing()
        yield from super().send_response(already_streamed)
        if self._content_is_missing() and self.server_state == self.state_done:
            yield from self._abandon_content()

    @property
    def _is_client_http2(self) -> bool:
        # A request that is streamed to an origin of HTTP/1.1 has this version, whatever the client speaks.
        return self.context.client.alpn == b"h2"

    def _content_is_missing(self) -> bool:
        return bool(self.client_state == self.state_stream_request_body)

    def _close_if_content_is_missing(self) -> None:
        """Close the connection after a response that precedes the end of its request's content (RFC 9112, section
        9.5)."""
        if self._content_is_missing() and not self._is_client_http2 and self.flow.response is not None:
            self.flow.response.headers["Connection"] = "close"

    def _abandon_content(self) -> layer.CommandGenerator[None]:
        """Discard the remaining content of the request, because the response is complete."""
        self.flow.live = False
        self.client_state = self.server_state = self.state_errored
        yield SendHttp(RequestProtocolError(self.stream_id, "answered already", ErrorCode.CANCEL), self.context.server)
        yield SendHttp(ResponseEndOfMessage(self.stream_id), self.context.client)
        yield from self._discard_content()

    def _discard_content(self) -> layer.CommandGenerator[None]:
        """Discard further content of the request, and end the exchange."""
        if self._is_client_http2:
            yield from self._reset()
        else:
            yield SendHttp(DiscardRequestBody(self.stream_id), self.context.client)
        yield DropStream(self.stream_id)

    def state_wait_for_request_headers(self, event: RequestHeaders) -> layer.CommandGenerator[None]:
        yield from super().state_wait_for_request_headers(event)
        if self.client_state == self.state_consume_request_body and not event.end_stream:
            self._set_content_deadline()

    def state_consume_request_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        # Content for endpoints, and content to be discarded, arrives here. Other content streams upstream.
        if isinstance(event, RequestData):
            before, after = len(self.request_body_buf), len(self.request_body_buf) + len(event.data)
            try:
                self._flow_handler.reserve_content(self.flow, after)  # HTTP/2 need not announce the length
            except FeedproxyError as error:
                yield from self._refuse_content(error)
                return
            if after // CONTENT_MAX > before // CONTENT_MAX:
                self._set_content_deadline()
        else:
            self.content_deadline = None
        yield from super().state_consume_request_body(event)

    def _set_content_deadline(self) -> None:
        if self._content_timeout:
            self.content_deadline = time.monotonic() + self._content_timeout

    def _refuse_content(self, error: FeedproxyError) -> layer.CommandGenerator[None]:
        self.request_body_buf.clear()
        if self.flow.response is None:
            self._flow_handler.refuse(self.flow, error)
        yield from self._respond_early()

    def check_killed(self, emit_error_hook: bool) -> layer.CommandGenerator[bool]:
        if (yield from super().check_killed(emit_error_hook)):
            return True
        if self.flow.metadata.pop(RESPOND_EARLY, False) and self.flow.response is not None:
            yield from self._respond_early()
            return True
        return False

    def _respond_early(self) -> layer.CommandGenerator[None]:
        assert self.flow.response is not None
        if not self._is_client_http2:
            self.flow.response.headers["Connection"] = "close"
        yield HttpResponseHook(self.flow)
        self.flow.live = False
        yield from self._send(self.flow.response)
        self.server_state = self.state_errored
        yield from self._discard_content()

    def _reset(self) -> layer.CommandGenerator[None]:
        """Tell an HTTP/2 client to stop sending content."""
        parent = self.context.layers[self.context.layers.index(self) - 1]
        server = parent.connections[self.context.client] if isinstance(parent, HttpLayer) else None
        if isinstance(server, Http2Server) and not server.is_closed(self.stream_id):
            # RFC 9113, 8.1: "RST_STREAM with an error code of NO_ERROR after sending a complete response"
            server.h2_conn.reset_stream(self.stream_id, NO_ERROR)
            yield commands.SendData(self.context.client, server.h2_conn.data_to_send())

    def handle_protocol_error(
        self, event: RequestProtocolError | ResponseProtocolError
    ) -> layer.CommandGenerator[None]:
        # Make the page first, because the error hook logs the page before the client gets it.
        page = self._make_error_page(event) if isinstance(event, ResponseProtocolError) else None
        steps = super().handle_protocol_error(event)
        result: object = None
        while True:
            try:
                command = steps.send(result)
            except StopIteration:
                return
            if page is not None and self._is_error_for_client(command):
                yield from self._send(page)
                result = None
            else:
                result = yield command

    def _is_error_for_client(self, command: commands.Command) -> bool:
        return (
            isinstance(command, SendHttp)
            and isinstance(command.event, ResponseProtocolError)
            and command.connection is self.context.client
        )

    def _make_error_page(self, event: ResponseProtocolError) -> http.Response | None:
        """Return the page for the client in place of mitmproxy's page, or None if the flow has a response already, or
        if the exchange with the client has ended."""
        if self.flow.response is not None or self.client_state == self.state_errored:
            return None
        return self._flow_handler.make_error_page(self.flow, event.message)

    def _send(self, response: http.Response) -> layer.CommandGenerator[None]:
        body = response.raw_content or b""
        yield SendHttp(ResponseHeaders(self.stream_id, response, not body), self.context.client)
        if body:
            yield SendHttp(ResponseData(self.stream_id, body), self.context.client)
        yield SendHttp(ResponseEndOfMessage(self.stream_id), self.context.client)
        self.client_state = self.state_errored


class FeedLayer(HttpLayer):
    """mitmproxy's HTTP layer with feedproxy's streams."""

    streams: dict[int, FeedStream]  # type: ignore[assignment]  # `make_stream` makes all streams
    _content_timer: commands.RequestWakeup | None = None

    def __init__(
        self,
        context: Context,
        mode: HTTPMode,
        flow_handler: FlowHandler,
        backpressure: WriteBackpressure,
        *,
        head_max: int,
        head_timeout: Seconds,
    ) -> None:
        super().__init__(context, mode)
        self._flow_handler = flow_handler
        self._backpressure = backpressure
        self._head_max = head_max
        self._head_timeout = head_timeout
        self._streams: list[FeedStream] = []

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.Start) and self.context.client.alpn != b"h3":
            yield from self._start(event)
            return
        if isinstance(event, events.Wakeup) and event.command is self._content_timer:
            self._content_timer = None
            yield from self._end_slow_content()
        else:
            yield from super()._handle_event(event)
        if len(self._streams) > len(self.streams):
            # An idle connection would keep its last response in memory.
            self._break_cycles()
        deadlines = [stream.content_deadline for stream in self.streams.values() if stream.content_deadline is not None]
        if deadlines and self._content_timer is None:
            self._content_timer = commands.RequestWakeup(max(0, min(deadlines) - time.monotonic()))
            yield self._content_timer

    def _end_slow_content(self) -> layer.CommandGenerator[None]:
        now = time.monotonic()
        for stream in list(self.streams.values()):
            if stream.content_deadline is not None and stream.content_deadline <= now:
                stream.content_deadline = None
                yield from self.event_to_child(stream, ContentTimeout(stream.stream_id))

    def _start(self, event: events.Start) -> layer.CommandGenerator[None]:
        # mitmproxy would also make a server, and drop it in a reference cycle with its context.
        server: BoundedServer | LimitedHttp1Server
        if self.context.client.alpn == b"h2":
            server = BoundedServer(
                self.context.fork(),
                self._backpressure,
                self._server_of,
                head_max=self._head_max,
                head_timeout=self._head_timeout,
            )
        else:
            server = LimitedHttp1Server(
                self.context.fork(),
                head_max=self._head_max,
                head_timeout=self._head_timeout,
                still_reads=self._backpressure.still_reads,
                count_unreadable=self._flow_handler.count_unreadable,
            )
        self.connections[self.context.client] = server
        yield from self.event_to_child(server, event)

    def _break_cycles(self) -> None:
        """Break the reference cycles of ended streams. A stream is in a cycle, because its own context lists it."""
        ended = [
            feed_stream
            for feed_stream in self._streams
            if self.streams.get(feed_stream.stream_id) is not feed_stream and not feed_stream.events_in_progress
        ]
        for feed_stream in ended:
            self._streams.remove(feed_stream)
            feed_stream.__dict__.clear()

    def _server_of(self, stream_id: int) -> connection.Server | None:
        """Return the server that sends the response of a stream, or None if there is no such stream."""
        stream = self.streams.get(stream_id)
        return stream.context.server if stream is not None else None

    def make_stream(self, stream_id: int) -> layer.CommandGenerator[None]:
        self._break_cycles()
        context = self.context.fork()
        self.streams[stream_id] = stream = FeedStream(context, stream_id, self._flow_handler, self._head_timeout)
        self._streams.append(stream)
        yield from self.event_to_child(stream, events.Start())


def _valid_trailers(trailers: http.Headers) -> http.Headers:
    """Return the trailer fields without those that violate the grammar of fields."""
    return http.Headers([line for line in trailers.fields if field_lines.is_field_line(b":".join(line))])


def install(
    chosen: layer.NextLayer,
    flow_handler: FlowHandler,
    backpressure: WriteBackpressure,
    *,
    head_max: int,
    head_timeout: Seconds,
) -> None:
    """Replace mitmproxy's HTTP layer in `chosen` by a FeedLayer with these limits."""
    outer: layer.Layer | None = None
    inner = chosen.layer
    while inner is not None and type(inner) is not HttpLayer:
        outer, inner = inner, getattr(inner, "child_layer", None)
    if inner is None:
        return
    inner.context.layers.remove(inner)
    feed_layer = FeedLayer(
        inner.context, inner.mode, flow_handler, backpressure, head_max=head_max, head_timeout=head_timeout
    )
    if outer is None:
        chosen.layer = feed_layer
    else:
        outer.child_layer = feed_layer  # type: ignore[attr-defined]  # every layer that has one declares it
