"""Relocations: moves and ends of feeds, how they are recorded, and how clients learn of them (DESIGN: Moves).

A single 301 or 410 may be a mistake, and feed readers act on it for good. So it is recorded as *sighted*, and confirmed
after `relocation_confirmations` equal sightings, `relocation_spacing` apart. XML documents for the same purpose are
deliberate and take effect at once.

    permanent redirect  clients get the feed from its new address until the move is confirmed; then 301
    410                 passed on at once, and stored when confirmed
    XML redirect, gone  301 and 410 at once

A confirmed move or end is checked every `gone_recheck`, since it can be reversed. A move is checked at once if its new
address responds with 301, 404 or 410, as it does when a feed moves back. The operator undoes either by removing the
resource's sighting. With `recheck`, the confirmed relocation is the response only if a fetch brings nothing better:
within the minimum interval, in a back-off, or when the origin cannot be reached.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Instant, Seconds
from feedproxy.errors import BadTarget
from feedproxy.http import uri
from feedproxy.request.url_mapping import to_upstream
from feedproxy.settings import Settings
from feedproxy.store.resource import Relocation, RelocationKind, Resource

PERMANENT = frozenset({301, 308})
"""RFC 9110, 15.4.2 and 15.4.9."""
TEMPORARY = frozenset({302, 303, 307})
"""Redirects that are followed and not recorded (15.4.3, 15.4.4, 15.4.8)."""


@dataclass(frozen=True, slots=True)
class RespondMoved:
    """Respond with 301. `recheck`: fetch from the origin first."""

    location: str
    recheck: bool = False


@dataclass(frozen=True, slots=True)
class RespondGone:
    """Respond with 410. `recheck`: fetch from the origin first."""

    recheck: bool = False


@dataclass(frozen=True, slots=True)
class FollowRedirect:
    """The redirect leads to this normalised target."""

    target: str


@dataclass(frozen=True, slots=True)
class StopFollowing:
    """The redirect is not followed."""

    detail: Detail
    reason: str


def record_sighting(
    sighting: Relocation | None,
    ending: RelocationKind,
    location: str,
    now: Instant,
    *,
    confirmations: int,
    spacing: Seconds,
    at_once: bool,
) -> Relocation:
    """Record that the origin reported a move or an end. `location` is normalised; empty for an end.

    Another kind or location starts at one. A report within `spacing` after the last counted one does not count: many
    clients may see the same mistake.
    """
    if sighting is None or sighting.kind is not ending or sighting.location != location:
        return Relocation(ending, location, now, now, 1, confirmed=at_once or confirmations <= 1)
    if now - sighting.last >= spacing or sighting.confirmed:
        sighting = replace(sighting, last=now, count=sighting.count + 1)
    return replace(sighting, confirmed=sighting.confirmed or at_once or sighting.count >= confirmations)


def clear_relocation(sighting: Relocation | None, now: Instant, *, feed: bool) -> Relocation | None:
    """Return what remains of the relocation after the address itself answered 200 or 304.

    An unconfirmed one is dropped. A confirmed one only if the response is a feed: abandoned addresses often respond
    with 200 and advertisements.
    """
    if sighting is None or feed or not sighting.confirmed:
        return None
    return replace(sighting, last=now)


def active_relocation(
    sighting: Relocation | None, now: Instant, settings: Settings, *, target: str = ""
) -> RespondMoved | RespondGone | None:
    """Return the 301 or 410 to respond with; None where the feed is served.

    A rule's `moved_to` and `gone` come first; a `moved_to` that names `target` itself, as in rules for a whole site, is
    ignored. After an unconfirmed 410 every request fetches (within the minimum interval), and no copy is served.
    """
    if settings.moved_to and (moved_to := to_upstream(settings.moved_to, settings)) != target:
        return RespondMoved(moved_to)
    if settings.gone:
        return RespondGone()
    if sighting is None:
        return None
    due = now - sighting.last >= settings.gone_recheck
    match sighting.kind:
        case RelocationKind.MOVED:
            return RespondMoved(sighting.location, recheck=due) if sighting.confirmed else None
        case RelocationKind.GONE:
            return RespondGone(recheck=due or not sighting.confirmed)


DOUBTFUL_STATUSES = frozenset({301, 308, 404, 410})
"""Statuses of a new address that put the move there in doubt."""


def is_in_doubt(sighting: Relocation | None, resource_there: Resource | None, settings: Settings) -> bool:
    """Return whether a confirmed move leads to an address that has itself moved, ended, or answered 404.

    `there` is what is stored of that address. A move by a rule is never in doubt.
    """
    if (
        sighting is None
        or sighting.kind is not RelocationKind.MOVED
        or not sighting.confirmed
        or resource_there is None
    ):
        return False
    if settings.moved_to or settings.gone:
        return False
    return resource_there.relocation is not None or resource_there.failures.detail in (
        Detail.REFUSED,
        Detail.REDIRECT_LOOP,
    )


def leads_back(newer: Relocation | None, target: str, older: Relocation | None) -> bool:
    """Return whether `news`, a move of `target`, leads to an address with a confirmed `older` move back to it."""
    return (
        newer is not None
        and newer.kind is RelocationKind.MOVED
        and older is not None
        and older.kind is RelocationKind.MOVED
        and older.confirmed
        and older.location == target
        and older.last < newer.first
    )


def next_hop(
    visited: Sequence[str], reference: str, *, limit: int, to_target: Callable[[str], str] = lambda address: address
) -> FollowRedirect | StopFollowing:
    """Decide whether to follow one redirect. `visited` are the normalised targets so far, the first included.

    `reference` is the Location (or XML newLocation) as it came, and `meant` the target that an address means: in
    reverse mode a public address is the upstream's. Stops at what cannot be fetched (javascript:,
    file:, userinfo), at a target asked already, and after `limit` redirects.
    """
    try:
        target = to_target(uri.resolve(visited[-1], reference.strip()))
    except BadTarget as error:
        return StopFollowing(Detail.BAD_TARGET, f"the redirect names nothing that can be fetched: {error}")
    if target in visited:
        return StopFollowing(Detail.REDIRECT_LOOP, f"redirected in a circle, back to {target}")
    if len(visited) > limit:
        return StopFollowing(Detail.REDIRECT_LOOP, f"redirected more than {limit} times")
    return FollowRedirect(target)


def permanent_location(hops: Iterable[tuple[int, str]]) -> str | None:
    """Return the permanent new address: the end of the permanent redirects at the beginning of a chain.

    `hops` are (status, target it led to). What follows a temporary redirect is temporary, too.
    """
    location = None
    for status, target in hops:
        if status not in PERMANENT:
            break
        location = target
    return location
