"""Layers of mitmproxy keep no memory after their connection has ended, even before a garbage collection."""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from mitmproxy.http import HTTPFlow
from mitmproxy.proxy.layer import Layer, NextLayer

from feedproxy.http.message import Fields, Response
from feedproxy.server.mitm.memory_of_ended_connections import RETRY_FIRST, RETRY_LAST, CycleFreeHandler
from tests.server.conftest import Front, Opened, until

TIMES = 10


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def live_layers() -> Counter[str]:
    """Return the number of live layers with state, for each class. NextLayer is not counted."""
    found = (each for each in gc.get_objects() if isinstance(each, Layer) and not isinstance(each, NextLayer))
    return Counter(type(each).__name__ for each in found if each.__dict__)


async def post(proxy: Front) -> None:
    line = await proxy.line()
    assert (await line.ask(proxy.get("/p", "Content-Length: 4", method="POST") + b"data")).status == 200
    line.writer.close()
    await line.writer.wait_closed()


async def refused(proxy: Front) -> None:
    line = await proxy.line()
    await line.say(b"GET / HTTP/9.9\r\nBroken\r\n\r\n")
    await line.reader.read()
    line.writer.close()
    await line.writer.wait_closed()


async def tunnel(proxy: Front) -> None:
    """Send a request through CONNECT and close the connection."""
    authority = proxy.origin.base.removeprefix("http://")
    line = await proxy.line()
    await line.say(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
    assert b" 200 " in await line.reader.readuntil(b"\r\n\r\n")
    await line.say(f"GET /feed.rss HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
    assert await line.reader.readuntil(b"\r\n")
    line.writer.close()
    await line.writer.wait_closed()


@pytest.mark.parametrize("visit", [post, refused, tunnel], ids=lambda each: each.__name__)
async def test_ended_connection_leaves_no_layers(front: Opened, visit) -> None:
    proxy = await front(allow_private=True, connect_ports=["443", "1025-65535"])
    proxy.origin.methods["POST"] = lambda _: Response(200, Fields([("Content-Length", "2")]), b"ok")
    for _ in range(2):
        await visit(proxy)
    held = live_layers()

    for _ in range(TIMES):
        await visit(proxy)
        proxy.lines.clear()
    await until(lambda: not proxy.stage.app.connections)
    for _ in range(50):
        await asyncio.sleep(0)

    # The last connection may still be closing.
    grown = {name: many for name, many in (live_layers() - held).items() if many > TIMES // 2}
    assert not grown, repr(grown)


async def test_idle_connection_keeps_no_response(front: Opened) -> None:
    size = 1_000_000
    proxy = await front(memory_max=4 * size)
    lines = [await proxy.line() for _ in range(TIMES)]
    for number, line in enumerate(lines):
        body = b"%d" % number * size
        proxy.origin.publish(f"/{number}", body, content_type="text/plain", cache_control="max-age=60")
        assert (await line.ask(proxy.get(f"/{number}", "Upgrade: unknown"))).body == body
    for _ in range(50):
        await asyncio.sleep(0)

    held = [each for each in gc.get_objects() if isinstance(each, HTTPFlow) and each.response is not None]
    assert not held
    assert proxy.stage.app.connections == TIMES


@pytest.mark.parametrize("attempts", [1, 3, 100])
async def test_cycles_are_broken_after_a_request_that_outlives_its_connection(
    attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, waits = list[bool](), list[float]()

    def attempt(_: CycleFreeHandler) -> bool:
        made.append(len(made) + 1 == attempts)
        return made[-1]

    def call_later(seconds: float, retry: Callable[[float], None], wait: float) -> None:
        waits.append(seconds)
        retry(wait)

    monkeypatch.setattr(CycleFreeHandler, "_break_cycles", attempt)
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", call_later)
    object.__new__(CycleFreeHandler).break_cycles()

    assert len(made) == min(attempts, len(waits) + 1)
    assert waits == [RETRY_FIRST * 2**number for number in range(len(waits))]
    assert all(wait <= RETRY_LAST for wait in waits)
    assert made[-1] == (attempts < 100)
