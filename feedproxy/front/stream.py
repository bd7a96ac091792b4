"""A listening side that remembers what mitmproxy forgets.

Three things are lost in mitmproxy 12's HTTP layer before the first hook runs, and each is needed here:

* whether a request came in absolute-form or origin-form (RFC 9112, section 3.2): the first is for the explicit proxy,
  the second for us;
* an HTTP/1.0 request without Host, which it refuses though HTTP/1.0 knows no Host: it is for us as well;
* that a failure on the way upstream must not be told with mitmproxy's own page.

So the layer is subclassed, at the two methods where these things are still there.
"""

from collections.abc import Callable

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

ABSOLUTE_FORM = "feedproxy.absolute-form"
"""Key in `flow.metadata`: the request's target was written in absolute-form."""

type ErrorPage = Callable[[http.HTTPFlow, str], http.Response]
"""Makes the answer for a flow whose way upstream failed, from mitmproxy's own words about it."""


class FeedStream(HttpStream):
    """One request and its answer."""

    error_page: ErrorPage | None = None

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


class FeedLayer(HttpLayer):
    """mitmproxy's HTTP layer with our streams in it."""

    stream: type[FeedStream] = FeedStream

    def make_stream(self, stream_id: int) -> layer.CommandGenerator[None]:
        context = self.context.fork()
        self.streams[stream_id] = self.stream(context, stream_id)
        yield from self.event_to_child(self.streams[stream_id], events.Start())


def install(chosen: layer.NextLayer, stream: type[FeedStream]) -> None:
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
    if above is None:
        chosen.layer = ours
    else:
        above.child_layer = ours  # type: ignore[attr-defined]  # every layer that has one declares it
