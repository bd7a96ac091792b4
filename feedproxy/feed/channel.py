"""The channel: the metadata of a feed of any format."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import astuple

from feedproxy.clock import Instant, Seconds


class Kind(StrEnum):
    """The families of feed formats."""

    RSS = "rss"  # 0.91 to 2.0: root element `rss`
    RDF = "rdf"  # RSS 0.90 and 1.0: root element `rdf:RDF`; RSS 1.1: root element `Channel`
    ATOM = "atom"  # 0.3 and 1.0
    JSON = "json"  # JSON Feed 1 and 1.1
    CDF = "cdf"  # Channel Definition Format

    @property
    def format_name(self) -> str:
        """Return the usual name of the format. All versions of RSS are called RSS."""
        return {Kind.RDF: "RSS", Kind.ATOM: "Atom", Kind.JSON: "JSON Feed"}.get(self, self.upper())

    @property
    def media_types(self) -> tuple[str, ...]:
        """Return the correct media types of the format, the usual one first."""
        return _MEDIA_TYPES[self]


_MEDIA_TYPES = {
    # "you must change the Content-Type header to return the application/rss+xml media type" -- USM, Content-Type
    Kind.RSS: ("application/rss+xml",),
    Kind.RDF: ("application/rss+xml", "application/rdf+xml"),
    Kind.ATOM: ("application/atom+xml",),
    Kind.JSON: ("application/feed+json", "application/json"),
    Kind.CDF: ("application/x-cdf",),
}

READER_MEDIA_TYPES = ("application/rss+xml", "application/atom+xml", "application/feed+json", "application/rdf+xml")
"""Media types that feed readers accept. A browser opens a feed with such a type in a feed reader."""


class Period(StrEnum):
    """Values of sy:updatePeriod (RSS 1.0 syndication module)."""

    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    YEARLY = "yearly"

    @property
    def noun(self) -> str:
        return "day" if self is Period.DAILY else self.removesuffix("ly")

    @property
    def seconds(self) -> Seconds:
        """Return the length of the period in seconds. A month counts as 30 days, and a year as 365."""
        return {"hour": 1, "day": 24, "week": 7 * 24, "month": 30 * 24, "year": 365 * 24}[self.noun] * 3600.0


class Schedule(Struct, frozen=True, omit_defaults=True):
    """The publisher's hints for the times of fetches. Invalid hints are ignored, and named in `notes`."""

    ttl: int | None = None
    """Minutes for which the feed may be cached (RSS 2.0)."""
    skip_hours: frozenset[int] = frozenset()
    """Hours to skip, 0 to 23, in GMT."""
    skip_days: frozenset[int] = frozenset()
    """Days to skip, in GMT; 0 is Monday."""
    period: Period | None = None
    frequency: int = 1
    base: Instant | None = None
    """sy:updateBase: the instant from which the periods of the syndication module are counted."""
    interval: Seconds | None = None
    """Time between updates, in seconds: the element INTERVALTIME of CDF's SCHEDULE."""
    notes: tuple[str, ...] = ()
    finished: bool = False
    """True if the publisher states that the feed has ended.

    The elements are `expired` in JSON Feed, itunes:complete, and `complete` of podcast:updateFrequency.
    """


NO_HINTS = Schedule()
"""The schedule of a feed without hints."""


class SelfLink(Struct, frozen=True, omit_defaults=True):
    """A link to the feed's own address (USM; RFC 4287, section 4.2.7)."""

    rel: str
    href: str
    type: str
    namespace: str


CLOUD_ATTRIBUTES = ("domain", "port", "path", "registerProcedure", "protocol")
"""Attributes of the element `cloud` of RSS, in the order of the fields of Cloud."""


class Cloud(Struct, frozen=True, omit_defaults=True):
    domain: str
    port: str
    path: str
    register_procedure: str
    protocol: str

    @property
    def attributes(self) -> dict[str, str]:
        """Return the attributes of the element `cloud` with their values."""
        return dict(zip(CLOUD_ATTRIBUTES, astuple(self), strict=True))


class Channel(Struct, frozen=True, omit_defaults=True):
    """The metadata of a feed."""

    kind: Kind
    version: str
    """Version of the format, such as `2.0`, or empty if the document declares no version."""
    well_formed: bool
    """True if the document has no syntax error. feed/parse/channel_scan.py does not find errors in items."""
    title: str = ""
    link: str = ""
    schedule: Schedule = NO_HINTS
    self_links: tuple[SelfLink, ...] = ()
    hubs: tuple[str, ...] = ()
    cloud: Cloud | None = None
    new_feed_url: str = ""
    """Text of itunes:new-feed-url: the new address of a podcast, or its present address."""
    items: int = 0
    content_digest: str = ""
    """Digest of the content, in hexadecimal, or a marker for it (`pending_digest`), or "" if it is not computed."""
