"""The origin: it serves the feeds' histories by the play's clock, and counts requests and bytes.

It runs in a process of its own, which `Publishers` starts.
"""

import asyncio
import multiprocessing
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.week.history import History
from benchmarks.week.model import DAY, HOUR, OUTAGE, Feed
from benchmarks.week.page import Page
from feedproxy.http.date import format_http_date, parse_http_date

LIMIT = 20
"""Maximum number of requests per hour that the limiting site permits for each address, for all of its feeds
together.
"""

PATIENCE = 240.0
"""Seconds of real time within which the process must answer."""


@dataclass
class Tally:
    """Counts of requests and responses. Bytes include heads, as on the wire."""

    requests: int = 0
    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    by_feed: Counter[int] = field(default_factory=Counter)
    sent_by_feed: Counter[int] = field(default_factory=Counter)
    wholes_by_feed: Counter[int] = field(default_factory=Counter)


class Publishers:
    """Handle for the origin's process."""

    def __init__(self, feeds: Sequence[Feed], seed: int, start: float, page: Page) -> None:
        self._process = multiprocessing.get_context("spawn").Process(
            target=_run, args=(feeds, seed, start, page.path, (ends := multiprocessing.Pipe())[1]), daemon=True
        )
        self._pipe: Connection = ends[0]
        self._process.start()
        self.port = self._said()

    def _said(self) -> Any:
        if not self._pipe.poll(PATIENCE):
            raise RuntimeError("the origin does not answer")
        return self._pipe.recv()

    def reset(self) -> None:
        """Begin a new run: reset the counts."""
        self._pipe.send("reset")
        self._said()

    def tally(self) -> Tally:
        """Return the counts of this run."""
        self._pipe.send("tally")
        found = self._said()
        assert isinstance(found, Tally)
        return found

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join(10)


def _run(feeds: Sequence[Feed], seed: int, start: float, page: Path, pipe: Connection) -> None:
    asyncio.run(_serve(Origin(feeds, seed, start, Page(page)), pipe))


async def _serve(origin: "Origin", pipe: Connection) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(origin), "127.0.0.1", 0)
    ended = loop.create_future()

    def told() -> None:
        try:
            word = pipe.recv()
        except EOFError:
            loop.remove_reader(pipe.fileno())
            ended.set_result(None)
            return
        if word == "reset":
            origin.reset()
        pipe.send(origin.tally)

    loop.add_reader(pipe.fileno(), told)
    pipe.send(server.sockets[0].getsockname()[1])
    await ended


class _Connection(asyncio.Protocol):
    """A connection of a client."""

    def __init__(self, origin: "Origin") -> None:
        self._origin = origin
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head, self._held = self._held[:end].decode("latin-1"), self._held[end + 4 :]
            first, *lines = head.split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            head_and_body = self._origin.answer(first.split()[1], fields)
            self._transport.writelines(head_and_body)
            self._origin.page.ended = self._origin.page.begun
            if fields.get("connection", "").lower() == "close":
                self._transport.close()


class Origin:
    """The origin of all feeds, at one port on loopback."""

    def __init__(self, feeds: Sequence[Feed], seed: int, start: float, page: Page) -> None:
        self.histories = [History(feed, seed, start) for feed in feeds]
        self.tally = Tally()
        self.page = page
        self._start = start
        self._asked: dict[str, deque[float]] = {}

    def reset(self) -> None:
        """Begin a new run: reset the counts and the limits."""
        self.tally = Tally()
        self._asked.clear()

    def answer(self, path: str, asked: dict[str, str]) -> tuple[bytes, bytes]:
        """Return the head and the body of the response, and count both."""
        self.page.begun += 1
        now = self.page.now - self._start
        number = path.removeprefix("/moved").removeprefix("/f/").removesuffix(".xml")
        if number.isdigit() and int(number) < len(self.histories):
            status, lines, body = self._response(int(number), path.startswith("/moved"), now, asked)
        else:
            status, lines, body = 404, [], b"not here"
        lines = [f"Date: {format_http_date(self._start + now)}", "Server: week", *lines]
        if status != 304:
            lines.append(f"Content-Length: {len(body)}")
        head = f"HTTP/1.1 {status} x\r\n{''.join(f'{line}\r\n' for line in lines)}\r\n".encode("latin-1")
        tally, sent = self.tally, len(head) + len(body)
        tally.requests += 1
        tally.sent += sent
        tally.statuses[status] += 1
        if number.isdigit():
            tally.by_feed[int(number)] += 1
            tally.sent_by_feed[int(number)] += sent
            tally.wholes_by_feed[int(number)] += status == 200
        return head, body

    def _response(self, number: int, moved: bool, now: float, asked: dict[str, str]) -> tuple[int, list[str], bytes]:
        history = self.histories[number]
        feed = history.feed
        if refused := self._refused(feed, moved, now, asked):
            return refused
        index = history.index(now)
        lines = []
        if feed.cache_control:
            lines.append(f"Cache-Control: {feed.cache_control}")
        tag = history.tag(index) if feed.validators in ("both", "tag") else None
        modified = self._start + history.moments[index] if feed.validators in ("both", "date") else None
        if tag:
            lines.append(f"ETag: {tag}")
        if modified is not None:
            lines.append(f"Last-Modified: {format_http_date(modified)}")
        lines.append("Vary: Accept-Encoding")
        if _unchanged(asked, tag, modified):
            return 304, lines, b""
        lines.append(f"Content-Type: {feed.content_type}")
        if "gzip" in asked.get("accept-encoding", ""):
            return 200, [*lines, "Content-Encoding: gzip"], history.body(index, zipped=True)
        return 200, lines, history.body(index, zipped=False)

    def _refused(
        self, feed: Feed, moved: bool, now: float, asked: dict[str, str]
    ) -> tuple[int, list[str], bytes] | None:
        if feed.is_limited:
            times = self._asked.setdefault(asked.get("x-direct-from", ""), deque())
            while times and times[0] <= now - HOUR:
                times.popleft()
            if len(times) >= LIMIT:
                return 429, [f"Retry-After: {int(times[0] + HOUR - now) + 1}"], b"too many requests"
            times.append(now)
        if now < feed.fate_at:
            return None
        match feed.fate:
            case "moves" if not moved:
                return 301, [f"Location: /moved{feed.path}"], b""
            case "ends":
                return 410, [], b"gone"
            case "outage" if now < feed.fate_at + OUTAGE:
                return 503, [], b"out of order"
        return None


def _unchanged(asked: dict[str, str], tag: str | None, modified: float | None) -> bool:
    if (tags := asked.get("if-none-match")) is not None:
        bare = tag.removeprefix("W/") if tag else None
        return bare is not None and bare in [each.strip().removeprefix("W/") for each in tags.split(",")]
    since = parse_http_date(asked.get("if-modified-since", ""))
    return since is not None and modified is not None and int(modified) <= since


def is_skipped(feed: Feed, at: float) -> bool:
    """Return whether this instant is in a skipped hour or on a skipped day of the feed."""
    return int(at % DAY // HOUR) in feed.skip_hours or int(at // DAY) % 7 in feed.skip_days
