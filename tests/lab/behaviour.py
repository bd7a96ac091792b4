"""A correct reader, simulated against a replay; subclasses change one behaviour.

There are no sockets: the replay is called as its listener calls it, at simulated instants.
"""

import gzip
import itertools
import math
from collections.abc import Iterable
from email.utils import formatdate
from urllib.parse import urljoin

from feedproxy.clock import Instant
from feedproxy.feed import xml_redirect
from feedproxy.feed.channel import Schedule
from feedproxy.feed.parse.channel_parser import read
from feedproxy.feed.schedule_hints import is_skipped, next_update
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.http.message import Fields, Request
from feedproxy.lab.record.exchange import Exchange, Recording, Side, content_digest
from feedproxy.lab.recording_scores import BROKEN_FAULTS
from feedproxy.lab.replay.replay_origin import ReplayOrigin
from feedproxy.lab.replay.replay_source import ReplayOptions, make_replay
from feedproxy.lab.replay.timeline import ReplayWorld, Timeline, Version

MONDAY: Instant = 1_767_571_200.0
"""2026-01-05T00:00:00Z."""
START = MONDAY + 420
FEED = "http://example.com/feed.xml"


def document(number: int, extra: str = "") -> bytes:
    items = "".join(f"<item><title>Entry {index}</title><guid>{index}</guid></item>" for index in range(number, -1, -1))
    return (
        f'<?xml version="1.0"?><rss version="2.0"><channel><title>A feed</title>{extra}'
        f"<description>{'text ' * 60}</description>{items}</channel></rss>"
    ).encode()


def world(extra: str = "", *, every: float = 6, count: int = 40, fields: Iterable[tuple[str, str]] = ()) -> ReplayWorld:
    """Return a replay of a feed that has a new version every `every` hours."""
    versions = []
    for number in range(count):
        since = MONDAY + number * every * 3600
        content = document(number, extra)
        versions.append(
            Version(
                since=since,
                fields=Fields([("Content-Type", "application/rss+xml"), *fields]),
                content=content,
                tag=f'"{content_digest(content)[:12]}"',
                modified=format_http_date(since),
                coded=("gzip",),
                reason="OK",
            )
        )
    return ReplayWorld({FEED: Timeline(versions)})


class CorrectReader:
    """A reader without findings. Faulty readers override one method."""

    agent = "Perfect/1.0 (+https://example.com/perfect)"
    version = "HTTP/1.1"
    address = "reader-1"
    least_wait = 1800.0
    detects_loops = True
    hops_max = 8

    def __init__(self, feed: str = FEED) -> None:
        self.feed = feed
        self.tag = ""
        self.modified = ""
        self.base = 0.0
        self.age = 0.0
        self.lifetime = 0.0
        self.schedule = Schedule()
        self.not_before = 0.0
        self.full_at = 0.0
        self.gone = False

    # -- when

    def due(self, now: Instant) -> bool:
        if self.gone or now < self.not_before:
            return False
        # A poll at the end of a skipped hour would be on the hour.
        skipped = is_skipped(self.schedule, now) or is_skipped(self.schedule, now - 420)
        return now >= self.base + self.wait() and not skipped

    def wait(self) -> float:
        fetched = self.base - self.age
        waits = [self.lifetime, 60.0 * (self.schedule.ttl or 0), self.schedule.interval or 0.0]
        if (update := next_update(self.schedule, fetched)) is not None:
            waits.append(update - fetched)
        return min(max(self.least_wait, max(waits) - self.age), 86_400)

    # -- how

    def fields(self, now: Instant) -> list[tuple[str, str]]:
        return [("User-Agent", self.agent), ("Accept-Encoding", "gzip"), *self.conditions(now)]

    def conditions(self, now: Instant) -> list[tuple[str, str]]:
        both = [("If-None-Match", self.tag), ("If-Modified-Since", self.modified)]
        return [(name, value) for name, value in both if value]

    def address_of(self, now: Instant) -> str:
        return self.feed

    # -- processing of the answer

    def take(self, exchange: Exchange, body: bytes, is_permanent: bool) -> str:
        """Process an answer and return the target of its redirect, if any."""
        now, fields = exchange.at, exchange.fields
        match exchange.status:
            case 301 | 308:
                if is_permanent:
                    self.adopt(urljoin(exchange.request.target, fields.get("location") or ""))
                return urljoin(exchange.request.target, fields.get("location") or "")
            case 302 | 303 | 307:
                return urljoin(exchange.request.target, fields.get("location") or "")
            case 200:
                self._take_content(exchange, body)
            case 304:
                self.base = now
                self.age = float(fields.get("age") or 0)
            case 410:
                self.end()
            case 429 | 503:
                self.refused(exchange)
            case _:
                self.not_before = now + 1800
        return ""

    def adopt(self, target: str) -> None:
        self.feed = target

    def end(self) -> None:
        self.gone = True

    def refused(self, exchange: Exchange) -> None:
        value = exchange.fields.get("retry-after") or ""
        until = parse_http_date(value, exchange.at)
        wait = float(value) if value.isdigit() else 3600 if until is None else until - exchange.at
        self.not_before = exchange.at + min(wait, 172_800)

    def _take_content(self, exchange: Exchange, body: bytes) -> None:
        match xml_redirect.read(body):
            case xml_redirect.Moved(location):
                self.adopt(location)
                self.base = exchange.at - 90_000
                return
            case xml_redirect.Gone():
                self.end()
                return
        channel = None if exchange.faults and BROKEN_FAULTS & set(exchange.faults) else read(body, None)
        if channel is None:
            self.broken(exchange)
            return
        self.keep(exchange.fields.get("etag") or "", exchange.fields.get("last-modified") or "")
        self.base = self.full_at = exchange.at
        self.age = float(exchange.fields.get("age") or 0)
        self.schedule = channel.schedule
        self.lifetime = CacheControl.from_fields(exchange.fields).max_age or 0.0

    def broken(self, exchange: Exchange) -> None:
        self.not_before = exchange.at + 1800

    def keep(self, tag: str, modified: str) -> None:
        self.tag, self.modified = tag, modified

    def follows(self, status: int) -> bool:
        return True

    def connection(self, poll: int, hop: int) -> str:
        return f"connection {poll}"


def play(
    reader: CorrectReader,
    replay_world: ReplayWorld | None = None,
    *,
    days: float = 3,
    options: ReplayOptions = ReplayOptions(),  # noqa: B008 -- it never changes
    step: float = 60,
    start: Instant = START,
) -> Recording:
    """Return the recording of a reader that checks every `step` seconds if a poll is due."""
    replay = make_replay(replay_world or world(), options, start)
    exchanges: list[Exchange] = []
    contents: dict[str, bytes] = {}
    for tick in range(math.ceil(days * 86_400 / step)):
        now = start + tick * step
        if reader.due(now):
            poll(reader, replay, now, tick, exchanges, contents)
    return Recording(tuple(exchanges), contents, start + days * 86_400)


def poll(
    reader: CorrectReader,
    replay: ReplayOrigin,
    now: Instant,
    tick: int,
    exchanges: list[Exchange],
    contents: dict[str, bytes],
) -> None:
    """Send one poll and follow its redirects."""
    target, is_permanent = reader.address_of(now), True
    visited: set[str] = set()
    for hop in itertools.count():
        fields = Fields(reader.fields(now))
        bare = target.partition("?")[0]
        asked = replay.to_replay_request(Request("GET", bare, fields), now)
        reply = replay.answer(asked)
        content = reply.body
        raw = False
        if reply.fields.get("content-encoding") == "gzip":
            try:
                content = gzip.decompress(content)
            except EOFError:
                raw = True
        exchange = Exchange(
            side=Side.READER,
            at=now,
            request=Request("GET", target, fields),
            status=reply.status,
            fields=reply.fields,
            digest=content_digest(content),
            size=len(reply.body),
            reader=reader.address,
            connection=reader.connection(tick, hop),
            version=reader.version,
            raw=raw,
            faults=reply.faults,
        )
        exchanges.append(exchange)
        contents[exchange.digest] = content
        location = reader.take(exchange, content, is_permanent)
        visited.add(target)
        if not location or not reader.follows(reply.status):
            return
        if (reader.detects_loops and location in visited) or hop == reader.hops_max - 1:
            reader.not_before = now + 1800
            return
        is_permanent = is_permanent and reply.status in (301, 308)
        target = location


def own_date(now: Instant) -> str:
    """Return a date of the reader's own clock."""
    return formatdate(now, usegmt=True)
