"""Bounds on the memory that one connection can make the proxy use."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from feedproxy.clock import ManualClock
from feedproxy.http.target_uri.gateway_path import gateway_path
from feedproxy.request.endpoint_registry import CONTENT_MAX
from feedproxy.server.mitm import backpressure
from feedproxy.server.mitm.interception_certificates_and_alpn import TlsConfig
from feedproxy.telemetry.metrics import answered_count
from tests.stages.play import UPSTREAM, OnProxy
from tests.waiting import PATIENCE

LARGE = bytes(8_000_000)
"""Content larger than the system's buffers for a client that does not read."""


@pytest.fixture
async def proxy() -> AsyncIterator[OnProxy]:
    stage = OnProxy(ManualClock(1_800_000_000.0), {})
    await stage.open()
    yield stage
    await stage.close()


async def connect(stage: OnProxy, **tls: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(stage.base.rpartition(":")[2]), **tls)


def a_request(stage: OnProxy, path: str, *lines: str) -> bytes:
    target = gateway_path(stage.origin.url(path))
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: proxy.example", *lines, "", ""]).encode()


async def test_pipelined_request_is_not_processed_before_the_previous_response_is_read(proxy: OnProxy) -> None:
    proxy.origin.publish("/large", LARGE, content_type="application/octet-stream", cache_control="max-age=60")
    _, writer = await connect(proxy)
    writer.write(b"".join(a_request(proxy, "/large", f"Range: bytes={each}-") for each in range(100)))
    await writer.drain()

    others, asking = await connect(proxy)
    for _ in range(150):
        asking.write(a_request(proxy, "/robots"))
        head = await others.readuntil(b"\r\n\r\n")
        await others.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))

    assert answered_count(proxy.app.metrics.families()) <= 150 + 2
    for each in (writer, asking):
        each.close()


async def test_client_that_pipelines_too_many_bytes_is_disconnected(proxy: OnProxy) -> None:
    proxy.origin.gate = asyncio.Event()
    _, writer = await connect(proxy)
    writer.write(a_request(proxy, "/slow"))
    await proxy.origin.asked()

    async def go_on() -> None:
        for _ in range(100):
            writer.write(bytes(1_000_000))
            await writer.drain()

    with pytest.raises(ConnectionError):
        await go_on()
    proxy.origin.gate.set()


class Client:
    id = "somebody"
    peername = ("192.0.2.1", 1)


async def test_unsent_data_is_discarded_some_time_after_the_client_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backpressure, "UNSENT_OUTPUT_TIME", 0)
    came: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda _, writer: came.set_result(writer), "127.0.0.1", 0)
    reader, writing = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer, client, held = await came, Client(), backpressure.WriteBackpressure()
    handler = SimpleNamespace(transports={client: SimpleNamespace(writer=writer)})
    held.on_client_connected(client, SimpleNamespace(connections={client.id: handler}))
    writer.write(LARGE)
    assert not await held.wait_drained(client.id, 0.01)
    writer.close()

    held.on_client_disconnected(client.id)

    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(len(LARGE))
    writing.close()
    server.close()


async def ask_by_http2(
    stage: OnProxy, *, end_stream: bool, authority: str = "feeds.example"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, h2.connection.H2Connection]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    reader, writer = await connect(stage, ssl=context, server_hostname="feeds.example")
    http2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    http2.initiate_connection()
    head = [(":method", "GET"), (":path", "/page"), (":scheme", "https"), (":authority", authority)]
    http2.send_headers(1, head, end_stream=end_stream)
    writer.write(http2.data_to_send())
    return reader, writer, http2


@pytest.fixture
async def publisher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OnProxy]:
    """Yield a proxy that offers HTTP/2 outside of tunnels, as it does under mitmdump."""
    monkeypatch.delattr(TlsConfig, "tls_start_client")
    stage = OnProxy(ManualClock(1_800_000_000.0), {"upstream": UPSTREAM, "confdir": str(tmp_path)})
    await stage.open()
    yield stage
    await stage.close()


async def test_http2_content_of_unknown_length_is_refused_at_the_limit(publisher: OnProxy) -> None:
    """HTTP/2 requires no Content-Length, so a GET with content looks like a GET without content."""
    reader, writer, http2 = await ask_by_http2(publisher, end_stream=False)
    ended, sent, seen = False, 0, list[h2.events.Event]()
    while not ended:
        size = min(http2.local_flow_control_window(1), http2.max_outbound_frame_size)
        if size and sent <= 2 * CONTENT_MAX:
            http2.send_data(1, bytes(size))
            writer.write(http2.data_to_send())
            sent += size
            continue
        found = http2.receive_data(await asyncio.wait_for(reader.read(65_536), PATIENCE))
        seen += found
        ended = any(isinstance(each, h2.events.StreamReset) for each in found)

    (answer,) = (each for each in seen if isinstance(each, h2.events.ResponseReceived))
    (reset,) = (each for each in seen if isinstance(each, h2.events.StreamReset))
    assert (dict(answer.headers)[b":status"], reset.error_code) == (b"413", 0)
    assert publisher.origin.requests == 0
    writer.close()


@pytest.mark.parametrize("authority", ["feeds.example", "feeds.example:"])
async def test_http2_authority_with_a_publishers_host_name_selects_the_publishers_origin(
    publisher: OnProxy, authority: str
) -> None:
    """:authority corresponds to Host."""
    publisher.origin.publish("/page", b"hello", content_type="text/plain")
    reader, writer, http2 = await ask_by_http2(publisher, end_stream=True, authority=authority)

    answers: list[h2.events.ResponseReceived] = []
    while not answers:
        found = http2.receive_data(await asyncio.wait_for(reader.read(65_536), PATIENCE))
        answers = [each for each in found if isinstance(each, h2.events.ResponseReceived)]

    assert dict(answers[0].headers)[b":status"] == b"200"
    writer.close()
