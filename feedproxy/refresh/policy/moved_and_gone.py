"""Moves and ends of feeds (relocations): their recording, and their announcement to clients.

A single 301 or 410 can be a mistake, but feed readers act on it permanently. The proxy therefore confirms a move or end
only after `relocation_confirmations` equal responses, `relocation_spacing` seconds apart. Clients get:

    permanent redirect  the feed from its new address; a 301 after the confirmation
    410                 the 410 itself; it is stored after the confirmation
    XML redirect        301 at once, or 410 if the document names no address

A confirmed move or end is checked every `gone_recheck` seconds. A move is checked at once if its new address responds
with 301, 308, 404 or 410.
"""

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Instant
from feedproxy.refresh.redirect_following import REDIRECTS
from feedproxy.request.upstream_and_public_urls import to_upstream
from feedproxy.settings import Settings
from feedproxy.store.resource import Relocation, RelocationKind, Resource

_NO_END = REDIRECTS | {401, 451}
"""After one of these status codes, a 410 that is not confirmed is forgotten: the target redirects, asks for
credentials, or is forbidden by law."""


class RespondMoved(Struct, frozen=True):
    """The decision to respond with 301. If `recheck` is true, a fetch from the origin is tried first."""

    location: str
    recheck: bool = False


class RespondGone(Struct, frozen=True):
    """The decision to respond with 410. If `recheck` is true, a fetch from the origin is tried first."""

    recheck: bool = False


def record_sighting(
    sighting: Relocation | None,
    ending: RelocationKind,
    location: str,
    now: Instant,
    settings: Settings,
    *,
    at_once: bool = False,
) -> Relocation:
    """Return the relocation `sighting` with one more report of a move or an end (`ending`).

    `location` is normalised, and empty for an end. A report of another kind or location starts a new count. If
    `at_once` is true, a single report is sufficient. Before the confirmation, a report less than `relocation_spacing`
    seconds after the last counted report is not counted.
    """
    confirmations = settings.relocation_confirmations
    if sighting is None or sighting.kind is not ending or sighting.location != location:
        return Relocation(ending, location, now, now, 1, confirmed=at_once or confirmations <= 1)
    if now - sighting.last >= settings.relocation_spacing or sighting.confirmed:
        sighting = replace(sighting, last=now, count=sighting.count + 1)
    return replace(sighting, confirmed=sighting.confirmed or at_once or sighting.count >= confirmations)


def clear_relocation(sighting: Relocation | None, now: Instant, *, status: int | None, feed: bool) -> Relocation | None:
    """Return the relocation `sighting` after a fetch that reports neither a move nor an end, or None to drop it.

    `status` is the status of the old address, or None if there was no response. `feed` is True if the response was a
    feed, or if the address never had a feed.

    An unconfirmed relocation is dropped after every 200 or 304. An unconfirmed end is also dropped after a redirect, a
    401 or a 451. A confirmed relocation is dropped only after a 200 or 304 with `feed`, because abandoned addresses
    often respond with 200 and advertisements.
    """
    if sighting is None:
        return None
    if status in _NO_END and sighting.kind is RelocationKind.GONE and not sighting.confirmed:
        return None
    if status not in (200, 304):
        return sighting
    if feed or not sighting.confirmed:
        return None
    return replace(sighting, last=now)


def active_relocation(
    sighting: Relocation | None, now: Instant, settings: Settings, *, target: str = ""
) -> RespondMoved | RespondGone | None:
    """Return the decision to respond with 301 or 410, or None if the feed is served.

    `sighting` is the recorded relocation of `target`. The options `moved_to` and `gone` of a rule take precedence. A
    `moved_to` that names `target` itself is ignored. For an unconfirmed move, the result is None. For an unconfirmed
    end, it is a 410, and each request causes a fetch, unless the fetch is deferred (min_interval_and_back_off.py).
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
"""Status codes of a feed's new address that put the move in doubt."""


def is_in_doubt(sighting: Relocation | None, resource_there: Resource | None, settings: Settings) -> bool:
    """Return whether `sighting` is a confirmed move that is in doubt.

    A move is in doubt if the new address has itself reported a move or an end, refuses requests (404, for example), or
    is part of a redirect loop. `resource_there` is the stored resource of the new address. A move by a rule is never in
    doubt.
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
    """Return whether a feed that had moved to `target` has moved back to its former address. `newer` is the relocation
    of `target`, and `older` that of the former address. The result is True only if `older` is confirmed, and its last
    report came before the first report of `newer`."""
    return (
        newer is not None
        and newer.kind is RelocationKind.MOVED
        and older is not None
        and older.kind is RelocationKind.MOVED
        and older.confirmed
        and older.location == target
        and older.last < newer.first
    )
