"""Access log and metrics of streamed requests, failed requests and tunnels."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from feedproxy.clock import ManualClock
from feedproxy.http.message import Fields, Response
from feedproxy.telemetry.metrics import answered_count
from tests.stages.play import OnProxy, Proxy
from tests.waiting import PATIENCE

type Opened = Callable[..., Awaitable[tuple[Proxy, OnProxy]]]


@pytest.fixture
async def opened(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Opened]:
    """Yield a function that opens a whole proxy with the given settings, with its access log captured."""
    caplog.set_level(logging.INFO, logger="feedproxy")
    made: list[OnProxy] = []

    async def open_with(**settings: Any) -> tuple[Proxy, OnProxy]:
        stage = OnProxy(ManualClock(1_800_000_000.0), {"log_format": "text", **settings})
        await stage.open()
        made.append(stage)
        return Proxy(stage), stage

    yield open_with
    for each in made:
        await each.close()


def counted(stage: OnProxy, name: str, **labels: str) -> float:
    return stage.app.metrics.registry.get_sample_value(name, labels) or 0.0


async def lines(caplog: pytest.LogCaptureFixture, number: int = 1) -> list[str]:
    """Return the lines of the access log as soon as there are `number` of them."""

    def logged() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "feedproxy.access"]

    async with asyncio.timeout(PATIENCE):
        while len(logged()) < number:  # noqa: ASYNC110 -- no event to wait for
            await asyncio.sleep(0)
    return logged()


def closed_address() -> str:
    """Return an address on which no process listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}/"


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_failed_pass_through_is_logged_once_with_status_and_size_of_the_response(
    opened: Opened, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    proxy, stage = await opened()

    seen = await proxy.ask("/" + closed_address(), method=method)

    (line,) = await lines(caplog)
    assert seen.status == 502
    assert seen.cache == "feedproxy; fwd=method; detail=unreachable"
    assert f" 502 {len(seen.body)} " in line
    assert f"[{seen.cache}]" in line
    told = {"entrance": "gateway", "outcome": "fwd=method", "detail": "unreachable", "status": "502"}
    assert counted(stage, "feedproxy_requests_total", **told) == 1
    assert stage.app.metrics.tally().requests_saved == 0


async def test_streamed_large_body_whose_second_fetch_fails_is_logged_as_a_failure(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    proxy, stage = await opened(buffer_max=1024)
    stage.origin.publish("/large", b"x" * 5000, content_type="text/plain")
    await proxy.get("/large")
    stage.origin.break_down()

    seen = await proxy.get("/large")

    line = (await lines(caplog, 2))[-1]
    assert seen.status == 502
    assert seen.cache == "feedproxy; fwd=bypass; detail=unreachable"
    assert f" 502 {len(seen.body)} " in line
    assert f"[{seen.cache}]" in line


async def test_streamed_bodies_are_logged_and_counted_with_their_sizes(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    proxy, stage = await opened(buffer_max=1024)
    stage.origin.publish("/large", b"x" * 50_000, content_type="text/plain")
    stage.origin.methods["POST"] = lambda _: Response(200, Fields([("Content-Type", "text/plain")]), b"y" * 300)

    await proxy.get("/large")
    await proxy.send("POST", "/form", body=b"a=1")

    large, form = await lines(caplog, 2)
    assert " 200 50000 " in large
    assert " 200 300 " in form
    assert counted(stage, "feedproxy_response_bytes_total", entrance="gateway", source="stream") == 50_300


async def connect(stage: OnProxy, authority: str) -> bytes:
    """Return the head of the response to CONNECT."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(stage.base.rpartition(":")[2]))
    try:
        writer.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    finally:
        writer.close()


async def test_tunnel_is_logged_and_counted(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    _, stage = await opened()
    authority = stage.origin.base.removeprefix("http://")

    head = await connect(stage, authority)

    (line,) = await lines(caplog)
    assert head.startswith(b"HTTP/1.1 200 ")
    assert f" connect CONNECT {authority} 200 0 " in line
    told = {"entrance": "connect", "outcome": "tunnel", "detail": "pass-through", "status": "200"}
    assert counted(stage, "feedproxy_requests_total", **told) == 1
    assert stage.app.requests == 0


async def test_decrypted_connect_is_counted_separately(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    _, stage = await opened(intercept=["127.0.0.1"])

    await connect(stage, stage.origin.base.removeprefix("http://"))

    await lines(caplog)
    told = {"entrance": "connect", "outcome": "intercept", "detail": "", "status": "200"}
    assert counted(stage, "feedproxy_requests_total", **told) == 1


async def test_refused_connect_is_logged_and_counted(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    _, stage = await opened(allow_private=False)

    head = await connect(stage, "127.0.0.1:443")

    (line,) = await lines(caplog)
    assert head.startswith(b"HTTP/1.1 403 ")
    assert " connect CONNECT 127.0.0.1:443 403 " in line
    assert "[feedproxy; detail=forbidden-address]" in line
    told = {"entrance": "connect", "outcome": "refused", "detail": "forbidden-address", "status": "403"}
    assert counted(stage, "feedproxy_requests_total", **told) == 1
    assert stage.app.requests == 0


async def test_log_line_of_a_response_that_is_no_feed_and_not_stored_gives_the_reason(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    proxy, stage = await opened()
    stage.origin.publish("/private", b"x", content_type="text/plain", cache_control="no-store")

    await proxy.get("/nowhere")
    await proxy.get("/private")

    nowhere, private = await lines(caplog, 2)
    assert "not stored: a 404 with no lifetime" in nowhere
    assert "not stored: no-store" in private


@pytest.mark.parametrize("target", ["/-/RPC2", "/http://127.0.0.1:9/form"])
@pytest.mark.parametrize(
    "content", [b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"Content-Length: 5\r\n\r\nabc"], ids=["chunks", "length"]
)
async def test_unreadable_content_is_logged_and_counted_with_the_status_of_the_response(
    opened: Opened, caplog: pytest.LogCaptureFixture, target: str, content: bytes
) -> None:
    _, stage = await opened()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(stage.base.rpartition(":")[2]))

    writer.write(b"POST %s HTTP/1.1\r\nHost: a\r\n" % target.encode() + content)
    writer.write_eof()
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    writer.close()

    (line,) = await lines(caplog)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert " 400 " in line
    assert line.endswith("The content of this request breaks off, or its chunks cannot be read.")
    told = {"entrance": "gateway", "outcome": "own", "detail": "bad-request", "status": "400"}
    assert counted(stage, "feedproxy_requests_total", **told) == 1
    assert stage.app.requests == 0


async def test_unknown_format_of_a_conversion_is_not_named_in_the_reason(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    proxy, _ = await opened()

    await proxy.ask("/-/as/s3cr3tw0rd/http://127.0.0.1/feed")

    (line,) = await lines(caplog)
    assert "s3cr3tw0rd" not in line.partition(" 404 ")[2]


async def test_forbidden_target_is_not_counted_as_an_origin_request(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    proxy, stage = await opened(allow_private=False)

    (await proxy.ask("/http://127.0.0.1/feed")).expect(403, cache="detail=forbidden-address")

    await lines(caplog)
    metrics = stage.app.metrics
    counts = metrics.tally()
    assert answered_count(metrics.families()) == 1
    assert (counts.fetches, counts.failures, counts.requests_saved) == (0, 0, 0)


@pytest.mark.parametrize("target", ["http://127.0.0.1/feed", "http://example.com:25/feed", "http://2130706433/"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_refusal_page_gives_the_reason_once(opened: Opened, target: str, method: str) -> None:
    proxy, _ = await opened(allow_private=False)

    seen = (await proxy.ask("/" + target, method=method, accept="text/html")).expect(403)

    text = seen.body.decode()
    assert "<h1>Blocked by this proxy</h1>" in text
    assert "may not be reached" not in text
