"""The channel: the metadata of a feed of any format."""

from dataclasses import dataclass, field
from enum import StrEnum

from feedproxy.clock import Instant, Seconds


class Kind(StrEnum):
    """The families of feed formats."""

    RSS = "rss"  # 0.91 to 2.0: root element `rss`
    RDF = "rdf"  # RSS 0.90 and 1.0: root element `rdf:RDF`
    ATOM = "atom"  # 0.3 and 1.0
    JSON = "json"  # JSON Feed 1 and 1.1
    CDF = "cdf"  # Channel Definition Format

    @property
    def format_name(self) -> str:
        """Return the name of the format as people write it. RSS 1.0 (RDF) has the same name as the other versions of
        RSS.
        """
        return {Kind.RDF: "RSS", Kind.ATOM: "Atom", Kind.JSON: "JSON Feed"}.get(self, self.upper())


class Period(StrEnum):
    """Values of sy:updatePeriod (RSS 1.0 syndication module)."""

    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    YEARLY = "yearly"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times at which the publisher wants the feed to be fetched.

    Invalid hints are left out and named in `notes`.
    """

    ttl: int | None = None
    """Minutes for which the feed may be cached (RSS 2.0)."""
    skip_hours: frozenset[int] = frozenset()
    """Hours to skip, 0 to 23, in GMT (RSS 0.91, 2.0)."""
    skip_days: frozenset[int] = frozenset()
    """Days to skip, in GMT; 0 is Monday."""
    period: Period | None = None
    frequency: int = 1
    base: Instant | None = None
    """Value of sy:updateBase: the instant from which the periods of the syndication module are counted."""
    interval: Seconds | None = None
    """Value of CDF's SCHEDULE INTERVALTIME, in seconds."""
    notes: tuple[str, ...] = ()
    finished: bool = False
    """True if the publisher states that the feed will not be updated any more: `expired` of JSON Feed, itunes:complete,
    or `complete` of podcast:updateFrequency."""


@dataclass(frozen=True, slots=True)
class SelfLink:
    """A link that names the feed's own address (USM; RFC 4287, section 4.2.7)."""

    rel: str
    href: str
    type: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Cloud:
    """The five attributes of rssCloud's element, as written."""

    domain: str
    port: str
    path: str
    register_procedure: str
    protocol: str


@dataclass(frozen=True, slots=True)
class Channel:
    """The metadata of a feed."""

    kind: Kind
    version: str
    """Version of the format: `2.0`, `0.91`, `1.0`, `0.3`, `1.1`; empty if the document does not declare it."""
    well_formed: bool
    """True if the document has no syntax error. If only the channel was parsed (feed/parse/channel_scan.py), errors
    within items are not detected."""
    title: str = ""
    link: str = ""
    schedule: Schedule = field(default_factory=Schedule)
    self_links: tuple[SelfLink, ...] = ()
    hubs: tuple[str, ...] = ()
    cloud: Cloud | None = None
    new_feed_url: str = ""
    """Text of itunes:new-feed-url: the address to which a podcast has moved, or that of the document itself."""
    items: int = 0
    content_digest: str = ""
    """Digest of the content in hexadecimal; two documents with the same digest have the same content. If only the
    channel was parsed, the field contains a marker for a digest that is computed later (feed/content_digest.py)."""
