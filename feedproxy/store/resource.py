"""All that is kept of one target URI, as one value: it is written whole or not at all."""

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant, is_set_back
from feedproxy.feed.channel import Channel
from feedproxy.store.packing.packed_sequences import PackedInstants, PackedSequence
from feedproxy.store.previous_contents import NO_CONTENTS, PreviousContents

NEVER = math.nan
_BASE = struct.Struct("<HId")
_RECORD = struct.Struct("<dQIH")


class RelocationKind(StrEnum):
    """What an origin says of an address for good."""

    MOVED = "moved"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Relocation:
    """A permanent move or end that an origin has told, and how often (DESIGN: Moves)."""

    kind: RelocationKind
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
    by_origin: bool = False
    """`next_try` is the origin's own word, and later than our back-off."""


@dataclass(frozen=True, slots=True)
class PendingFormatChange:
    """A shape the feed may have taken (ill-formed now, or of another kind), not yet believed."""

    shape: str
    first: Instant
    count: int


@dataclass(frozen=True, slots=True)
class DeltaBase:
    """A version of a feed that readers have had: what it goes by, and what its entries were."""

    tag: str
    """The stem of its entity tags."""
    last_modified: Instant | None
    """As readers were told."""
    entries: bytes
    """Identity and digest of each, sixteen bytes (feed/delta/entries.py)."""


class PackedDeltaBases(PackedSequence[DeltaBase]):
    """Versions: for each its tag's length (two bytes), its entries' length (four), its date, its tag and entries."""

    __slots__ = ()

    def __init__(self, versions: Iterable[DeltaBase]) -> None:
        parts: list[bytes] = []
        for each in versions:
            tag = each.tag.encode("utf-8", "surrogatepass")
            date = NEVER if each.last_modified is None else each.last_modified
            parts += (_BASE.pack(len(tag), len(each.entries), date), tag, each.entries)
        self._data = b"".join(parts)

    def _values(self) -> tuple[DeltaBase, ...]:
        found, at, data = [], 0, self._data
        while at < len(data):
            length, size, date = _BASE.unpack_from(data, at)
            start = at + _BASE.size
            at = start + length + size
            tag = data[start : start + length].decode("utf-8", "surrogatepass")
            found.append(DeltaBase(tag, None if math.isnan(date) else date, data[start + length : at]))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """A version of a feed for the operator to look at: when it was first seen, and how large it was.

    `tag` is the stem of its entity tags, by which `versions` know its entries; empty where it had none.
    """

    at: Instant
    size: int
    """Bytes, without a coding."""
    items: int
    tag: str = ""


class PackedVersionRecords(PackedSequence[VersionRecord]):
    """Editions: for each its instant, size and number of items, its tag's length (two bytes), and its tag."""

    __slots__ = ()

    def __init__(self, editions: Iterable[VersionRecord]) -> None:
        parts: list[bytes] = []
        for each in editions:
            tag = each.tag.encode("utf-8", "surrogatepass")
            parts += (_RECORD.pack(each.at, each.size, each.items, len(tag)), tag)
        self._data = b"".join(parts)

    def _values(self) -> tuple[VersionRecord, ...]:
        found, at, data = [], 0, self._data
        while at < len(data):
            instant, size, items, length = _RECORD.unpack_from(data, at)
            start = at + _RECORD.size
            at = start + length
            found.append(VersionRecord(instant, size, items, data[start:at].decode("utf-8", "surrogatepass")))
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
    relocation: Relocation | None = None
    failures: Failures = Failures()
    pending_format_change: PendingFormatChange | None = None
    oversized: bool = False
    delta_bases: Sequence[DeltaBase] = ()
    parts: tuple[StoredResponse, ...] = ()
    last_push: Instant = 0.0
    """When somebody last told us that it changed, who had promised to."""
    push_lease_expires: Instant = 0.0
    """Until when he will, as far as is known (refresh/policy/push.py)."""
    first_seen: Instant = 0.0
    """When it was first seen to be a feed."""
    version_records: Sequence[VersionRecord] = ()
    backfill_pending: bool = False
    """Nobody has looked yet when it was published to before: it waits for the second update, of which many never come.
    """
    fencing_token: int = 0
    """The later of two has the higher number, on whichever machine it was made (fleet/); 0 where there is no fleet."""

    keyed: tuple[StoredResponse, ...] = ()

    previous: PreviousContents = NO_CONTENTS
    """Contents that readers may have and name as dictionaries; of what is for all readers only."""

    def __post_init__(self) -> None:
        # By type: what descends from an abstract class is looked at for a microsecond.
        if type(self.changes) is not PackedInstants and self.changes != ():
            object.__setattr__(self, "changes", PackedInstants(self.changes) if self.changes else ())
        if type(self.delta_bases) is not PackedDeltaBases and self.delta_bases != ():
            object.__setattr__(self, "delta_bases", PackedDeltaBases(self.delta_bases) if self.delta_bases else ())
        if type(self.version_records) is not PackedVersionRecords and self.version_records != ():
            object.__setattr__(
                self, "version_records", PackedVersionRecords(self.version_records) if self.version_records else ()
            )

    def size(self) -> int:
        """Bytes of content held."""
        return sum(response.content.size() for response in self.responses) + len(self.previous.data)

    @property
    def responses(self) -> tuple[StoredResponse, ...]:
        """All stored responses, in the order in which they are written."""
        return (*self.variants, *self.parts, *self.keyed)


def correct_future_instants(resource: Resource, now: Instant) -> Resource:
    """The resource with its instants in the past: those of a clock that was ahead, and has been set back, are now.

    What they begin (a lifetime, a pause, a promise) lasts as long as it would have. The same object where nothing is
    ahead. The result is to be stored: else its instants would be `now` at every look, and a copy never grow old.
    """
    noted = [resource.fetched, resource.last_push, resource.failures.last, resource.first_seen]
    noted += [variant.response_time for variant in resource.responses]
    if resource.relocation is not None:
        noted.append(resource.relocation.last)
    if resource.pending_format_change is not None:
        noted.append(resource.pending_format_change.first)
    if not is_set_back(max(noted), now):
        return resource
    failures, sighting, shape = resource.failures, resource.relocation, resource.pending_format_change
    pause = failures.next_try - max(0.0, failures.last - now) if failures.next_try else 0.0
    promised = resource.push_lease_expires - max(0.0, resource.last_push - now) if resource.push_lease_expires else 0.0
    past = [at for at in resource.changes if at <= now]
    return replace(
        resource,
        fetched=min(resource.fetched, now),
        last_push=min(resource.last_push, now),
        push_lease_expires=promised,
        first_seen=min(resource.first_seen, now),
        variants=tuple(_received_by(each, now) for each in resource.variants),
        parts=tuple(_received_by(each, now) for each in resource.parts),
        keyed=tuple(_received_by(each, now) for each in resource.keyed),
        failures=replace(
            failures, since=min(failures.since, now), last=min(failures.last, now), next_try=max(0.0, pause)
        ),
        relocation=sighting and replace(sighting, first=min(sighting.first, now), last=min(sighting.last, now)),
        pending_format_change=shape and replace(shape, first=min(shape.first, now)),
        changes=(*past, now) if len(past) < len(resource.changes) else resource.changes,
        version_records=[replace(each, at=min(each.at, now)) for each in resource.version_records],
    )


def _received_by(response: StoredResponse, now: Instant) -> StoredResponse:
    """The response as if it had come now, where it came later than that."""
    late = response.response_time - now
    if late <= 0:
        return response
    return replace(response, request_time=response.request_time - late, response_time=now)
