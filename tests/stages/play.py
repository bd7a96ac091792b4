"""The stages: each offers get, head and send to a scenario, with the same clock and the same origin."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import aiohttp

from feedproxy.clock import ManualClock
from feedproxy.http.message import Fields, Request, Response
from feedproxy.origin.entrance import Entrance, Visit
from feedproxy.origin.service import Answer, PassThrough, Service
from feedproxy.readers.count import SubscriberCounts
from feedproxy.readers.identify import Identifier
from feedproxy.report.metrics import Metrics
from feedproxy.rules import Rules
from feedproxy.settings import Settings
from feedproxy.store.memory import MemoryStore
from tests.stages.origin import Origin, OriginFetcher, on_loopback


@dataclass(frozen=True)
class Seen:
    """What a reader saw."""

    status: int
    fields: Fields
    body: bytes

    def expect(
        self, status: int, *, cache: str | None = None, age: int | None = None, body: bytes | None = None
    ) -> Self:
        """Check what is usually checked; `cache` are words that Cache-Status has to hold."""
        assert self.status == status, (self.status, self.cache, self.body[:200])
        if cache is not None:
            said = [word.strip() for word in self.cache.split(";")]
            missing = [word for word in cache.split("; ") if word not in said]
            assert not missing, f"{missing} not in {said}"
        if age is not None:
            assert self.fields.get("age") == str(age), self.fields
        if body is not None:
            assert self.body == body
        return self

    @property
    def cache(self) -> str:
        """Our member of Cache-Status."""
        return self.fields.combined("cache-status") or ""

    @property
    def location(self) -> str:
        """Where a redirect leads."""
        return self.fields.get("location") or ""

    @property
    def tag(self) -> str:
        """The entity tag."""
        return self.fields.get("etag") or ""


class Stage(Protocol):
    """What a scenario may do."""

    origin: Origin
    clock: ManualClock
    settings: dict[str, Any]

    @property
    def service(self) -> Service: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send(
        self, method: str, path: str, fields: Mapping[str, str], *, entrance: Entrance, address: str
    ) -> Seen: ...


class OnService:
    """The service alone: no mitmproxy, no sockets."""

    def __init__(self, clock: ManualClock, settings: dict[str, Any]) -> None:
        self.clock = clock
        self.origin = Origin(clock)
        self.settings = settings
        self._service: Service

    @property
    def service(self) -> Service:
        return self._service

    async def open(self) -> None:
        settings = Settings(**self.settings)
        rules = Rules(())
        self._service = Service(
            settings_for=lambda target: rules.settings_for(target, settings),
            store=MemoryStore(100_000_000),
            fetcher=OriginFetcher(self.origin),
            clock=self.clock,
            counts=SubscriberCounts(),
            identifier=Identifier(b"0123456789abcdef"),
            pseudonym="feedproxy-00000000",
            version="0",
            observer=Metrics(),
        )

    async def close(self) -> None:
        await self._service.close(0)

    async def send(
        self, method: str, path: str, fields: Mapping[str, str], *, entrance: Entrance, address: str
    ) -> Seen:
        visit = Visit(entrance, "http://proxy.example", address)
        request = Request(method, self.origin.url(path), Fields(fields.items()))
        answer = await self.service.answer(request, visit)
        if isinstance(answer, PassThrough):
            return Seen(299, Fields([("Cache-Status", answer.status.text())]), b"")
        assert isinstance(answer, Answer)
        response: Response = answer.response
        return Seen(response.status, response.fields, b"" if method == "HEAD" else response.body)


class OnProxy:
    """The whole proxy: an own master, a real listener, a real origin on loopback."""

    def __init__(self, clock: ManualClock, settings: dict[str, Any]) -> None:
        self.clock = clock
        self.origin = Origin(clock)
        self.settings = settings

    @property
    def service(self) -> Service:
        return self.runtime.service

    async def open(self) -> None:
        from feedproxy.serve import Plan, make_master

        self._runner = await on_loopback(self.origin)
        given = {
            "allow_private": True,
            "listen_port": 0,
            "admin": "",
            "store": "memory:",
            "log_format": "off",
        }
        self._master, self.runtime = make_master(Plan(options={**given, **self.settings}), self.clock)
        self._running = asyncio.ensure_future(self._master.run())
        server = self._master.addons.get("proxyserver")
        while not server.listen_addrs():
            assert not self._running.done(), self._running
            await asyncio.sleep(0)
        self.base = f"http://127.0.0.1:{server.listen_addrs()[0][1]}"
        self._session = aiohttp.ClientSession(auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar())

    async def close(self) -> None:
        await self._session.close()
        self._master.shutdown()
        await self._running
        await self._runner.cleanup()

    async def send(
        self, method: str, path: str, fields: Mapping[str, str], *, entrance: Entrance, address: str
    ) -> Seen:
        from yarl import URL

        target = self.origin.url(path)
        proxy = self.base if entrance is Entrance.PROXY else None
        url = target if entrance is Entrance.PROXY else f"{self.base}/{target}"
        if entrance is Entrance.REVERSE:
            url = self.base + path
        async with self._session.request(
            method,
            URL(url, encoded=True),
            headers=dict(fields),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
            proxy=proxy,
            allow_redirects=False,
        ) as answer:
            body = await answer.read()
            raw = Fields((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.raw_headers)
            return Seen(answer.status, raw, body)


class Proxy:
    """What a scenario holds in its hands."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.entrance = Entrance.GATEWAY

    async def get(self, path: str, **fields: str) -> Seen:
        """GET, with fields named in Python's way: if_none_match='"x"'."""
        return await self.send("GET", path, **fields)

    async def settled(self) -> None:
        """Wait until no update is under way."""
        while self.stage.service.under_way:
            await asyncio.sleep(0)

    async def head(self, path: str, **fields: str) -> Seen:
        """HEAD."""
        return await self.send("HEAD", path, **fields)

    async def send(self, method: str, path: str, **fields: str) -> Seen:
        """Any method."""
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        return await self.stage.send(method, path, named, entrance=self.entrance, address="192.0.2.1")
