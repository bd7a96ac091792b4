"""All that is kept of one target URI, as one value: it is written whole or not at all."""

from dataclasses import dataclass, field
from enum import StrEnum

from feedproxy.cache.stored import StoredResponse
from feedproxy.clock import Instant
from feedproxy.feed.channel import Channel


class Ending(StrEnum):
    """What an origin says of an address for good."""

    MOVED = "moved"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Sighting:
    """A permanent move or end that an origin has told, and how often (DESIGN: Moves)."""

    ending: Ending
    location: str
    """The new address; empty for an end."""
    first: Instant
    last: Instant
    """The last sighting that counted, that is, far enough from the one before."""
    count: int
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Failures:
    """Tries in a row that brought nothing usable."""

    count: int = 0
    since: Instant = 0.0
    last: Instant = 0.0
    detail: str = ""
    next_try: Instant = 0.0
    """Back-off: not to be asked again before."""
    asked: bool = False
    """`next_try` is the origin's own word, and later than our back-off."""


@dataclass(frozen=True, slots=True)
class NewShape:
    """A shape the feed may have taken (ill-formed now, or of another kind), not yet believed."""

    shape: str
    first: Instant
    count: int


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a feed that readers have had: what it goes by, and what its entries were."""

    tag: str
    """The stem of its entity tags."""
    last_modified: Instant | None
    """As readers were told."""
    entries: bytes
    """Identity and digest of each, sixteen bytes (feed/entries.py)."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One target URI: its stored variants, what its feed says, and what its origin has done.

    `changes` are the instants at which the feed's content was seen to change, newest last, at most 32.
    `versions` are the feed's last ones, the current among them, newest last, that deltas are reckoned from.
    `oversized` remembers that the body was above the cap, so that the next request streams at once.
    `parts` are pieces of what is no feed (cache/partial.py): they stand apart so that nothing takes one for a whole.
    """

    target: str
    variants: tuple[StoredResponse, ...] = ()
    channel: Channel | None = None
    changes: tuple[Instant, ...] = ()
    fetched: Instant = 0.0
    """The last time the origin was asked."""
    sighting: Sighting | None = None
    failures: Failures = field(default_factory=Failures)
    new_shape: NewShape | None = None
    oversized: bool = False
    versions: tuple[Version, ...] = ()
    parts: tuple[StoredResponse, ...] = ()

    def size(self) -> int:
        """Bytes of content held."""
        return sum(variant.content.size() for variant in (*self.variants, *self.parts))
