"""Request content that is not read: its sender gets the response at once and the connection ends."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from feedproxy.server.fastpath import tls_relay_to_mitmproxy
from feedproxy.server.mitm import http1_limits_and_corrections
from feedproxy.telemetry.metrics_aggregation import exposition
from tests.server.conftest import Front, Line, Opened, until
from tests.server.test_client_tls_connection import line_to, secured
from tests.waiting import PATIENCE

LARGE = 5_000_000
"""Bytes of content, more than the system buffers before the proxy reads."""

SHAPES = ("content-length", "chunked")


def a_post(size: int, *fields: str, path: str = "/-/RPC2", chunked: bool = False) -> tuple[bytes, list[bytes]]:
    """Return the head and the content in pieces."""
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    head = "\r\n".join([f"POST {path} HTTP/1.1", "Host: proxy.example", framing, *fields, "", ""]).encode()
    pieces = [bytes(min(50_000, size - at)) for at in range(0, size, 50_000)]
    if chunked:
        pieces = [b"%x\r\n%s\r\n" % (len(each), each) for each in pieces] + [b"0\r\n\r\n"]
    return head, pieces


async def line_at(proxy: Front, *, ordinary: bool) -> Line:
    base = proxy.stage.ordinary if ordinary else proxy.stage.base
    made = Line(*await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2])))
    proxy.lines.append(made)
    return made


async def send_all(line: Line, pieces: list[bytes]) -> None:
    """Send all pieces before reading. The proxy may close the connection after it has discarded data for some time."""
    with contextlib.suppress(ConnectionError):
        for each in pieces:
            await line.say(each)


@pytest.mark.parametrize("ordinary", [False, True], ids=["fast path", "mitmproxy"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [70_000, LARGE])
async def test_oversized_content_sent_at_once_gets_413(front: Opened, size: int, shape: str, *, ordinary: bool) -> None:
    proxy = await front()
    line = await line_at(proxy, ordinary=ordinary)
    assert (await line.ask(proxy.get())).status == 200
    head, pieces = a_post(size, chunked=shape == "chunked")

    await asyncio.wait_for(send_all(line, [head, *pieces]), PATIENCE)
    answer = await line.hear()

    assert (answer.status, answer.fields["connection"]) == (413, "close")
    assert b"65536 bytes" in answer.body
    assert "detail=content-too-large" in answer.cache
    assert await line.ended()


@pytest.mark.parametrize("ordinary", [False, True], ids=["fast path", "mitmproxy"])
async def test_expect_100_continue_with_oversized_content_is_refused_before_it_is_sent(
    front: Opened, *, ordinary: bool
) -> None:
    proxy = await front()
    line = await line_at(proxy, ordinary=ordinary)
    head, _ = a_post(70_000, "Expect: 100-continue")

    answer = await line.ask(head)

    assert answer.status == 413
    assert await line.ended()


@pytest.mark.parametrize("ordinary", [False, True], ids=["fast path", "mitmproxy"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_content_for_an_unknown_endpoint_gets_its_response_at_once(
    front: Opened, shape: str, *, ordinary: bool
) -> None:
    proxy = await front()
    line = await line_at(proxy, ordinary=ordinary)
    head, pieces = a_post(LARGE, path="/-/nothing-here", chunked=shape == "chunked")

    answer = await line.ask(head)

    assert answer.status == 404
    await asyncio.wait_for(send_all(line, pieces), PATIENCE)
    assert await line.ended()


async def test_chunked_content_is_read_up_to_the_limit(front: Opened) -> None:
    proxy = await front()
    line = await proxy.line()
    head, pieces = a_post(60_000, chunked=True)

    await send_all(line, [head, *pieces])

    assert (await line.hear()).status == 200
    assert (await line.ask(proxy.get())).status == 200


async def test_oversized_content_under_tls_gets_413(front: Opened, tmp_path: Path) -> None:
    proxy, context = await secured(front, tmp_path)
    line = await line_to(proxy, context)
    head, pieces = a_post(LARGE)

    await asyncio.wait_for(send_all(line, [head, *pieces]), PATIENCE)

    assert (await line.hear()).status == 413
    assert await line.ended()


async def test_refused_content_is_logged_and_counted(front: Opened, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "feedproxy.access")
    proxy = await front(log_format="text")
    line = await proxy.line()

    await line.ask(a_post(70_000, "Expect: 100-continue")[0])

    assert any(" POST /-/RPC2 413 " in each for each in caplog.messages)
    assert b'status="413"' in exposition(proxy.stage.app.metrics.families())


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
async def test_client_that_never_stops_sending_is_disconnected(
    front: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, secure: bool
) -> None:
    monkeypatch.setattr(http1_limits_and_corrections, "LINGERING_TIME", 0.05)
    for name in ("LINGERING_TIME", "LINGERING_QUIET_TIME"):
        monkeypatch.setattr(tls_relay_to_mitmproxy, name, 0.05)
    if secure:
        proxy, context = await secured(front, tmp_path)
        line = await line_to(proxy, context)
    else:
        proxy = await front()
        line = await proxy.line()
    head, _ = a_post(LARGE)
    assert (await line.ask(head)).status == 413

    async def go_on() -> None:
        while True:
            await line.say(bytes(10_000))
            await asyncio.sleep(0.01)

    with pytest.raises(ConnectionError):
        await asyncio.wait_for(go_on(), PATIENCE)
    await until(lambda: proxy.stage.app.connections == 0)
