"""The stages. Each has get, head and send for a scenario, and all have the same clock and origin."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import aiohttp

from feedproxy.app import App
from feedproxy.clock import ManualClock
from feedproxy.feed_rules import Rule, Rules
from feedproxy.http import uri
from feedproxy.http.coding.bounded_decompression import decode
from feedproxy.http.message import Fields, Request, Response
from feedproxy.http.target_uri.gateway_path import gateway_path
from feedproxy.http.target_uri.target_pattern import TargetPattern
from feedproxy.proxy.service import Service
from feedproxy.refresh.reader_tracking import ReaderTracker
from feedproxy.refresh.refresh_events import Events
from feedproxy.request.context import ClientContext, Entrance, PassThrough, ProxyResponse
from feedproxy.settings import Settings
from feedproxy.store.lru_memory_store import MemoryStore
from feedproxy.subscribers.reader_pseudonyms import Identifier
from feedproxy.subscribers.subscriber_counts import SubscriberCounts
from feedproxy.telemetry.recent_activity import RecentActivity
from tests.stages.origin import Origin, OriginFetcher, on_loopback

HERE = "192.0.2.1"
"""Address of readers unless a scenario states another. On the whole proxy, the address is 127.0.0.1."""

ALONE: dict[str, Any] = {"polling": "off"}
"""Settings that prevent scheduled refreshes, so that only the scenario causes requests."""

UPSTREAM = "the origin"
"""Placeholder, as the setting `upstream`, for the stage's origin. Its address is known only when the stage is open."""


@dataclass(frozen=True)
class Seen:
    """A response as a reader received it."""

    status: int
    fields: Fields
    body: bytes

    @property
    def plain(self) -> bytes:
        """Body without its content coding."""
        return decode(self.body, self.fields.combined("content-encoding"), limit=10_000_000)

    def expect(
        self, status: int, *, cache: str | None = None, age: int | None = None, body: bytes | None = None
    ) -> Self:
        """Check the usual properties. `cache` is text that Cache-Status has to contain."""
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
        """The proxy's member of Cache-Status."""
        return self.fields.combined("cache-status") or ""

    @property
    def location(self) -> str:
        """Target of a redirect."""
        return self.fields.get("location") or ""

    @property
    def tag(self) -> str:
        """Entity tag."""
        return self.fields.get("etag") or ""


class Stage(Protocol):
    """The interface of a stage for scenarios."""

    origin: Origin
    clock: ManualClock
    settings: dict[str, Any]

    @property
    def service(self) -> Service: ...

    @property
    def name(self) -> str:
        """Address of the proxy itself, as readers write it."""
        ...

    def use_rules(self, rules: Rules) -> None: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send(
        self, method: str, path: str, fields: Fields, *, entrance: Entrance, address: str, body: bytes = b""
    ) -> Seen: ...


class Door(Stage, Protocol):
    """A stage that receives request lines, not targets: all except the service alone."""

    async def ask(self, method: str, line: str, fields: Fields, *, address: str, body: bytes = b"") -> Seen: ...


def line_for(stage: Stage, entrance: Entrance, path: str) -> str:
    """Return the request target in the form for this entrance."""
    match entrance:
        case Entrance.GATEWAY:
            return gateway_path(stage.origin.url(path))
        case Entrance.PROXY:
            return stage.origin.url(path)
        case Entrance.REVERSE:
            return path


def resolved(settings: dict[str, Any], origin: Origin) -> dict[str, Any]:
    """Return the settings with the origin's address in place of its placeholder."""
    return {
        name: value.replace(UPSTREAM, origin.base) if isinstance(value, str) else value
        for name, value in settings.items()
    }


def an_audience(clock: ManualClock, settings: Settings) -> ReaderTracker:
    counts = SubscriberCounts(
        window=settings.subscriber_window, claim_max=settings.claim_max, claim_jump=settings.claim_jump
    )
    identifier = Identifier(b"0123456789abcdef")
    return ReaderTracker(counts, identifier, clock, lambda _: settings, "feedproxy-00000000", "0")


class OnService:
    """The service alone, without mitmproxy and sockets."""

    def __init__(self, clock: ManualClock, settings: dict[str, Any]) -> None:
        self.clock = clock
        self.origin = Origin(clock)
        self.settings = settings
        self.name = "http://proxy.example"
        self._rules = Rules()
        self.recent_activity = RecentActivity(lambda: Settings(log_format="off"), str)
        self._service: Service

    @property
    def service(self) -> Service:
        return self._service

    def use_rules(self, rules: Rules) -> None:
        self._rules = rules

    async def open(self) -> None:
        settings = Settings(**{**ALONE, **resolved(self.settings, self.origin)})
        events = Events()
        events.refresh_ended.subscribe(self.recent_activity.on_refresh_ended)
        events.page_redirected_to_feed.subscribe(self.recent_activity.on_page_redirected_to_feed)
        self._service = Service(
            settings_for=lambda target: self._rules.settings_for(target, settings),
            store=MemoryStore(100_000_000),
            fetcher=OriginFetcher(self.origin),
            clock=self.clock,
            audience=an_audience(self.clock, settings),
            events=events,
        )

    async def close(self) -> None:
        await self._service.close(0)

    async def send(
        self, method: str, path: str, fields: Fields, *, entrance: Entrance, address: str, body: bytes = b""
    ) -> Seen:
        visit = ClientContext(entrance, self.settings.get("public_url", self.name).rstrip("/"), address)
        request = Request(method, uri.normalise(self.origin.url(path)), fields)
        answer = await self.service.answer(request, visit)
        if isinstance(answer, PassThrough):
            return Seen(299, Fields([("Cache-Status", answer.status.text())]), b"")
        assert isinstance(answer, ProxyResponse)
        response: Response = answer.response
        return Seen(response.status, response.fields, b"" if method == "HEAD" else response.body)


class OnProxy:
    """The whole proxy: its own master, a real listener, and a real origin on loopback."""

    def __init__(self, clock: ManualClock, settings: dict[str, Any]) -> None:
        self.clock = clock
        self.origin = Origin(clock)
        self.settings = settings

    @property
    def service(self) -> Service:
        return self.app.service

    @property
    def name(self) -> str:
        return self.base

    def use_rules(self, rules: Rules) -> None:
        self.app.set_rules(rules)

    async def open(self) -> None:
        from feedproxy.process.mitmproxy_master import build_master
        from feedproxy.process.option_sources import ServePlan

        self._runner = await on_loopback(self.origin)
        given = {
            **ALONE,
            "allow_private": True,
            "listen_port": 0,
            "admin": "",
            "store": "memory:",
            "log_format": "off",
            "fast_path": False,
        }
        self._master, self.app, _ = build_master(
            ServePlan(options={**given, **resolved(self.settings, self.origin)}), App(self.clock)
        )
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
        self, method: str, path: str, fields: Fields, *, entrance: Entrance, address: str, body: bytes = b""
    ) -> Seen:
        return await self.ask(method, line_for(self, entrance, path), fields, address=address, body=body)

    async def ask(self, method: str, line: str, fields: Fields, *, address: str, body: bytes = b"") -> Seen:
        from multidict import CIMultiDict
        from yarl import URL

        absolute = not line.startswith("/")
        async with self._session.request(
            method,
            URL(line if absolute else self.base + line, encoded=True),
            headers=CIMultiDict(fields),
            data=body or None,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
            proxy=self.base if absolute else None,
            allow_redirects=False,
        ) as answer:
            content = await answer.read()
            raw = Fields((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.raw_headers)
            return Seen(answer.status, raw, content)


class Proxy:
    """The proxy, its origin and its clock, as scenarios use them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.entrance = Entrance.REVERSE if stage.settings.get("upstream") else Entrance.GATEWAY
        self._rules: list[Rule] = []

    @property
    def service(self) -> Service:
        """The service behind all entrances, which the admin listener, pings and schedules call."""
        return self.stage.service

    def rule(self, path: str, **overrides: Any) -> None:
        """Add a rule of `feeds:` for a path of the origin or for a whole address."""
        pattern = self.stage.origin.url(path) if path.startswith("/") else path
        self._rules.append(Rule(TargetPattern(pattern), overrides))
        self.stage.use_rules(Rules(self._rules))

    async def get(self, path: str, **fields: Any) -> Seen:
        """Send a GET. Keyword arguments are fields: if_none_match='"x"'."""
        return await self.send("GET", path, **fields)

    async def settled(self) -> None:
        """Wait until no refresh is running."""
        while self.stage.service.admin.active_refreshes:  # noqa: ASYNC110 -- no event to wait for
            await asyncio.sleep(0)

    async def head(self, path: str, **fields: Any) -> Seen:
        """Send a HEAD."""
        return await self.send("HEAD", path, **fields)

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        entrance: Entrance | None = None,
        address: str = HERE,
        **fields: str,
    ) -> Seen:
        """Send a request with any method through any entrance."""
        return await self.stage.send(
            method, path, named(fields), entrance=entrance or self.entrance, address=address, body=body
        )

    async def ask(
        self, line: str, *, method: str = "GET", address: str = HERE, body: bytes = b"", **fields: str
    ) -> Seen:
        """Send exactly this request target in origin-form (`/…`) or absolute-form.

        The service alone has no such requests.
        """
        stage: Any = self.stage
        return await stage.ask(method, line, named(fields), address=address, body=body)


def named(fields: Mapping[str, str]) -> Fields:
    """Return fields from keyword arguments."""
    return Fields((name.replace("_", "-"), value) for name, value in fields.items())
