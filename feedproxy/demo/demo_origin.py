"""An origin on loopback that serves the version of a feed at the simulated time and counts requests. Each feed has an
origin of its own, because the publishers are separate sites."""

import asyncio
import gzip
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from feedproxy.clock import Clock, Instant
from feedproxy.demo.counted_http import HEAD_MAX, format_head, parse_head
from feedproxy.demo.publishers import DemoFeed, DemoVersion
from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.schedule_hints import is_skipped
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.http.message import Fields


@dataclass
class Tally:
    """Counts of an origin's requests and response bytes."""

    requests: int = 0
    conditional: int = 0
    not_modified: int = 0
    sent: int = 0
    """Size of all responses including their heads, in bytes."""
    skipped: int = 0
    """Number of requests in the feed's skipHours."""
    agents: Counter[str] = field(default_factory=Counter)
    last_agent: str = ""
    last_at: Instant = 0.0


class Origin:
    """The origin of one feed. `start` sets `port`."""

    host = "127.0.0.1"

    def __init__(self, feed: DemoFeed, clock: Clock) -> None:
        self.feed = feed
        self.tally = Tally()
        self.port = 0
        self._clock = clock
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, self.host, 0, limit=HEAD_MAX)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and close all connections."""
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Return the address of the feed."""
        return f"http://{self.host}:{self.port}/{self.feed.profile.name}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                _, request_fields = parse_head(await reader.readuntil(b"\r\n\r\n"))
                answer = self._answer(request_fields)
                self.tally.sent += len(answer)
                writer.write(answer)
                await writer.drain()
        except (OSError, EOFError):
            pass  # the client has closed the connection
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, request_fields: Fields) -> bytes:
        now = self._clock.now()
        profile, version = self.feed.profile, self.feed.at(now)
        lines = [("Date", format_http_date(now)), ("Server", "demo")]
        if profile.etag:
            lines.append(("ETag", _tag(version.body)))
        if profile.last_modified:
            lines.append(("Last-Modified", format_http_date(version.since)))
        if profile.compresses:
            lines.append(("Vary", "Accept-Encoding"))
        is_unchanged = self._is_unchanged(request_fields, version)
        self._count(request_fields, is_unchanged=is_unchanged)
        if is_unchanged:
            return format_head("HTTP/1.1 304 Not Modified", Fields(lines))
        body = version.body
        lines.append(("Content-Type", FORMATS[profile.format].media_type))
        if profile.compresses and "gzip" in (request_fields.combined("accept-encoding") or ""):
            body = _compress(body)
            lines.append(("Content-Encoding", "gzip"))
        lines.append(("Content-Length", str(len(body))))
        return format_head("HTTP/1.1 200 OK", Fields(lines)) + body

    def _is_unchanged(self, request_fields: Fields, version: DemoVersion) -> bool:
        tag, since = request_fields.get("if-none-match"), parse_http_date(request_fields.get("if-modified-since") or "")
        if tag is not None and self.feed.profile.etag:
            return tag == _tag(version.body)
        return self.feed.profile.last_modified and since is not None and int(version.since) <= since

    def _count(self, request_fields: Fields, *, is_unchanged: bool) -> None:
        tally = self.tally
        tally.requests += 1
        tally.conditional += "if-none-match" in request_fields or "if-modified-since" in request_fields
        tally.not_modified += is_unchanged
        tally.skipped += is_skipped(self.feed.profile.schedule, self._clock.now())
        tally.last_agent = request_fields.get("user-agent") or ""
        tally.last_at = self._clock.now()
        tally.agents[tally.last_agent] += 1


@lru_cache(maxsize=64)
def _tag(body: bytes) -> str:
    # The tag is weak, because it is the same with and without gzip.
    return f'W/"{blake2b(body, digest_size=8).hexdigest()}"'


@lru_cache(maxsize=64)
def _compress(body: bytes) -> bytes:
    return gzip.compress(body, 6, mtime=0)
