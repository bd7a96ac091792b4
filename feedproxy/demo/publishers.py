"""Publishers of the demo: four small feeds of different kinds, reproducible by seed.

    news      RSS 2.0, an item about every twenty minutes by day; `ttl` 60, skipHours at night; ETag and Last-Modified
    blog      Atom, an entry every two days; ETag alone, no hints
    links     RSS 1.0 with sy:hourly/2; Last-Modified alone
    status    JSON Feed; no validators, no hints, and an origin that never compresses

Each feed has a self link, so feedproxy adds none, and its content can be compared byte for byte with the published one.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from msgspec import Struct

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.channel import NO_HINTS, Period, Schedule
from feedproxy.feed.convert import model
from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.schedule_hints import is_skipped

START: Instant = datetime(2026, 1, 7, 7, tzinfo=UTC).timestamp()
"""Start of the demo: a Wednesday at 07:00 GMT. A run of one day contains office hours."""

ITEMS_MAX = 15
"""Number of items of a feed."""

PAST: Seconds = 60 * 86_400
"""The first item is created this many seconds before START, so that every feed has ITEMS_MAX items at START."""

NIGHT = frozenset({22, 23, 0, 1, 2, 3, 4, 5})

VOCABULARY = (
    "harbour council evening garden bridge winter library train market school river festival report museum street "
    "music plan answer morning bakery letter weather signal village station paper orchard meeting question window "
    "lantern voyage kettle meadow compass ferry archive timber glass record season theatre mountain border thread"
)
WORD_LIST = VOCABULARY.split()


class DemoItem(Struct, frozen=True):
    """An item of a feed."""

    number: int
    published: Instant
    title: str
    text: str


class DemoVersion(Struct, frozen=True):
    """The content of a feed from an instant on."""

    number: int
    since: Instant
    body: bytes


class PublisherProfile(Struct, frozen=True):
    """The format, frequency and HTTP behaviour of a publisher."""

    name: str
    title: str
    format: str
    """Name of the feed's format (feed/convert), which also determines its Content-Type."""
    pause: Seconds
    """Mean time between two items, in seconds."""
    schedule: Schedule = NO_HINTS
    etag: bool = False
    last_modified: bool = False
    compresses: bool = True
    lifetime: Seconds = 0
    """Seconds for which the feed's hints permit using a copy, or 0 if the feed has no such hints."""


@dataclass
class DemoFeed:
    """A feed with all its items: those before the start of the simulation (START), and those during the simulation."""

    profile: PublisherProfile
    items: tuple[DemoItem, ...]
    _versions: dict[int, DemoVersion] = field(default_factory=dict)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def at(self, now: Instant) -> DemoVersion:
        """Return the version that is current at `now`."""
        return self.version(bisect_right(self.items, now, key=lambda item: item.published) - 1)

    def version(self, number: int) -> DemoVersion:
        """Return the version with item `number` as its latest."""
        version = self._versions.get(number)
        if version is None:
            items = self.items[max(0, number - ITEMS_MAX + 1) : number + 1][::-1]
            body = _render(self.profile, items)
            version = self._versions[number] = DemoVersion(number, items[0].published, body)
            self._numbers[body] = number
        return version

    def allows_copy(self, fetched: Instant, now: Instant) -> bool:
        """Return True if the feed's hints permit the use, at the instant `now`, of a copy fetched at `fetched`: while
        the copy is younger than ttl or sy:* states, and in skipHours."""
        return now - fetched < self.profile.lifetime or is_skipped(self.profile.schedule, now)

    def find_version_number(self, body: bytes) -> int | None:
        """Return the number of the version with the content `body`, or None if there is none."""
        return self._numbers.get(body)


def create_feeds(seed: int, *, days: int) -> list[DemoFeed]:
    """Return the four feeds with all items that they publish until the demo ends, `days` days after START."""
    return [DemoFeed(profile, tuple(_items(profile, seed, START + days * 86_400))) for profile in PROFILES]


def _items(profile: PublisherProfile, seed: int, end: Instant) -> list[DemoItem]:
    random = Random(f"{seed}/{profile.name}")  # noqa: S311 -- a simulation, no secret
    items: list[DemoItem] = []
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
        items.append(DemoItem(number, at, title, text))


def _render(profile: PublisherProfile, items: Sequence[DemoItem]) -> bytes:
    site = f"http://{profile.name}.example/"
    media_type, _, _ = FORMATS[profile.format].media_type.partition(";")
    feed = model.Feed(
        id=site,
        title=model.Text(profile.title),
        summary=model.Text("A feed of the demo"),
        links=(model.Link(site), model.Link(f"{site}{profile.name}", "self", media_type)),
        authors=(model.Person("A. Writer"),),
        updated=int(items[0].published) if profile.format == "atom" else None,
        schedule=profile.schedule,
        items=tuple(
            model.Item(
                id=f"{site}{item.number}",
                is_permalink=True,
                title=model.Text(item.title),
                links=(model.Link(f"{site}{item.number}"),),
                published=int(item.published),
                updated=int(item.published) if profile.format == "atom" else None,
                content=model.Text(item.text),
            )
            for item in items
        ),
    )
    return FORMATS[profile.format].render(feed)


PROFILES = (
    PublisherProfile(
        "news",
        "The Daily Harbour",
        "rss",
        20 * 60,
        Schedule(ttl=60, skip_hours=NIGHT),
        etag=True,
        last_modified=True,
        lifetime=3600,
    ),
    PublisherProfile("blog", "Notes from an Orchard", "atom", 2 * 86_400, etag=True),
    PublisherProfile(
        "links",
        "Found on the Way",
        "rdf",
        2 * 3600,
        Schedule(period=Period.HOURLY, frequency=2),
        last_modified=True,
        lifetime=1800,
    ),
    PublisherProfile("status", "Is the Ferry Running?", "json", 6 * 3600, compresses=False),
)
