"""Clients that disconnect while their request is being processed leave no state behind."""

import asyncio
import socket
import struct
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest
from mitmproxy.options import Options
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http._events import ErrorCode, RequestProtocolError, ResponseProtocolError
from mitmproxy.proxy.layers.tcp import TCPLayer
from mitmproxy.test import tflow

from feedproxy.clock import ManualClock
from feedproxy.server.mitm.flow_handler import get_flow_handler
from feedproxy.server.mitm.http_layer import FeedStream
from feedproxy.telemetry.metrics_aggregation import exposition
from tests.server.conftest import Opened, until
from tests.stages.play import OnProxy


@pytest.mark.parametrize("method", ["CONNECT", "POST"])
async def test_client_that_disconnects_during_a_name_lookup_leaves_no_state(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    stage = OnProxy(ManualClock(1_800_000_000.0), {})
    await stage.open()
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow(host: str, port: int) -> Sequence[str]:
        asked.set()
        await answer.wait()
        return ["127.0.0.1"]

    at = get_flow_handler(stage.app)
    policy = stage.app.parts.connect_policy if method == "CONNECT" else stage.app.parts.policy
    monkeypatch.setattr(policy, "resolve", slow)
    _, writer = await asyncio.open_connection("127.0.0.1", int(stage.base.rpartition(":")[2]))
    target = "slow.example:443" if method == "CONNECT" else "http://slow.example/"
    writer.write(f"{method} {target} HTTP/1.1\r\nHost: slow.example\r\nContent-Length: 0\r\n\r\n".encode())
    await asked.wait()

    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    while stage.app.connections:  # noqa: ASYNC110 -- no event to wait for
        await asyncio.sleep(0)
    answer.set()
    for _ in range(50):
        await asyncio.sleep(0)

    assert not at.connect_approvals.approved
    assert not at.connect_approvals.tunnels
    assert not at._flows_of_client
    await stage.close()


@pytest.mark.parametrize("ordinary", [False, True], ids=["fast path", "mitmproxy"])
async def test_client_that_disconnects_before_a_slow_response_is_logged_once(
    front: Opened, caplog: pytest.LogCaptureFixture, *, ordinary: bool
) -> None:
    caplog.set_level("INFO", "feedproxy.access")
    proxy = await front(log_format="text")
    proxy.origin.gate = asyncio.Event()
    base = proxy.stage.ordinary if ordinary else proxy.stage.base
    _, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.write(proxy.get())
    await proxy.origin.asked()

    writer.transport.abort()
    await until(lambda: proxy.stage.app.connections == 0 or ordinary)
    proxy.origin.gate.set()
    await until(lambda: any("/feed.rss" in each for each in caplog.messages))

    (line,) = (each for each in caplog.messages if "/feed.rss" in each)
    assert " 0 0 " in line
    assert line.endswith("the client disconnected before the response")
    await until(lambda: not proxy.stage.app.requests and not get_flow_handler(proxy.stage.app)._flows)
    assert b'status="0"' in exposition(proxy.stage.app.metrics.families())


async def test_task_cancelled_before_its_first_step_does_not_delay_the_drain(
    front: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain waits for responses in progress.

    A task that is cancelled before its first step executes none of its code.
    """
    proxy = await front()
    monkeypatch.setattr("feedproxy.server.fastpath.handler.PREEMPT_AFTER", -1.0)
    dropped: list[object] = []

    settle = proxy.listener.update_interest

    def drop(reader: Any) -> None:
        if reader.task is None:
            settle(reader)
            return
        dropped.append(reader)
        reader.task.cancel()
        proxy.listener.close_connection(reader)

    monkeypatch.setattr(proxy.listener, "update_interest", drop)
    line = await proxy.line()
    await line.say(proxy.get("/page"))
    await until(lambda: bool(dropped))

    await until(lambda: not proxy.stage.app.fastpath_requests)


@pytest.mark.parametrize("error", [RequestProtocolError, ResponseProtocolError])
def test_error_of_http_ends_a_tunnel_without_a_traceback(
    error: type[RequestProtocolError | ResponseProtocolError],
) -> None:
    """mitmproxy passes the error to the layer of the tunnel, which knows only bytes."""
    client = tflow.tclient_conn()
    context = Context(client, Options())
    stream = FeedStream(context, 1, Mock(), content_timeout=0)
    stream.flow = tflow.tflow(resp=True)
    stream.child_layer = tunnel = TCPLayer(context, ignore=True)
    tunnel._handle_event = tunnel.done

    assert list(stream.passthrough(error(1, "client disconnected", ErrorCode.CLIENT_DISCONNECTED))) == []
