"""Fixtures of the whole proxy with its fast path, and of client connections that send exact bytes."""

import asyncio
import calendar
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from feedproxy.clock import ManualClock
from feedproxy.server.fastpath.listener import Listener
from tests.stages.front import OnFront
from tests.stages.origin import Origin, a_feed
from tests.waiting import PATIENCE

NOON: float = calendar.timegm((2026, 11, 20, 12, 0, 0))


@dataclass
class Answer:
    """A response as a client received it."""

    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def cache(self) -> str:
        return self.fields.get("cache-status", "")


class Line:
    """A client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def hear(self, *, head_only: bool = False) -> Answer:
        """Return the next response."""
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE)).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status = int(first.split()[1])
        length = 0 if head_only or status in (204, 304) else int(fields.get("content-length", "0"))
        return Answer(status, fields, await asyncio.wait_for(self.reader.readexactly(length), PATIENCE))

    async def ask(self, data: bytes) -> Answer:
        """Send a request and return the next response."""
        await self.say(data)
        return await self.hear()

    async def ended(self) -> bool:
        """Return True if the proxy has closed the connection without sending more."""
        try:
            return await asyncio.wait_for(self.reader.read(), PATIENCE) == b""
        except ConnectionError:
            return True


@dataclass
class Front:
    """The proxy in front of an origin with a feed, and the client connections to it."""

    stage: OnFront
    lines: list[Line] = field(default_factory=list)
    service_calls: int = 0
    """Requests that the service was asked for."""
    _listener: Listener | None = None

    @property
    def origin(self) -> Origin:
        return self.stage.origin

    @property
    def clock(self) -> ManualClock:
        return self.stage.clock

    @property
    def listener(self) -> Listener:
        if self._listener is None:
            self._listener = self.stage._front._listener
        return self._listener

    async def line(self) -> Line:
        made = Line(*await asyncio.open_connection("127.0.0.1", int(self.stage.base.rpartition(":")[2])))
        self.lines.append(made)
        return made

    def get(self, path: str = "/feed.rss", *fields: str, method: str = "GET") -> bytes:
        """Return the bytes of a request through the gateway."""
        lines = ["Host: proxy.example", "User-Agent: Reader/1.0", "Accept-Encoding: gzip", *fields]
        target = path if path.startswith("/-") else f"/{self.origin.base}{path}"
        return "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode("latin-1")

    async def warm(self, *requests: bytes) -> Line:
        """Return a connection on which each request was sent often enough to be answered by the fast path."""
        line = await self.line()
        for request in requests or (self.get(),):
            for _ in range(4):
                await line.say(request)
                await line.hear(head_only=request.startswith(b"HEAD"))
        return line


async def until(holds: Callable[[], bool]) -> None:
    """Run the event loop until `holds()` is true."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 -- no event to wait for
            await asyncio.sleep(0)


type Opened = Callable[..., Awaitable[Front]]


@pytest.fixture
async def front(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Opened]:
    """Yield a function that opens the proxy with the given settings: `proxy = await front(head_timeout=5)`."""
    opened: list[Front] = []

    async def open_with(**settings: Any) -> Front:
        stage = OnFront(ManualClock(NOON), settings)
        await stage.open()
        made = Front(stage)
        opened.append(made)
        stage.origin.publish("/feed.rss", a_feed("one", ttl=60))
        service = stage.app.service
        answer = service.answer

        async def counted(*given: Any) -> Any:
            made.service_calls += 1
            return await answer(*given)

        monkeypatch.setattr(service, "answer", counted)
        return made

    yield open_with
    for each in opened:
        for line in each.lines:
            line.writer.close()
        await each.stage.close()
