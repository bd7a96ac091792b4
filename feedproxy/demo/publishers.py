"""Publishers of the demo: four small feeds of different kinds, reproducible by seed.

news      RSS 2.0, an item every twenty minutes or so by day; `ttl` 60, skipHours at night; ETag and Last-Modified
blog      Atom, an entry every two days; ETag alone, no hints
links     RSS 1.0 with sy:hourly/2; Last-Modified alone
status    JSON Feed; no validators, no hints, and an origin that never compresses

Each names its own address (USM's self link), so feedproxy has nothing to add and readers can be checked for having
got, byte for byte, what was published.
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
"""A Wednesday at 07:00 GMT: the readers of the office have been there within the last day, whenever it ends."""

ITEMS = 15
"""Items a feed shows, as most do."""

BEFORE: Seconds = 60 * 86_400
"""How much of the past is written, so that every feed is full when the play begins."""

NIGHT = frozenset({22, 23, 0, 1, 2, 3, 4, 5})

VOCABULARY = (
    "harbour council evening garden bridge winter library train market school river festival report museum street "
    "music plan answer morning bakery letter weather signal village station paper orchard meeting question window "
    "lantern voyage kettle meadow compass ferry archive timber glass record season theatre mountain border thread"
)
WORDS = VOCABULARY.split()


@dataclass(frozen=True, slots=True)
class Item:
    """One item."""

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
class Manner:
    """How a publisher publishes."""

    name: str
    content_type: str
    write: Callable[[Sequence[Item]], bytes]
    pause: Seconds
    """Usual time between two items."""
    etag: bool = False
    last_modified: bool = False
    compresses: bool = True
    lifetime: Seconds = 0
    """How long a copy may answer, as the feed states; 0 where it does not."""
    skip_hours: frozenset[int] = frozenset()


@dataclass
class Feed:
    """A feed with its past and its future."""

    manner: Manner
    items: tuple[Item, ...]
    _versions: dict[int, Version] = field(default_factory=dict)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name in the table."""
        return self.manner.name

    @property
    def path(self) -> str:
        """Where it stands at its origin."""
        return f"/{self.name}"

    def at(self, now: Instant) -> Version:
        """The version that is current at this moment."""
        return self.version(bisect_right(self.items, now, key=lambda item: item.published) - 1)

    def version(self, number: int) -> Version:
        """The version whose latest item has this number."""
        found = self._versions.get(number)
        if found is None:
            shown = self.items[max(0, number - ITEMS + 1) : number + 1][::-1]
            body = self.manner.write(shown)
            found = self._versions[number] = Version(number, shown[0].published, body)
            self._numbers[body] = number
        return found

    def grants(self, fetched: Instant, now: Instant) -> bool:
        """Return whether the feed's ttl, sy:* or skipHours let a copy answer that was fetched then."""
        return now - fetched < self.manner.lifetime or datetime.fromtimestamp(now, UTC).hour in self.manner.skip_hours

    def number_of(self, body: bytes) -> int | None:
        """Which version these bytes are; None if none that was ever current."""
        return self._numbers.get(body)


def feeds(seed: int, *, days: int) -> list[Feed]:
    """The four feeds with their items, from before the play until its end."""
    return [Feed(manner, tuple(_items(manner, seed, START + days * 86_400))) for manner in MANNERS]


def _items(manner: Manner, seed: int, end: Instant) -> list[Item]:
    random = Random(f"{seed}/{manner.name}")  # noqa: S311 -- a play, no secret
    found: list[Item] = []
    at = START - BEFORE
    while True:
        at += random.expovariate(1 / manner.pause) + 60
        if datetime.fromtimestamp(at, UTC).hour in NIGHT:
            continue  # no feed has items at night, with skipHours or without
        if at >= end:
            return found
        number = len(found)
        title = " ".join(random.choices(WORDS, k=5)).capitalize()
        text = " ".join(random.choices(WORDS, k=random.randint(40, 90))).capitalize() + "."
        found.append(Item(number, at, title, text))


# -- the four formats; WORDS hold nothing that would need to be escaped


def _rss(items: Sequence[Item]) -> bytes:
    hours = "".join(f"<hour>{hour}</hour>" for hour in sorted(NIGHT))
    return _bytes(
        '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>',
        "<title>The Daily Harbour</title><link>http://news.example/</link><description>News</description>",
        '<atom:link href="http://news.example/news" rel="self" type="application/rss+xml"/>',
        f"<ttl>60</ttl><skipHours>{hours}</skipHours>",
        *(
            f"<item><title>{each.title}</title><link>http://news.example/{each.number}</link>"
            f"<guid>http://news.example/{each.number}</guid><pubDate>{format_http_date(each.published)}</pubDate>"
            f"<description>{each.text}</description></item>"
            for each in items
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
            f'<entry><title>{each.title}</title><link href="http://blog.example/{each.number}"/>'
            f"<id>tag:blog.example,2026:{each.number}</id><updated>{_iso(each.published)}</updated>"
            f'<content type="html">&lt;p&gt;{each.text}&lt;/p&gt;</content></entry>'
            for each in items
        ),
        "</feed>",
    )


def _rdf(items: Sequence[Item]) -> bytes:
    order = "".join(f'<rdf:li rdf:resource="http://links.example/{each.number}"/>' for each in items)
    return _bytes(
        '<?xml version="1.0" encoding="utf-8"?>\n<rdf:RDF xmlns="http://purl.org/rss/1.0/"',
        ' xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:atom="http://www.w3.org/2005/Atom"',
        ' xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"><channel rdf:about="http://links.example/links">',
        "<title>Found on the Way</title><link>http://links.example/</link><description>Links</description>",
        '<atom:link href="http://links.example/links" rel="self" type="application/rss+xml"/>',
        "<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>2</sy:updateFrequency>",
        f"<items><rdf:Seq>{order}</rdf:Seq></items></channel>",
        *(
            f'<item rdf:about="http://links.example/{each.number}"><title>{each.title}</title>'
            f"<link>http://links.example/{each.number}</link><description>{each.text}</description></item>"
            for each in items
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
                "id": str(each.number),
                "url": f"http://status.example/{each.number}",
                "title": each.title,
                "content_text": each.text,
                "date_published": _iso(each.published),
            }
            for each in items
        ],
    }
    return json.dumps(document, indent=1).encode()


def _bytes(*parts: str) -> bytes:
    return "".join(parts).encode()


def _iso(instant: Instant) -> str:
    return datetime.fromtimestamp(int(instant), UTC).isoformat().replace("+00:00", "Z")


MANNERS = (
    Manner(
        "news", "application/rss+xml", _rss, 20 * 60, etag=True, last_modified=True, lifetime=3600, skip_hours=NIGHT
    ),
    Manner("blog", "application/atom+xml", _atom, 2 * 86_400, etag=True),
    Manner("links", "application/rdf+xml", _rdf, 2 * 3600, last_modified=True, lifetime=1800),
    Manner("status", "application/feed+json", _json, 6 * 3600, compresses=False),
)
