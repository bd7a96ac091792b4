"""An origin on loopback that plays a feed's history by the virtual clock, and counts what it is asked.

Each feed has an origin of its own, at a port of its own: four publishers, four sites.
"""

import asyncio
import gzip
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b

from feedproxy.clock import Clock, Instant
from feedproxy.demo.counted_http import HEAD_MAX, parsed, written
from feedproxy.demo.publishers import Feed, Version
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.http.message import Fields


@dataclass
class Tally:
    """Counts of an origin's requests and response bytes."""

    requests: int = 0
    conditional: int = 0
    not_modified: int = 0
    sent: int = 0
    """Bytes of its answers, heads included."""
    skipped: int = 0
    """Requests in hours in which the publisher asks not to be read."""
    agents: Counter[str] = field(default_factory=Counter)
    last_agent: str = ""
    last_at: Instant = 0.0


class Origin:
    """One publisher. `start`, then `host` and `port` say where; `close` at the end."""

    host = "127.0.0.1"

    def __init__(self, feed: Feed, clock: Clock) -> None:
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
        """Stop listening, and hang up."""
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """The feed's address."""
        return f"http://{self.host}:{self.port}{self.feed.path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                _, asked = parsed(await reader.readuntil(b"\r\n\r\n"))
                answer = self._answer(asked)
                self.tally.sent += len(answer)
                writer.write(answer)
                await writer.drain()
        except (OSError, EOFError):
            pass  # the client has closed the connection
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, asked: Fields) -> bytes:
        now = self._clock.now()
        manner, version = self.feed.manner, self.feed.at(now)
        lines = [("Date", format_http_date(now)), ("Server", "demo")]
        if manner.etag:
            lines.append(("ETag", _tag(version.body)))
        if manner.last_modified:
            lines.append(("Last-Modified", format_http_date(version.since)))
        if manner.compresses:
            lines.append(("Vary", "Accept-Encoding"))
        unchanged = self._unchanged(asked, version)
        self._note(asked, unchanged=unchanged)
        if unchanged:
            return written("HTTP/1.1 304 Not Modified", Fields(lines))
        body = version.body
        lines.append(("Content-Type", manner.content_type))
        if manner.compresses and "gzip" in (asked.combined("accept-encoding") or ""):
            body = _gzipped(body)
            lines.append(("Content-Encoding", "gzip"))
        lines.append(("Content-Length", str(len(body))))
        return written("HTTP/1.1 200 OK", Fields(lines)) + body

    def _unchanged(self, asked: Fields, version: Version) -> bool:
        tag, since = asked.get("if-none-match"), parse_http_date(asked.get("if-modified-since") or "")
        if tag is not None and self.feed.manner.etag:
            return tag == _tag(version.body)
        return self.feed.manner.last_modified and since is not None and int(version.since) <= since

    def _note(self, asked: Fields, *, unchanged: bool) -> None:
        tally = self.tally
        tally.requests += 1
        tally.conditional += "if-none-match" in asked or "if-modified-since" in asked
        tally.not_modified += unchanged
        tally.skipped += datetime.fromtimestamp(self._clock.now(), UTC).hour in self.feed.manner.skip_hours
        tally.last_agent = asked.get("user-agent") or ""
        tally.last_at = self._clock.now()
        tally.agents[tally.last_agent] += 1


@lru_cache(maxsize=64)
def _tag(body: bytes) -> str:
    # Weak, as nginx has it: the same tag for the content with gzip and without.
    return f'W/"{blake2b(body, digest_size=8).hexdigest()}"'


@lru_cache(maxsize=64)
def _gzipped(body: bytes) -> bytes:
    return gzip.compress(body, 6, mtime=0)
