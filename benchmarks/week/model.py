"""The model of the week: feeds with their updates, and readers with their polls. The same seed gives the same week.

Shares and rhythms are from publications and measurements of real feeds and readers. benchmarks/README.md names the
sources, and the values that are assumptions. Virtual time 0 is Monday 00:00 GMT.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True, slots=True)
class Profile:
    """The properties of a set of feeds. `gaps` contains shares of the feeds, each with the least and the largest mean
    time between two updates in seconds, or None for feeds without an update in the week.
    """

    median_size: int
    sigma: float
    zipf: float
    churn: float
    gaps: tuple[tuple[float, float | None, float | None], ...]
    kinds: tuple[tuple[str, float], ...]
    ttl: float
    skip_hours: float
    skip_days: float
    syndication: float
    cache_control: float
    validators: tuple[tuple[str, float], ...]
    hints_follow: bool = False
    """True if a feed's hints follow its update rate, and False if they are random."""


PROFILES = {
    "imc2005": Profile(
        median_size=10_000,
        sigma=1.256,
        zipf=1.37,
        churn=0.05,
        gaps=(
            (0.41, 600, 3600),
            (0.14, 3600, 4500),
            (0.10, 4500, 21_600),
            (0.10, 21_600, 302_400),
            (0.25, None, None),
        ),
        kinds=(("edit", 0.20), ("item", 0.44), ("burst", 0.30), ("all", 0.06)),
        ttl=0.117,
        skip_hours=0.025,
        skip_days=0.005,
        syndication=0.05,
        cache_control=0.15,
        validators=(("both", 0.55), ("date", 0.18), ("tag", 0.10), ("none", 0.17)),
    ),
    "modern": Profile(
        median_size=78_000,
        sigma=1.46,
        zipf=1.0,
        churn=0.10,
        gaps=(
            (0.115, 900, 3600),
            (0.042, 3600, 14_400),
            (0.047, 14_400, 86_400),
            (0.178, 86_400, 604_800),
            (0.618, None, None),
        ),
        kinds=(("edit", 0.45), ("item", 0.35), ("burst", 0.15), ("all", 0.05)),
        ttl=0.076,
        skip_hours=0.011,
        skip_days=0.011,
        syndication=0.227,
        cache_control=0.45,
        validators=(("both", 0.62), ("date", 0.13), ("tag", 0.12), ("none", 0.13)),
    ),
    "survey2026": Profile(
        median_size=80_600,  # 234 KB in the mean
        sigma=1.46,
        zipf=1.0,
        churn=0.10,
        gaps=(
            (0.185, 900, 43_200),
            (0.046, 43_200, 86_400),
            (0.151, 86_400, 604_800),
            (0.618, None, None),
        ),
        kinds=(("edit", 0.45), ("item", 0.35), ("burst", 0.15), ("all", 0.05)),
        ttl=0.076,
        skip_hours=0.011,
        skip_days=0.011,
        syndication=0.095,
        cache_control=0.45,
        validators=(("both", 0.62), ("date", 0.13), ("tag", 0.12), ("none", 0.13)),
        hints_follow=True,
    ),
}

TTL = (
    *((5, 0.03), (10, 0.05), (15, 0.07), (20, 0.03), (30, 0.12), (60, 0.47), (120, 0.05), (180, 0.03)),
    *((240, 0.03), (720, 0.03), (1440, 0.07), (0, 0.02)),
)
MAX_AGE = (
    *((0, 0.22), (60, 0.10), (300, 0.22), (600, 0.16), (900, 0.06), (1800, 0.05), (3600, 0.13)),
    *((43_200, 0.03), (86_400, 0.03)),
)
NEVER_FRESH = ("no-cache", "max-age=0", "no-cache, no-store, must-revalidate")
SYNDICATION = (("hourly", 0.85), ("daily", 0.13), ("weekly", 0.02))
RSS_TYPES = (
    *(("application/rss+xml; charset=utf-8", 0.35), ("text/xml; charset=utf-8", 0.20), ("text/xml", 0.12)),
    *(("application/xml", 0.20), ("application/atom+xml", 0.08), ("text/html; charset=utf-8", 0.05)),
)
FATES = (("stays", 0.955), ("moves", 0.015), ("ends", 0.01), ("outage", 0.02))
OUTAGE = 90 * MINUTE
LIMITED_FIRST, LIMITED_EVERY = 3, 20
"""Number of the first feed at the site that limits requests, and distance to the next such feed: one feed in twenty,
beginning with the fourth in popularity.
"""
DATED = 0.96
"""Fraction of the feeds with dates in their entries: 191 of 198."""


@dataclass(frozen=True, slots=True)
class Update:
    """An update of a feed. An update of the kind `churn` changes only the build date, and makes no new revision."""

    at: float
    kind: str


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed with its updates in the week."""

    number: int
    atom: bool
    size: int
    items: int
    usual_gap: float
    first: float
    """Instant of the newest entry that was published before the week; negative."""
    updates: tuple[Update, ...]
    validators: str
    tag_form: str
    dated: bool
    ttl: int | None
    skip_hours: frozenset[int]
    skip_days: frozenset[int]
    syndication: tuple[str, int] | None
    cache_control: str | None
    content_type: str
    fate: str
    fate_at: float

    @property
    def path(self) -> str:
        """Path of the feed at the origin."""
        return f"/f/{self.number}.xml"

    @property
    def is_withheld(self) -> bool:
        """True if HTTP permits no answer without a request to the origin."""
        return self.cache_control is not None and "no-" in self.cache_control

    @property
    def is_limited(self) -> bool:
        """True if the feed is at the site that limits the requests of each address."""
        return self.number % LIMITED_EVERY == LIMITED_FIRST

    @property
    def is_silent(self) -> bool:
        """True if neither HTTP nor the feed states a lifetime."""
        return self.cache_control is None and self.ttl in (None, 0) and self.syndication is None


def pick[T](random: Random, table: Sequence[tuple[T, float]]) -> T:
    """Return a random value from a table of values and their shares."""
    return random.choices([each for each, _ in table], [share for _, share in table])[0]


def make_feeds(name: str, count: int, seed: int, days: float) -> list[Feed]:
    """Return the feeds of a profile, the most popular first."""
    profile = PROFILES[name]
    return [_feed(profile, number, Random(f"{seed}/feed/{number}"), days) for number in range(count)]


def _feed(profile: Profile, number: int, random: Random, days: float) -> Feed:
    size = int(min(2_500_000, max(600, profile.median_size * math.exp(random.gauss(0, profile.sigma)))))
    low, high = pick(random, [((low, high), share) for share, low, high in profile.gaps])
    gap = low * (high / low) ** random.random() if low and high else None
    atom = random.random() < 0.22
    diurnal = random.random() < 0.6
    rss_share = 0.78

    def has(share: float) -> bool:
        return not atom and random.random() < share / rss_share

    hours = days_off = frozenset[int]()
    ttl = pick(random, TTL) if has(profile.ttl) else None
    if has(profile.skip_hours):
        hours = frozenset({random.randrange(24), *range(random.choice((4, 6, 7, 8)))})
    if has(profile.skip_days):
        days_off = frozenset((5, 6)[random.randrange(2) :])
    syndication = None
    if has(profile.syndication):
        syndication = pick(random, SYNDICATION), pick(random, ((1, 0.85), (2, 0.10), (4, 0.05)))
    if profile.hints_follow:
        ttl = ttl and _ttl_of(gap)
        syndication = syndication and _syndication_of(gap)
    control = None
    if random.random() < profile.cache_control:
        age = pick(random, MAX_AGE)
        control = f"max-age={age}" if age else random.choice(NEVER_FRESH)
    first = -random.expovariate(1 / (gap or 14 * DAY))
    return Feed(
        number=number,
        atom=atom,
        size=size,
        items=max(5, min(200, round(size / 2200))),
        usual_gap=gap or 7 * DAY * 8 ** random.random(),
        first=first,
        updates=tuple(_updates(profile, gap, diurnal, random, days)),
        validators=pick(random, profile.validators),
        tag_form=pick(random, (('"%s"', 0.70), ('W/"%s"', 0.25), ("%s", 0.05))),
        dated=random.random() < DATED,
        ttl=ttl,
        skip_hours=hours,
        skip_days=days_off,
        syndication=syndication,
        cache_control=control,
        content_type="application/atom+xml; charset=utf-8" if atom else pick(random, RSS_TYPES),
        fate=pick(random, FATES),
        fate_at=random.uniform(0.2, 0.8) * days * DAY,
    )


def _ttl_of(gap: float | None) -> int:
    """Return the longest common ttl, in minutes, that is no longer than the mean gap between updates."""
    return max((minutes for minutes, _ in TTL if 0 < 60 * minutes <= (gap or DAY)), default=5)


def _syndication_of(gap: float | None) -> tuple[str, int]:
    return ("daily", 1) if gap is None or gap >= DAY else ("hourly", 1) if gap >= HOUR else ("hourly", 4)


def _updates(profile: Profile, gap: float | None, diurnal: bool, random: Random, days: float) -> list[Update]:
    found, at = [], 0.0
    while gap:
        at += random.expovariate(1 / gap) * 0.8 + 0.2 * gap
        if at > days * DAY:
            break
        if random.random() <= _rate(diurnal, at) / 1.92 * 1.35:
            found.append(Update(round(at), pick(random, profile.kinds)))
    if random.random() < profile.churn:
        every = random.choice((900, 3600, 3600, 3600))
        found += [Update(at, "churn") for at in range(random.randrange(every), int(days * DAY), every)]
    return sorted(found, key=lambda each: each.at)


def _rate(diurnal: bool, at: float) -> float:
    """Return the relative frequency of updates at this instant. It is higher by day and on weekdays."""
    if not diurnal:
        return 1.0
    return (1.6 if 7 <= at % DAY / HOUR < 22 else 0.16) * (0.5 if at // DAY % 7 >= 5 else 1.2)


@dataclass(frozen=True, slots=True)
class Manner:
    """A kind of reader. `validators` contains the shares of readers that send validators always, sometimes, never, or
    with errors.
    """

    name: str
    share: float
    every: float
    jitter: float
    online: tuple[int, int] | None
    validators: tuple[float, float, float, float]


MANNERS = (
    Manner("hourly", 0.27, 3600, 0.01, None, (0.86, 0.03, 0.07, 0.04)),
    Manner("on the hour", 0.09, 3600, 0.0, None, (0.72, 0.02, 0.22, 0.04)),
    Manner("hourly by day", 0.22, 3600, 0.02, (9, 10), (0.80, 0.06, 0.10, 0.04)),
    Manner("half-hourly", 0.13, 1800, 0.02, None, (0.80, 0.05, 0.11, 0.04)),
    Manner("quarter-hourly", 0.06, 900, 0.02, None, (0.72, 0.05, 0.18, 0.05)),
    Manner("ten minutes", 0.02, 600, 0.02, None, (0.60, 0.05, 0.30, 0.05)),
    Manner("much too often", 0.006, 90, 0.05, None, (0.25, 0.05, 0.65, 0.05)),
    Manner("three-hourly", 0.10, 10_800, 0.05, None, (0.82, 0.04, 0.10, 0.04)),
    Manner("a few times a day", 0.09, 28_800, 0.4, (7, 15), (0.75, 0.05, 0.16, 0.04)),
    Manner("aggregator", 0.014, 2400, 0.30, None, (0.93, 0.03, 0.03, 0.01)),
)
CODINGS = (
    *(("gzip, deflate, br", 0.33), ("gzip, deflate", 0.34), ("gzip", 0.22), ("gzip, deflate, br, zstd", 0.05)),
    *(("", 0.035), ("identity", 0.01), ("deflate", 0.005), ("br;q=1.0, gzip;q=0.5, *;q=0", 0.01)),
)
AGENTS = ("NetNewsWire", "FreshRSS/1.24.3", "Miniflux/2.2.0", "newsboat/2.36", "Liferea/1.15.7", "Thunderbird/128.0")


@dataclass(frozen=True, slots=True)
class Reader:
    """A feed reader. `kind` names the validators that it sends: both, date, or tag."""

    number: int
    manner: Manner
    feeds: tuple[int, ...]
    phase: float
    every: float
    online: tuple[int, int] | None
    validators: str
    kind: str
    codings: str
    agent: str
    no_cache: bool
    authorized: bool
    at_once: bool
    wants_deltas: bool

    @property
    def address(self) -> str:
        """The reader's address in X-Forwarded-For, from the range of RFC 2544."""
        return f"198.18.{self.number // 250}.{self.number % 250 + 1}"


def make_readers(name: str, count: int, feeds: int, seed: int) -> list[Reader]:
    """Return `count` readers of a profile, with the same shares of kinds for every `count`. The popularity of feeds
    follows Zipf's law.
    """
    manners = [each for each in MANNERS for _ in range(round(each.share * count))]
    manners = (manners + [MANNERS[0]] * count)[:count]
    Random(f"{seed}/manners").shuffle(manners)
    appetite = {
        number: math.exp(Random(f"{seed}/appetite/{number}").gauss(math.log(4.5), 1.15))
        for number, manner in enumerate(manners)
        if manner.name != "aggregator"
    }
    subscribed = _subscriptions(appetite, PROFILES[name].zipf, feeds, seed)
    return [_reader(number, manner, subscribed, feeds, seed) for number, manner in enumerate(manners)]


def _subscriptions(appetite: dict[int, float], zipf: float, feeds: int, seed: int) -> dict[int, list[int]]:
    """Return the feeds that each reader subscribes to. The feeds' numbers of subscribers follow Zipf's law exactly.
    Readers with a larger `appetite` subscribe to more feeds."""
    total = sum(min(feeds / 2, each) for each in appetite.values())
    low, high = 0.0, float(len(appetite) * feeds + 1)
    for _ in range(60):
        middle = (low + high) / 2
        counted = sum(min(0.9 * len(appetite), middle / (rank + 1) ** zipf) for rank in range(feeds))
        low, high = (middle, high) if counted < total else (low, middle)
    found: dict[int, list[int]] = {number: [] for number in appetite}
    for feed in range(feeds):
        random = Random(f"{seed}/subscribers/{feed}")
        wanted = max(1, round(min(0.9 * len(appetite), low / (feed + 1) ** zipf)))
        keyed = sorted(appetite, key=lambda number: -math.log(1 - random.random()) / appetite[number])
        for number in keyed[:wanted]:
            found[number].append(feed)
    return found


def _reader(number: int, manner: Manner, subscribed: dict[int, list[int]], feeds: int, seed: int) -> Reader:
    random = Random(f"{seed}/reader/{number}")
    aggregator = manner.name == "aggregator"
    if aggregator:
        chosen = [feed for feed in range(feeds) if random.random() < random.uniform(0.5, 0.95)] or [0]
    else:
        chosen = subscribed[number] or [int(feeds ** random.random()) - 1]
    validators = random.choices(("always", "sometimes", "never", "broken"), manner.validators)[0]
    online = manner.online
    subscribers = max(2, int(math.exp(random.gauss(4.2, 1.4))))
    return Reader(
        number=number,
        manner=manner,
        feeds=tuple(chosen),
        phase=0.0 if manner.name == "on the hour" else random.uniform(0, manner.every),
        every=manner.every * random.uniform(0.85, 1.2) if aggregator else manner.every,
        online=((online[0] + random.randint(-2, 3)) % 24, online[1] + random.randint(-2, 3)) if online else None,
        validators=validators,
        kind=pick(random, (("both", 0.62), ("date", 0.22), ("tag", 0.16))),
        codings=pick(random, CODINGS),
        agent=f"Aggregator/1.0 ({subscribers} subscribers)" if aggregator else random.choice(AGENTS),
        no_cache=random.random() < 0.04,
        authorized=random.random() < 0.003,
        at_once=random.random() < 0.7,
        # Readers that support RFC 3229 also send conditional requests.
        wants_deltas=validators == "always" and random.random() < 0.1 / 0.8,
    )


@dataclass(frozen=True, slots=True, order=True)
class Poll:
    """A request of a reader for a feed."""

    at: float
    reader: int
    feed: int
    conditional: bool


def polls_of(reader: Reader, seed: int, days: float) -> Iterator[Poll]:
    """Yield the polls of a reader in the week."""
    random, end, at = Random(f"{seed}/trace/{reader.number}"), days * DAY, reader.phase
    while at < end:
        if _is_online(reader, at):
            offset = 0.0
            for feed in reader.feeds:
                offset += random.uniform(0.05, 2.0) if reader.at_once else reader.every / (len(reader.feeds) + 1)
                moment = at + offset + (random.uniform(0, 20) if reader.manner.name == "on the hour" else 0.0)
                known = {"always": True, "broken": True, "never": False}.get(reader.validators)
                conditional = random.random() < 0.5 if known is None else known
                if moment < end:
                    yield Poll(round(moment, 1), reader.number, feed, conditional)
        at += reader.every * (1 + random.uniform(-reader.manner.jitter, reader.manner.jitter))


def _is_online(reader: Reader, at: float) -> bool:
    return reader.online is None or (at % DAY / HOUR - reader.online[0]) % 24 < reader.online[1]
