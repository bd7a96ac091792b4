"""The connections of the admin listener, tested over loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from feedproxy.admin import admin_listener
from feedproxy.admin.admin_authorization import AdminAuthorization
from feedproxy.admin.admin_listener import AdminListener
from feedproxy.http.uri import split_host_port
from tests.waiting import PATIENCE

type Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

REQUEST = b"GET /%b HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Server:
    """A listener with two routes: /quick, and /slow, which is answered after `finish`."""

    def __init__(self) -> None:
        self.slow_began, self.finish = asyncio.Event(), asyncio.Event()
        routes = [("GET", "/quick", self._quick), ("GET", "/slow", self._slow)]
        self.listener = AdminListener(routes, self._error_page)
        self._opened = AsyncExitStack()

    async def _quick(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _slow(self, _: web.Request) -> web.Response:
        self.slow_began.set()
        await self.finish.wait()
        return web.Response()

    def _error_page(self, _: web.Request, status: int, *__: Any) -> web.Response:
        return web.Response(status=status)

    async def connect(self, data: bytes) -> Connection:
        reader, writer = await asyncio.open_connection(*split_host_port(self.listener.url + "/"))
        self._opened.callback(writer.close)
        writer.write(data)
        return reader, writer

    async def close(self) -> None:
        await self._opened.aclose()
        await self.listener.stop()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    await server.listener.start(AdminAuthorization("127.0.0.1"), "127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.close()


async def status_of(connection: Connection) -> bytes:
    """Return the status of the next response, or "" after the end of the connection."""
    head = await asyncio.wait_for(connection[0].read(65_536), PATIENCE)
    return head[9:12]


async def test_silent_connections_do_not_keep_the_operator_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_listener, "CONNECTIONS_MAX", 3)
    async with serving() as server:
        silent = [await server.connect(b"GET /quick HTTP/1.1\r\nX-Incomplete: ") for _ in range(4)]
        operator = await server.connect(REQUEST % b"quick")

        assert await status_of(operator) == b"200"
        assert [await status_of(connection) for connection in silent[:2]] == [b"", b""], "the oldest two are closed"
        silent[3][1].write(b"\r\nHost: localhost\r\n\r\n")
        assert await status_of(silent[3]) == b"200"


async def test_connection_in_use_is_not_closed_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_listener, "CONNECTIONS_MAX", 2)
    async with serving() as server:
        slow = await server.connect(REQUEST % b"slow")
        await asyncio.wait_for(server.slow_began.wait(), PATIENCE)
        for _ in range(3):
            assert await status_of(await server.connect(REQUEST % b"quick")) == b"200"
        server.finish.set()

        assert await status_of(slow) == b"200"


async def test_stopped_listener_accepts_no_connection() -> None:
    async with serving() as server:
        await server.listener.stop()

        with pytest.raises(OSError):
            await server.connect(REQUEST % b"quick")


@pytest.mark.parametrize(
    "data",
    [b"GET /quick HTTP/1.1\r\n\r\n", b"GET /quick HTTP/1.1\r\nHost: a\r\nno field\r\n\r\n", b"\x16\x03\x01\r\n\r\n"],
)
async def test_malformed_request_gets_400_and_is_not_logged(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as server:
        assert await status_of(await server.connect(data)) == b"400"

    assert not [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]
