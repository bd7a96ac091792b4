"""The timeout of content that is read before the response: for endpoints, and of refused requests."""

import asyncio
from collections.abc import Iterable
from typing import cast

import pytest
from mitmproxy import http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.connection import Client
from mitmproxy.proxy import commands, context, events
from mitmproxy.proxy.layers.http import HTTPMode
from mitmproxy.test import taddons

from feedproxy.clock import ManualClock
from feedproxy.errors import FeedproxyError
from feedproxy.request.endpoint_registry import CONTENT_MAX
from feedproxy.server.mitm.backpressure import WriteBackpressure
from feedproxy.server.mitm.flow_handler import FlowHandler
from feedproxy.server.mitm.http_layer import FeedLayer
from tests.server.timed_wire import TimedWire
from tests.stages.play import OnProxy
from tests.waiting import PATIENCE

HEAD = b"POST /-/RPC2 HTTP/1.1\r\nHost: us\r\nContent-Length: %d\r\n\r\n"


class Responses:
    """The responses of a stream. A refusal has no content."""

    def make_error_page(self, flow: http.HTTPFlow, reason: str) -> http.Response:
        return http.Response.make(502)

    def interim_responses(self, flow: http.HTTPFlow) -> Iterable[http.Response]:
        return []

    def streamed_interim_response(self, flow: http.HTTPFlow, response: http.Response) -> http.Response | None:
        return response

    def refuse(self, flow: http.HTTPFlow, error: FeedproxyError) -> None:
        flow.response = http.Response.make(error.status_hint)

    def count_unreadable(self, client: Client, status: int, page: bytes) -> None:
        pass

    def reserve_content(self, flow: http.HTTPFlow, size: int) -> None:
        pass


class Wire(TimedWire):
    """A connection to the HTTP layer. An endpoint answers 204 to complete requests."""

    MODULE = "feedproxy.server.mitm.http_layer"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, head_timeout: float) -> None:
        super().__init__(monkeypatch)
        self.client.alpn = b"http/1.1"
        tctx = taddons.context(Proxyserver())
        made = context.Context(self.client, tctx.options)
        responses, backpressure = Responses(), WriteBackpressure()
        self.layer = FeedLayer(
            made,
            HTTPMode.regular,
            cast("FlowHandler", responses),
            backpressure,
            head_max=65_536,
            head_timeout=head_timeout,
        )
        self.play(events.Start())

    def handle(self, event: events.Event) -> Iterable[commands.Command]:
        return self.layer.handle_event(event)

    def on_hook(self, command: commands.StartHook) -> None:
        (flow,) = command.args()
        if command.name == "request":
            flow.response = http.Response.make(204)
        self.play(events.HookCompleted(command))


def test_content_that_arrives_byte_by_byte_gets_408(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 15)
    wire.says(HEAD % 1000)
    for _ in range(14):
        wire.advance(1)
        wire.says(b"a")
    assert not wire.sent

    wire.advance(1)

    assert wire.sent.startswith(b"HTTP/1.1 408 ")


def test_large_content_has_the_timeout_for_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 15)
    wire.says(HEAD % (10 * CONTENT_MAX))
    for _ in range(9):
        wire.advance(14)
        wire.says(bytes(CONTENT_MAX))
    assert not wire.sent

    wire.advance(15)

    assert wire.sent.startswith(b"HTTP/1.1 408 ")


def test_complete_content_has_no_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 15)
    for _ in range(3):
        wire.says(HEAD % 10 + b"0123")
        wire.advance(4)
        wire.says(b"456789")

    wire.advance(3_600)

    assert wire.sent.count(b"HTTP/1.1 204 ") == 3
    assert b"408" not in wire.sent
    assert wire.alarms == []


def test_connection_has_one_alarm_for_content(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 15)
    for _ in range(50):
        wire.says(HEAD % 4 + b"12")
        wire.says(b"34")

    assert len(wire.alarms) == 1


@pytest.mark.parametrize(("head_timeout", "content"), [(0, b"a"), (15, b"")])
def test_request_without_content_or_with_head_timeout_0_sets_no_alarm(
    monkeypatch: pytest.MonkeyPatch, head_timeout: float, content: bytes
) -> None:
    wire = Wire(monkeypatch, head_timeout)

    wire.says(HEAD % (2 * len(content)) + content)

    assert wire.alarms == []


async def test_slow_content_of_a_ping_is_refused_by_the_whole_proxy() -> None:
    stage = OnProxy(ManualClock(1_800_000_000.0), {"head_timeout": 1})
    await stage.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(stage.base.rpartition(":")[2]))
    writer.write(HEAD % 1000 + b"a")

    answer = await asyncio.wait_for(reader.read(), PATIENCE)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"content of this request did not come in time" in answer
    writer.close()
    await stage.close()
