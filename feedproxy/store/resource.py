"""All that is kept of one target URI, as one value: it is written whole or not at all."""

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant, is_set_back
from feedproxy.feed.channel import Channel
from feedproxy.store.packing.packed_sequences import Compact, Instants
from feedproxy.store.previous_contents import NO_CONTENTS, PreviousContents

NEVER = math.nan
_VERSION = struct.Struct("<HId")
_EDITION = struct.Struct("<dQIH")


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
    """Identity and digest of each, sixteen bytes (feed/delta/entries.py)."""


class Versions(Compact[Version]):
    """Versions: for each its tag's length (two bytes), its entries' length (four), its date, its tag and entries."""

    __slots__ = ()

    def __init__(self, versions: Iterable[Version]) -> None:
        parts: list[bytes] = []
        for each in versions:
            tag = each.tag.encode("utf-8", "surrogatepass")
            date = NEVER if each.last_modified is None else each.last_modified
            parts += (_VERSION.pack(len(tag), len(each.entries), date), tag, each.entries)
        self._data = b"".join(parts)

    def _values(self) -> tuple[Version, ...]:
        found, at, data = [], 0, self._data
        while at < len(data):
            length, size, date = _VERSION.unpack_from(data, at)
            start = at + _VERSION.size
            at = start + length + size
            tag = data[start : start + length].decode("utf-8", "surrogatepass")
            found.append(Version(tag, None if math.isnan(date) else date, data[start + length : at]))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Edition:
    """A version of a feed for the operator to look at: when it was first seen, and how large it was.

    `tag` is the stem of its entity tags, by which `versions` know its entries; empty where it had none.
    """

    at: Instant
    size: int
    """Bytes, without a coding."""
    items: int
    tag: str = ""


class Editions(Compact[Edition]):
    """Editions: for each its instant, size and number of items, its tag's length (two bytes), and its tag."""

    __slots__ = ()

    def __init__(self, editions: Iterable[Edition]) -> None:
        parts: list[bytes] = []
        for each in editions:
            tag = each.tag.encode("utf-8", "surrogatepass")
            parts += (_EDITION.pack(each.at, each.size, each.items, len(tag)), tag)
        self._data = b"".join(parts)

    def _values(self) -> tuple[Edition, ...]:
        found, at, data = [], 0, self._data
        while at < len(data):
            instant, size, items, length = _EDITION.unpack_from(data, at)
            start = at + _EDITION.size
            at = start + length
            found.append(Edition(instant, size, items, data[start:at].decode("utf-8", "surrogatepass")))
        return tuple(found)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Resource:
    """One target URI: its stored variants, what its feed says, and what its origin has done.

    `changes` are the instants at which the feed's content was seen to change, newest last, at most 32.
    `versions` are those before the current one, newest last, that deltas are reckoned from.
    `editions` are the last ones of all, the current one at the end, for the operator (refresh/resource_update.py).
    `oversized` remembers that the body was above the cap, so that the next request streams at once.
    `parts` are pieces of what is no feed (cache/partial_content.py): they stand apart so that nothing takes one for a
    whole. `keyed` are responses to requests with fields of one client's own (refresh/personal_responses.py). They
    answer requests with these same fields only, and no other member says anything of them.
    """

    target: str
    variants: tuple[StoredResponse, ...] = ()
    channel: Channel | None = None
    changes: Sequence[Instant] = ()
    fetched: Instant = 0.0
    """The last time the origin was asked."""
    sighting: Sighting | None = None
    failures: Failures = Failures()
    new_shape: NewShape | None = None
    oversized: bool = False
    versions: Sequence[Version] = ()
    parts: tuple[StoredResponse, ...] = ()
    heard: Instant = 0.0
    """When somebody last told us that it changed, who had promised to."""
    promised: Instant = 0.0
    """Until when he will, as far as is known (refresh/policy/push.py)."""
    known: Instant = 0.0
    """When it was first seen to be a feed."""
    editions: Sequence[Edition] = ()
    undated: bool = False
    """Nobody has looked yet when it was published to before: it waits for the second update, of which many never come.
    """
    fence: int = 0
    """The later of two has the higher number, on whichever machine it was made (fleet/); 0 where there is no fleet."""

    keyed: tuple[StoredResponse, ...] = ()

    previous: PreviousContents = NO_CONTENTS
    """Contents that readers may have and name as dictionaries; of what is for all readers only."""

    def __post_init__(self) -> None:
        # By type: what descends from an abstract class is looked at for a microsecond.
        if type(self.changes) is not Instants and self.changes != ():
            object.__setattr__(self, "changes", Instants(self.changes) if self.changes else ())
        if type(self.versions) is not Versions and self.versions != ():
            object.__setattr__(self, "versions", Versions(self.versions) if self.versions else ())
        if type(self.editions) is not Editions and self.editions != ():
            object.__setattr__(self, "editions", Editions(self.editions) if self.editions else ())

    def size(self) -> int:
        """Bytes of content held."""
        return sum(response.content.size() for response in self.responses) + len(self.previous.data)

    @property
    def responses(self) -> tuple[StoredResponse, ...]:
        """All stored responses, in the order in which they are written."""
        return (*self.variants, *self.parts, *self.keyed)


def set_right(resource: Resource, now: Instant) -> Resource:
    """The resource with its instants in the past: those of a clock that was ahead, and has been set back, are now.

    What they begin (a lifetime, a pause, a promise) lasts as long as it would have. The same object where nothing is
    ahead. The result is to be stored: else its instants would be `now` at every look, and a copy never grow old.
    """
    noted = [resource.fetched, resource.heard, resource.failures.last, resource.known]
    noted += [variant.response_time for variant in resource.responses]
    if resource.sighting is not None:
        noted.append(resource.sighting.last)
    if resource.new_shape is not None:
        noted.append(resource.new_shape.first)
    if not is_set_back(max(noted), now):
        return resource
    failures, sighting, shape = resource.failures, resource.sighting, resource.new_shape
    pause = failures.next_try - max(0.0, failures.last - now) if failures.next_try else 0.0
    promised = resource.promised - max(0.0, resource.heard - now) if resource.promised else 0.0
    past = [at for at in resource.changes if at <= now]
    return replace(
        resource,
        fetched=min(resource.fetched, now),
        heard=min(resource.heard, now),
        promised=promised,
        known=min(resource.known, now),
        variants=tuple(_received_by(each, now) for each in resource.variants),
        parts=tuple(_received_by(each, now) for each in resource.parts),
        keyed=tuple(_received_by(each, now) for each in resource.keyed),
        failures=replace(
            failures, since=min(failures.since, now), last=min(failures.last, now), next_try=max(0.0, pause)
        ),
        sighting=sighting and replace(sighting, first=min(sighting.first, now), last=min(sighting.last, now)),
        new_shape=shape and replace(shape, first=min(shape.first, now)),
        changes=(*past, now) if len(past) < len(resource.changes) else resource.changes,
        editions=[replace(each, at=min(each.at, now)) for each in resource.editions],
    )


def _received_by(response: StoredResponse, now: Instant) -> StoredResponse:
    """The response as if it had come now, where it came later than that."""
    late = response.response_time - now
    if late <= 0:
        return response
    return replace(response, request_time=response.request_time - late, response_time=now)
