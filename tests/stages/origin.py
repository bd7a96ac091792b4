"""An origin in memory: it publishes pages, fails on demand, and records its requests."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from feedproxy.clock import Clock
from feedproxy.errors import FeedproxyError
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.http.message import Fields, Request, Response
from feedproxy.upstream.fetch_result import Fetched, Oversized
from feedproxy.upstream.upstream_errors import Unreachable


def a_feed(*titles: str, ttl: int | None = None, extra: str = "") -> bytes:
    """Return a small RSS 2.0 feed with these items."""
    items = "".join(f"<item><title>{title}</title><guid>tag:{title}</guid></item>" for title in titles or ("one",))
    hint = f"<ttl>{ttl}</ttl>" if ttl is not None else ""
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f"<rss version='2.0'><channel><title>News</title><link>http://example.com/</link>{hint}{extra}{items}</channel></rss>"
    ).encode()


@dataclass
class Page:
    """The content at a path."""

    body: bytes = b""
    fields: dict[str, str] = field(default_factory=dict)
    status: int = 200
    validators: bool = True


class Origin:
    """Serves pages with validators, records requests, and fails on demand."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.pages: dict[str, Page] = {}
        self.log: list[Request] = []
        self.methods: dict[str, Callable[[Request], Response]] = {}
        """Functions that answer requests, by method, for methods other than GET and HEAD."""
        self.gate: asyncio.Event | None = None
        self.broken: Callable[[Request], Response] | FeedproxyError | None = None
        self.base = "http://origin.example"
        self._heard = asyncio.Event()

    @property
    def requests(self) -> int:
        """Number of requests received."""
        return len(self.log)

    @property
    def heard(self) -> Fields:
        """Fields of the last request."""
        return self.log[-1].fields

    def url(self, path: str) -> str:
        """Return the target URI of a path."""
        return self.base + path

    def publish(self, path: str, body: bytes, *, status: int = 200, validators: bool = True, **fields: str) -> None:
        """Publish a page. Names of fields have underscores instead of hyphens."""
        named = {name.replace("_", "-").title(): value for name, value in fields.items()}
        named.setdefault("Content-Type", "application/rss+xml")
        self.pages[path] = Page(body, named, status, validators)

    def break_down(self, answer: Callable[[Request], Response] | FeedproxyError | int | None = None) -> None:
        """Fail from now on: with an error status, with a response made by a function, or without a connection."""
        if isinstance(answer, int):
            status = answer
            self.broken = lambda _: Response(status, Fields([("Content-Type", "text/plain")]), b"broken")
        else:
            self.broken = answer or Unreachable("no route")

    def speak(self, answer: Callable[[Request], Response]) -> None:
        """From now on, let a function of the request make every response."""
        self.broken = answer

    def recover(self) -> None:
        """End the failure."""
        self.broken = None

    async def asked(self, times: int = 1) -> None:
        """Wait until this number of requests has been received."""
        while len(self.log) < times:
            self._heard.clear()
            await self._heard.wait()

    async def answer(self, request: Request) -> Response:
        """Return the response to a request. Raises the error that `break_down` got."""
        self.log.append(request)
        self._heard.set()
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.broken, FeedproxyError):
            raise self.broken
        if self.broken is not None:
            return self.broken(request)
        if request.method in self.methods:
            return self.methods[request.method](request)
        path = "/" + request.target.split("/", 3)[3]
        page = self.pages.get(path)
        if page is None:
            return Response(404, Fields([("Content-Type", "text/plain")]), b"not here")
        lines = [("Date", format_http_date(self.clock.now())), *page.fields.items()]
        if page.validators and "Etag" not in page.fields:
            lines.append(("ETag", f'"{hash(page.body) & 0xFFFFFF:x}"'))
        fields = Fields((("ETag" if name == "Etag" else name), value) for name, value in lines)
        if page.status == 200 and self._unchanged(request, fields):
            return Response(304, Fields(line for line in fields if line[0] not in ("Content-Type",)))
        return Response(page.status, fields, b"" if request.method == "HEAD" else page.body)

    def _unchanged(self, request: Request, fields: Fields) -> bool:
        if (tags := request.fields.get("if-none-match")) is not None:
            return fields.get("etag") in [tag.strip() for tag in tags.split(",")]
        since, modified = request.fields.get("if-modified-since"), fields.get("last-modified")
        if since is None or modified is None:
            return False
        return (parse_http_date(modified) or 0) <= (parse_http_date(since) or 0)


class OriginFetcher:
    """Fetches from the origin in memory, instead of a net.fetch.Fetcher."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched | Oversized:
        now = self._origin.clock.now()
        response = await self._origin.answer(request)
        return Fetched(
            Response(response.status, response.fields.end_to_end(), response.body),
            now,
            self._origin.clock.now(),
        )

    async def close(self) -> None:
        """Do nothing: no resources are held."""


async def on_loopback(origin: Origin) -> web.AppRunner:
    """Serve the origin at a real socket and set `origin.base` to its address."""

    async def handle(request: web.Request) -> web.StreamResponse:
        fields = Fields((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers)
        try:
            answer = await origin.answer(Request(request.method, origin.base + request.raw_path, fields))
        except FeedproxyError:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        response = web.Response(status=answer.status, body=answer.body or None)
        response.headers.clear()
        for name, value in answer.fields:
            response.headers.add(name, value)
        return response

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    origin.base = f"http://127.0.0.1:{port}"
    return runner
