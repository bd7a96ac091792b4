"""A proxy as after some weeks in an office: invented feeds in every state, good and bad readers, and a history."""

import math
import random
from collections.abc import Iterable
from functools import partial

from msgspec.structs import replace

from feedproxy.app import App
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.clock import DAY, HOUR, ManualClock
from feedproxy.feed.channel import Schedule
from feedproxy.feed.parse.channel_parser import read
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields
from feedproxy.refresh.ingest.ingest import make_delta_base
from feedproxy.scoring.scored_request import Poll, cached_content
from feedproxy.store.resource import Failures, Relocation, RelocationKind, Resource, VersionRecord
from feedproxy.subscribers.reader_pseudonyms import Pseudonym
from feedproxy.telemetry.traffic_history import TrafficCounts
from tests.stages.admin import NOW
from tests.stages.origin import Origin, OriginFetcher

UP = 12.2 * DAY
"""Seconds that it has been running."""

NEWS = "https://news.example.com/feed.xml"
READERS = (
    ("NetNewsWire (RSS Reader)", 41),
    ("Newsboat/2.32 (Linux x86_64)", 17),
    ("Feedly/1.0 (+http://www.feedly.com/fetcher.html; 310 subscribers)", 1),
    ("Thunderbird/128.0", 12),
    ("Miniflux/2.1", 6),
    ("python-requests/2.31", 2),
)
FEEDS = (
    # host and path, title, minutes since the fetch, number of readers
    ("news.example.com/feed.xml", "The Harbour Gazette", 12, 6),
    ("weather.example.net/warnings.atom", "Coastal weather warnings", 3, 5),
    ("blog.example.org/index.xml", "Notes from the workshop", 44, 4),
    ("podcast.example.com/episodes.rss", "Lighthouse Stories (podcast)", 96, 4),
    ("city.example.net/council/agenda.rss", "City council: agendas", 170, 2),
    ("library.example.org/new-books.rdf", "Library: new books", 25, 2),
    ("status.example.com/history.atom", "Cloud status", 1, 3),
    ("cafe.example.net/speisekarte.rss", "Kaffeehaus Süd – Tageskarte", 30, 1),
)


def document(title: str, entries: Iterable[int], ttl: int = 60) -> bytes:
    """Return a feed document with these entries."""
    items = "".join(
        f"<item><title>Entry {each}</title><link>https://news.example.com/{each}</link>"
        f"<guid>https://news.example.com/{each}</guid>"
        f"<description>{'What there is to be said of it. ' * 12}</description></item>"
        for each in entries
    )
    head = f"<title>{title}</title><link>https://news.example.com/</link><description>Made up</description>"
    return f'<rss version="2.0"><channel>{head}<ttl>{ttl}</ttl>{items}</channel></rss>'.encode()


def a_copy(target: str, body: bytes, got: float, tag: str = "a1", **said: str) -> StoredResponse:
    """Return a feed as it is stored."""
    lines = {"Date": format_http_date(got), "Content-Type": "application/rss+xml", "ETag": '"v7"', **said}
    content = Content(
        Bodies({"identity": body, "gzip": body[: len(body) // 4]}), tag, "application/rss+xml", got, feed=True
    )
    return StoredResponse(target, 200, Fields(lines.items()), content, got, got, own_agent=True)


def a_feed(target: str, title: str, minutes: float, ttl: int = 60) -> Resource:
    """Return a feed with six earlier versions at intervals of a day."""
    got = NOW - 60 * minutes
    editions, versions, first = [], [], 40
    body = b""
    for number in range(7):
        first -= (0, 2, 1, 3, 1, 2, 1)[number]
        body = document(title, range(first, 52), ttl)
        channel = read(body, "application/rss+xml")
        assert channel is not None
        tag = f"{number:04x}"
        at = got - (6 - number) * 0.8 * DAY
        editions.append(VersionRecord(at, len(body), channel.items, tag))
        if number < 6 and (version := make_delta_base(a_copy(target, body, at, tag))):
            versions.append(version)
    stored = a_copy(target, body, got, "0006")
    return Resource(
        target,
        (stored,),
        read(body, "application/rss+xml"),
        changes=tuple(each.at for each in editions),
        fetched=got,
        delta_bases=tuple(versions),
        version_records=tuple(editions),
        first_seen=got - 6 * DAY,
    )


def feeds() -> list[Resource]:
    """Return feeds in every state."""
    found = [a_feed(f"https://{place}", title, minutes) for place, title, minutes, _ in FEEDS]
    broken = a_feed("https://forum.example.org/latest.rss", "Sailors’ forum: latest", 60 * 9)
    failures = Failures(7, NOW - 8 * HOUR, NOW - 40 * 60, "unreachable", NOW + 80 * 60)
    found.append(replace(broken, failures=failures))
    page = a_feed("https://shop.example.com/offers?token=hunter2hunter2", "Chandlery: offers", 60 * 30)
    failures = Failures(3, NOW - 3 * HOUR, NOW - 20 * 60, "challenge", NOW + 3 * HOUR)
    found.append(replace(page, failures=failures))
    old = a_feed("http://old.example.com/rss", "Tide tables", 200)
    moved = Relocation(
        RelocationKind.MOVED, "https://tides.example.com/feed.xml", NOW - 9 * DAY, NOW - 2 * HOUR, 5, confirmed=True
    )
    found.append(replace(old, relocation=moved))
    ended = Relocation(RelocationKind.GONE, "", NOW - 3 * DAY, NOW - DAY, 2, confirmed=True)
    found.append(Resource("https://summer.example.org/festival.rss", relocation=ended, fetched=NOW - DAY))
    told = Relocation(RelocationKind.MOVED, "https://journal.example.net/atom", NOW - 1800, NOW - 1800, 1)
    found.append(replace(a_feed("https://journal.example.net/rss", "A journal", 30), relocation=told))
    return found


def write_history(app: App, days: int = 30) -> None:
    """Write a history of days with readers that are less active at night and on Sundays."""
    chance = random.Random(7)
    for hour in range(int(NOW // HOUR) - 24 * days, int(NOW // HOUR) + 1):
        awake = 0.35 + 0.65 * max(0.0, math.sin((hour % 24 - 5) / 16 * math.pi))
        sunday = 0.55 if (hour // 24 + 4) % 7 == 0 else 1.0
        asked = int(520 * awake * sunday * chance.uniform(0.85, 1.15))
        fetches = int(18 + asked * chance.uniform(0.02, 0.05))
        failures = chance.randrange(0, 3) + (25 if (hour // 24) % 11 == 3 and hour % 24 in (3, 4) else 0)
        hits = asked - int(fetches * 0.4)
        counted = TrafficCounts(asked, hits, 3, fetches, failures, asked * 14_200, fetches * 9_100)
        app.parts.history_recorder.history.add(counted, hour * HOUR + 60)


def _poll(at: float, asked: Fields, answered: Fields, schedule: Schedule, size: int, changes: int, number: int) -> Poll:
    """Return the poll with a number. The first `changes` polls get a 200, and later ones a 304."""
    status = 200 if number <= changes else 304
    return Poll(number, at, NEWS, asked, status, answered, cached_content(schedule, status), size=size)


def let_read(app: App) -> None:
    """Record reads, some of them by readers that poll too often and without conditions."""
    old = (("http://old.example.com/rss", 2), ("https://forum.example.org/latest.rss", 1))
    for target, kinds in (*((f"https://{place}", kinds) for place, _, _, kinds in FEEDS), *old):
        number = 0
        for agent, count in READERS[:kinds]:
            for _ in range(count):
                number += 1
                app.service.counts.record_read(target, Pseudonym(number, number + 1_000_000), agent, NOW)
    fields = Fields([("Content-Type", "application/rss+xml"), ("ETag", '"0006"')])
    channel = read(document("The Harbour Gazette", range(30, 52)), "application/rss+xml")
    assert channel is not None
    schedule = channel.schedule
    for minute in range(0, 24 * 60, 2):
        at = NOW - DAY + 60 * minute
        rude = Fields([("User-Agent", "python-requests/2.31"), ("Host", "news.example.com")])
        app.live_scores.record(
            "192.0.2.7",
            "python-requests/2.31",
            NEWS,
            at,
            partial(_poll, at, rude, fields, schedule, 18_000, 10**9),
        )
        if minute % 60 == 0:
            kind = Fields(
                [("User-Agent", "NetNewsWire (RSS Reader)"), ("If-None-Match", '"0006"'), ("Accept-Encoding", "gzip")]
            )
            app.live_scores.record(
                "192.0.2.8",
                "NetNewsWire (RSS Reader)",
                NEWS,
                at,
                partial(_poll, at, kind, fields, schedule, 0, 2),
            )


def a_runtime(origin: Origin | None = None, **options: object) -> App:
    """Return the proxy on its first day, with a manual clock. It sends no requests, because no reader polls."""
    if origin is None:
        app = App(ManualClock(NOW - UP))
    else:
        app = App(origin.clock, make_client=lambda _: OriginFetcher(origin))
    given = {"admin": "127.0.0.1:0", "store": "memory:", "feed_process": False, "polling": "off"}
    app.configure({**given, **options})
    app.ready = True
    return app


async def furnish(app: App) -> None:
    """Advance to the state after twelve days."""
    assert isinstance(app.clock, ManualClock)
    _ = app.service
    app.clock.advance(UP)
    write_history(app)
    for each in feeds():
        await app.service.store.put(each)
    let_read(app)
    app.connections = 37
