"""Publishers of the demo: four small feeds of different kinds, reproducible by seed.

news      RSS 2.0, an item every twenty minutes or so by day; `ttl` 60, skipHours at night; ETag and Last-Modified
blog      Atom, an entry every two days; ETag alone, no hints
links     RSS 1.0 with sy:hourly/2; Last-Modified alone
status    JSON Feed; no validators, no hints, and an origin that never compresses

Each has a self link (USM), so feedproxy does not edit it, and received content can be compared byte for byte.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from feedproxy.clock import Instant, Seconds
from feedproxy.http.date import format_http_date

START: Instant = datetime(2026, 1, 7, 7, tzinfo=UTC).timestamp()
"""A Wednesday at 07:00 GMT; even a run of one day contains office hours."""

ITEMS_MAX = 15
"""Items of a feed, as many as most feeds have."""

PAST: Seconds = 60 * 86_400
"""Seconds before START from which items are created, so that every feed is full at START."""

NIGHT = frozenset({22, 23, 0, 1, 2, 3, 4, 5})

VOCABULARY = (
    "harbour council evening garden bridge winter library train market school river festival report museum street "
    "music plan answer morning bakery letter weather signal village station paper orchard meeting question window "
    "lantern voyage kettle meadow compass ferry archive timber glass record season theatre mountain border thread"
)
WORD_LIST = VOCABULARY.split()


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a feed."""

    number: int
    published: Instant
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Version:
    """The content of a feed from an instant on."""

    number: int
    since: Instant
    body: bytes


@dataclass(frozen=True, slots=True)
class PublisherProfile:
    """The format, frequency and HTTP behaviour of a publisher."""

    name: str
    content_type: str
    write: Callable[[Sequence[Item]], bytes]
    pause: Seconds
    """Mean time between two items."""
    etag: bool = False
    last_modified: bool = False
    compresses: bool = True
    lifetime: Seconds = 0
    """Seconds for which the feed's hints allow a copy to be used; 0 without hints."""
    skip_hours: frozenset[int] = frozenset()


@dataclass
class Feed:
    """A feed with all its items, before and after START."""

    profile: PublisherProfile
    items: tuple[Item, ...]
    _versions: dict[int, Version] = field(default_factory=dict)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in the table."""
        return self.profile.name

    @property
    def path(self) -> str:
        """The path at the origin."""
        return f"/{self.name}"

    def at(self, now: Instant) -> Version:
        """Return the version that is current at `now`."""
        return self.version(bisect_right(self.items, now, key=lambda item: item.published) - 1)

    def version(self, number: int) -> Version:
        """Return the version with item `number` as its latest."""
        version = self._versions.get(number)
        if version is None:
            items = self.items[max(0, number - ITEMS_MAX + 1) : number + 1][::-1]
            body = self.profile.write(items)
            version = self._versions[number] = Version(number, items[0].published, body)
            self._numbers[body] = number
        return version

    def allows_copy(self, fetched: Instant, now: Instant) -> bool:
        """Return True if ttl, sy:* or skipHours of the feed allow a copy that was fetched at `fetched`."""
        return now - fetched < self.profile.lifetime or datetime.fromtimestamp(now, UTC).hour in self.profile.skip_hours

    def find_version_number(self, body: bytes) -> int | None:
        """Return the number of the version with this content; None if it was never current."""
        return self._numbers.get(body)


def create_feeds(seed: int, *, days: int) -> list[Feed]:
    """Return the four feeds with their items until the end of the demo."""
    return [Feed(profile, tuple(_items(profile, seed, START + days * 86_400))) for profile in PROFILES]


def _items(profile: PublisherProfile, seed: int, end: Instant) -> list[Item]:
    random = Random(f"{seed}/{profile.name}")  # noqa: S311 -- a play, no secret
    items: list[Item] = []
    at = START - PAST
    while True:
        at += random.expovariate(1 / profile.pause) + 60
        if datetime.fromtimestamp(at, UTC).hour in NIGHT:
            continue  # no feed publishes at night, with or without skipHours
        if at >= end:
            return items
        number = len(items)
        title = " ".join(random.choices(WORD_LIST, k=5)).capitalize()
        text = " ".join(random.choices(WORD_LIST, k=random.randint(40, 90))).capitalize() + "."
        items.append(Item(number, at, title, text))


# -- the four formats; the words need no escaping


def _rss(items: Sequence[Item]) -> bytes:
    hours = "".join(f"<hour>{hour}</hour>" for hour in sorted(NIGHT))
    return _bytes(
        '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>',
        "<title>The Daily Harbour</title><link>http://news.example/</link><description>News</description>",
        '<atom:link href="http://news.example/news" rel="self" type="application/rss+xml"/>',
        f"<ttl>60</ttl><skipHours>{hours}</skipHours>",
        *(
            f"<item><title>{item.title}</title><link>http://news.example/{item.number}</link>"
            f"<guid>http://news.example/{item.number}</guid><pubDate>{format_http_date(item.published)}</pubDate>"
            f"<description>{item.text}</description></item>"
            for item in items
        ),
        "</channel></rss>",
    )


def _atom(items: Sequence[Item]) -> bytes:
    return _bytes(
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">',
        "<title>Notes from an Orchard</title><id>tag:blog.example,2026:feed</id>",
        "<author><name>A. Writer</name></author>",
        '<link href="http://blog.example/"/><link rel="self" type="application/atom+xml" href="http://blog.example/blog"/>',
        f"<updated>{_iso(items[0].published)}</updated>",
        *(
            f'<entry><title>{item.title}</title><link href="http://blog.example/{item.number}"/>'
            f"<id>tag:blog.example,2026:{item.number}</id><updated>{_iso(item.published)}</updated>"
            f'<content type="html">&lt;p&gt;{item.text}&lt;/p&gt;</content></entry>'
            for item in items
        ),
        "</feed>",
    )


def _rdf(items: Sequence[Item]) -> bytes:
    order = "".join(f'<rdf:li rdf:resource="http://links.example/{item.number}"/>' for item in items)
    return _bytes(
        '<?xml version="1.0" encoding="utf-8"?>\n<rdf:RDF xmlns="http://purl.org/rss/1.0/"',
        ' xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:atom="http://www.w3.org/2005/Atom"',
        ' xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"><channel rdf:about="http://links.example/links">',
        "<title>Found on the Way</title><link>http://links.example/</link><description>Links</description>",
        '<atom:link href="http://links.example/links" rel="self" type="application/rss+xml"/>',
        "<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>2</sy:updateFrequency>",
        f"<items><rdf:Seq>{order}</rdf:Seq></items></channel>",
        *(
            f'<item rdf:about="http://links.example/{item.number}"><title>{item.title}</title>'
            f"<link>http://links.example/{item.number}</link><description>{item.text}</description></item>"
            for item in items
        ),
        "</rdf:RDF>",
    )


def _json(items: Sequence[Item]) -> bytes:
    document = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "Is the Ferry Running?",
        "home_page_url": "http://status.example/",
        "feed_url": "http://status.example/status",
        "items": [
            {
                "id": str(item.number),
                "url": f"http://status.example/{item.number}",
                "title": item.title,
                "content_text": item.text,
                "date_published": _iso(item.published),
            }
            for item in items
        ],
    }
    return json.dumps(document, indent=1).encode()


def _bytes(*parts: str) -> bytes:
    return "".join(parts).encode()


def _iso(instant: Instant) -> str:
    return datetime.fromtimestamp(int(instant), UTC).isoformat().replace("+00:00", "Z")


PROFILES = (
    PublisherProfile(
        "news", "application/rss+xml", _rss, 20 * 60, etag=True, last_modified=True, lifetime=3600, skip_hours=NIGHT
    ),
    PublisherProfile("blog", "application/atom+xml", _atom, 2 * 86_400, etag=True),
    PublisherProfile("links", "application/rdf+xml", _rdf, 2 * 3600, last_modified=True, lifetime=1800),
    PublisherProfile("status", "application/feed+json", _json, 6 * 3600, compresses=False),
)
