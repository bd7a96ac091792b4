"""A listening side that remembers what mitmproxy forgets.

Three things are lost in mitmproxy 12's HTTP layer before the first hook runs, and each is needed here:

* whether a request came in absolute-form or origin-form (RFC 9112, section 3.2): the first is for the explicit proxy,
  the second for us;
* an HTTP/1.0 request without Host, which it refuses though HTTP/1.0 knows no Host: it is for us as well;
* that a failure on the way upstream must not be told with mitmproxy's own page.

So the layer is subclassed, at the two methods where these things are still there. And a request's head has a limit
here, which mitmproxy does not give it: h11 stops at 16 KiB, Tomcat at 8, node at 16; ours is `header_max`.
"""

from collections.abc import Callable, Iterable

from mitmproxy import http
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http import HttpLayer, HttpStream, SendHttp
from mitmproxy.proxy.layers.http._events import (
    RequestProtocolError,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._http1 import Http1Server

ABSOLUTE_FORM = "feedproxy.absolute-form"
"""Key in `flow.metadata`: the request's target was written in absolute-form."""

type ErrorPage = Callable[[http.HTTPFlow, str], http.Response]
"""Makes the answer for a flow whose way upstream failed, from mitmproxy's own words about it."""

type InterimOf = Callable[[http.HTTPFlow], Iterable[http.Response]]
"""The 1xx responses to send before a flow's answer."""


class FeedStream(HttpStream):
    """One request and its answer."""

    error_page: ErrorPage | None = None
    interim_of: InterimOf = staticmethod(lambda _: ())

    def check_invalid(self, request: bool) -> layer.CommandGenerator[bool]:
        if request:
            self.flow.metadata[ABSOLUTE_FORM] = bool(self.flow.request.data.authority)
            if self._has_no_host() and self.context.client.sockname:
                address, port, *_ = self.context.client.sockname
                self.flow.request.headers["Host"] = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        return (yield from super().check_invalid(request))

    def _has_no_host(self) -> bool:
        request = self.flow.request
        return (
            request.http_version == "HTTP/1.0"
            and request.method != "CONNECT"
            and not request.data.host
            and not request.host_header
        )

    def send_response(self, already_streamed: bool = False) -> layer.CommandGenerator[None]:
        # RFC 9110, 15.2: a proxy forwards 1xx responses; HTTP/1.0 knows none.
        if self.flow.request.http_version != "HTTP/1.0":
            for interim in self.interim_of(self.flow):
                yield SendHttp(ResponseHeaders(self.stream_id, interim, False), self.context.client)
        yield from super().send_response(already_streamed)

    def handle_protocol_error(
        self, event: RequestProtocolError | ResponseProtocolError
    ) -> layer.CommandGenerator[None]:
        steps = super().handle_protocol_error(event)
        result: object = None
        while True:
            try:
                command = steps.send(result)
            except StopIteration:
                return
            if self._tells_the_reader(command):
                yield from self._own_page(event.message)
                result = None
            else:
                result = yield command

    def _tells_the_reader(self, command: commands.Command) -> bool:
        return (
            isinstance(command, SendHttp)
            and isinstance(command.event, ResponseProtocolError)
            and command.connection is self.context.client
            and self.error_page is not None
            and self.flow.response is None
        )

    def _own_page(self, words: str) -> layer.CommandGenerator[None]:
        assert self.error_page is not None
        response = type(self).error_page(self.flow, words)  # type: ignore[misc]
        body = response.raw_content or b""
        yield SendHttp(ResponseHeaders(self.stream_id, response, not body), self.context.client)
        if body:
            yield SendHttp(ResponseData(self.stream_id, body), self.context.client)
        yield SendHttp(ResponseEndOfMessage(self.stream_id), self.context.client)
        self.client_state = self.state_errored


class CappedServer(Http1Server):
    """Reads requests whose heads are no longer than `head_max` bytes; a longer one is 431, and the end."""

    head_max = 65_536

    def read_headers(self, event: events.ConnectionEvent) -> layer.CommandGenerator[None]:
        if isinstance(event, events.DataReceived) and self._is_too_long():
            body = b"The head of this request is too long."
            head = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Type: text/plain\r\n"
            yield commands.SendData(self.conn, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            yield commands.CloseConnection(self.conn)
            self.state = self.done
            return
        yield from super().read_headers(event)

    def _is_too_long(self) -> bool:
        held = bytes(self.buf)
        end = held.find(b"\r\n\r\n")
        return (end if end >= 0 else len(held)) > self.head_max


class FeedLayer(HttpLayer):
    """mitmproxy's HTTP layer with our streams in it."""

    stream: type[FeedStream] = FeedStream
    head_max = CappedServer.head_max

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.Start) and self.context.client.alpn not in (b"h2", b"h3"):
            server = CappedServer(self.context.fork())
            server.head_max = self.head_max
            self.connections[self.context.client] = server
        yield from super()._handle_event(event)

    def make_stream(self, stream_id: int) -> layer.CommandGenerator[None]:
        context = self.context.fork()
        self.streams[stream_id] = self.stream(context, stream_id)
        yield from self.event_to_child(self.streams[stream_id], events.Start())


def install(chosen: layer.NextLayer, stream: type[FeedStream], head_max: int) -> None:
    """Exchange mitmproxy's plain HTTP layer for ours in what was chosen as the next layer."""
    above: layer.Layer | None = None
    here = chosen.layer
    while here is not None and type(here) is not HttpLayer:
        above, here = here, getattr(here, "child_layer", None)
    if here is None:
        return
    here.context.layers.remove(here)
    ours = FeedLayer(here.context, here.mode)
    ours.stream = stream
    ours.head_max = head_max
    if above is None:
        chosen.layer = ours
    else:
        above.child_layer = ours  # type: ignore[attr-defined]  # every layer that has one declares it
