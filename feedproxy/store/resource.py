"""The resource: everything that is stored about one target URI, written completely or not at all."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant, is_set_back
from feedproxy.feed.channel import Channel
from feedproxy.http.content_negotiation import vary_names
from feedproxy.store.versions_for_dictionaries import NO_CONTENTS, PreviousContents


class RelocationKind(StrEnum):
    """Kinds of a Relocation: the feed has moved, or has ended."""

    MOVED = "moved"
    GONE = "gone"


class Relocation(Struct, frozen=True, omit_defaults=True, rename={"kind": "ending"}):
    """A permanent move or end of a feed that its origin has reported (refresh/policy/moved_and_gone.py)."""

    kind: RelocationKind
    location: str
    """The new address, or "" if the feed has ended."""
    first: Instant
    last: Instant
    """Time of the last response counted as a report of the move or end. Responses soon afterwards are not counted."""
    count: int
    confirmed: bool = False


class Failures(Struct, frozen=True, omit_defaults=True, rename={"by_origin": "asked"}):
    """Consecutive fetches without a usable result."""

    count: int = 0
    since: Instant = 0.0
    last: Instant = 0.0
    detail: str = ""
    next_try: Instant = 0.0
    """Time from which the target may be fetched again: the later of the ends of the back-off and of Retry-After."""
    by_origin: bool = False
    """True if the origin's Retry-After determined `next_try`, and False if the back-off did."""
    retry_after: Instant = 0.0
    """The end of the origin's Retry-After, if the back-off ends later. Otherwise 0."""


NO_FAILURES = Failures()


class PendingFormatChange(Struct, frozen=True, omit_defaults=True):
    """A change that further fetches must confirm: an ill-formed, much shorter or differently formatted document."""

    shape: str
    first: Instant
    count: int


class DeltaBase(Struct, frozen=True, omit_defaults=True):
    """An earlier version of a feed from which a delta can be made."""

    tag: str
    """The part of the entity tags that this version has in all codings."""
    last_modified: Instant | None
    """Last-Modified of this version as sent to clients, or None."""
    entries: bytes
    """Identity and digest of each entry, 16 bytes per entry (feed/delta/entry_identities.py)."""


class VersionRecord(Struct, frozen=True, omit_defaults=True):
    """One line of the list of versions on the operator's page. `tag` is the part of the entity tags that the version
    has in all codings, or "" if it has no entity tag."""

    at: Instant
    size: int
    """Size of the content without a content coding, in bytes."""
    items: int
    tag: str = ""


_STORED_NAMES = {
    "relocation": "sighting",
    "pending_format_change": "new_shape",
    "last_push": "heard",
    "push_lease_expires": "promised",
    "first_seen": "known",
    "backfill_pending": "undated",
    "fencing_token": "fence",
    "version_records": "editions",
    "delta_bases": "versions",
}
"""Names in the stored form that differ from attribute names. Existing stores contain them, so they must not change."""


class Resource(Struct, frozen=True, omit_defaults=True, weakref=True, rename=_STORED_NAMES):
    """One target URI: its stored responses, the data of its feed, and the behaviour of its origin.

    - `variants`: shared responses, distinguished by Vary.
    - `parts`: partial contents (cache/partial_content.py), which never answer as the whole content.
    - `keyed`: responses to requests with client-specific fields (refresh/client_keyed_responses.py). They answer only
      requests with the same fields.
    - `changes`: the last 32 times at which the content changed, newest last. Each is the date of a new item, or the
      time of the refresh if no new item has a date.
    - `delta_bases`: earlier versions from which deltas are computed, newest last.
    - `version_records`: latest versions for the operator's page, the current version last.
    - `oversized`: True if the content exceeded `buffer_max`. feedproxy then streams the next requests for the target.
    """

    target: str
    variants: tuple[StoredResponse, ...] = ()
    channel: Channel | None = None
    changes: tuple[Instant, ...] = ()
    fetched: Instant = 0.0
    """Time of the last request to the origin."""
    relocation: Relocation | None = None
    failures: Failures = NO_FAILURES
    pending_format_change: PendingFormatChange | None = None
    oversized: bool = False
    delta_bases: tuple[DeltaBase, ...] = ()
    parts: tuple[StoredResponse, ...] = ()
    last_push: Instant = 0.0
    """Time of the last change that a hub or cloud reported."""
    push_lease_expires: Instant = 0.0
    """Time at which feedproxy's subscription at the hub or cloud ends, or 0 (refresh/policy/polling_with_push.py)."""
    first_seen: Instant = 0.0
    """Time at which feedproxy first found a feed at the target."""
    version_records: tuple[VersionRecord, ...] = ()
    backfill_pending: bool = False
    """True until the dates of items from before the first fetch are read: by the next fetch with content, or by
    refresh/publication_backfill.py."""
    fencing_token: int = 0
    """Number of the copy in a fleet: a later copy of the target has a higher number. 0 if there is no fleet."""

    keyed: tuple[StoredResponse, ...] = ()

    has_expected_readers: bool = False
    """True if, at the last refresh, readers with a known rhythm were expected to poll within HORIZON.

    The rhythms are in subscribers/poll_rhythms.py, and HORIZON is in refresh/policy/expected_polls_and_price.py.
    """

    previous: PreviousContents = NO_CONTENTS
    """Earlier shared contents, which clients may name as dictionaries."""

    varies_by: tuple[str, ...] = ()
    """Request fields in the Vary of the last response if HTTP forbids storing that response, otherwise empty."""

    def size(self) -> int:
        """Return the size of all stored contents, in bytes."""
        return sum(response.content.size() for response in self.responses) + len(self.previous.data)

    @property
    def varying_names(self) -> frozenset[str]:
        shared = (*self.variants, *self.parts)
        return frozenset([*self.varies_by, *(name for response in shared for name in vary_names(response.fields))])

    @property
    def feed_variant(self) -> StoredResponse | None:
        """Return the feed variant that was stored last, or None."""
        return next((variant for variant in reversed(self.variants) if variant.content.feed), None)

    @property
    def responses(self) -> tuple[StoredResponse, ...]:
        return (*self.variants, *self.parts, *self.keyed) if self.parts or self.keyed else self.variants


def correct_future_instants(resource: Resource, now: Instant) -> Resource:
    """Return the resource with `now` in place of each recorded instant in the future, because the clock was set back.

    The end of a pause or lease moves with its beginning. The result is the same object if no instant is in the future.
    The caller must store it. Otherwise the instants would become `now` at each read, and the copy would never age.
    """
    received = [response.response_time for response in resource.responses]
    instants = [resource.fetched, resource.last_push, resource.failures.last, resource.first_seen, *received]
    if resource.relocation is not None:
        instants.append(resource.relocation.last)
    if resource.pending_format_change is not None:
        instants.append(resource.pending_format_change.first)
    if not is_set_back(max(instants), now):
        return resource
    failures, relocation, pending_change = resource.failures, resource.relocation, resource.pending_format_change
    set_back = max(0.0, failures.last - now)
    push_excess = max(0.0, resource.last_push - now)
    lease_expires = resource.push_lease_expires - push_excess if resource.push_lease_expires else 0.0
    past = [at for at in resource.changes if at <= now]
    return replace(
        resource,
        fetched=min(resource.fetched, now),
        last_push=min(resource.last_push, now),
        push_lease_expires=lease_expires,
        first_seen=min(resource.first_seen, now),
        variants=tuple(_received_by(response, now) for response in resource.variants),
        parts=tuple(_received_by(response, now) for response in resource.parts),
        keyed=tuple(_received_by(response, now) for response in resource.keyed),
        failures=replace(
            failures,
            since=min(failures.since, now),
            last=min(failures.last, now),
            next_try=max(0.0, failures.next_try - set_back),
            retry_after=max(0.0, failures.retry_after - set_back),
        ),
        relocation=relocation and replace(relocation, first=min(relocation.first, now), last=min(relocation.last, now)),
        pending_format_change=pending_change and replace(pending_change, first=min(pending_change.first, now)),
        changes=(*past, now) if len(past) < len(resource.changes) else resource.changes,
        version_records=tuple(replace(record, at=min(record.at, now)) for record in resource.version_records),
    )


def _received_by(response: StoredResponse, now: Instant) -> StoredResponse:
    excess = response.response_time - now
    if excess <= 0:
        return response
    return replace(response, request_time=response.request_time - excess, response_time=now)
