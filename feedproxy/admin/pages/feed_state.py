"""The state of a feed, the reason for the state, and the time of the next fetch."""

from enum import StrEnum

from msgspec import Struct

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.freshness import Freshness
from feedproxy.clock import Instant
from feedproxy.durations_and_sizes import count_noun, span
from feedproxy.refresh.policy import moved_and_gone
from feedproxy.refresh.policy.min_interval_and_back_off import Deferred, check_fetch_allowed
from feedproxy.refresh.policy.refresh_ahead import Later, Plan
from feedproxy.request.upstream_and_public_urls import to_public
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource


class FeedState(StrEnum):
    """The states of a feed, the most urgent first."""

    FAILING = "failing"  # the last fetch returned no usable response
    GONE = "gone"  # the feed has ended, or its rule says so
    MOVED = "moved"  # readers are redirected to a new address
    STALE = "stale"  # the copy must be validated before it is used again
    UNSTORED = "unstored"  # HTTP forbids storing the response
    HELD = "held"  # beyond its freshness lifetime, within the feed's own schedule
    FRESH = "fresh"


MEANING = {
    FeedState.FAILING: "The last fetch returned no usable response.",
    FeedState.GONE: "The feed has ended: readers get 410.",
    FeedState.MOVED: "The feed has a new address: readers are redirected there.",
    FeedState.STALE: "At the next request of a reader, feedproxy asks the origin whether the copy is current.",
    FeedState.UNSTORED: "HTTP does not permit storing a copy.",
    FeedState.HELD: "HTTP's lifetime is over. By the feed's own schedule the copy still answers.",
    FeedState.FRESH: "The copy is fresh and answers readers.",
}


class Condition(Struct, frozen=True):
    """A feed's state with its reason, and the instant of the next fetch (`next_at`).

    The schedule causes the fetch, or the first request at this instant or later.
    """

    state: FeedState
    reason: str
    next_at: Instant
    next_reason: str


def feed_condition(
    resource: Resource, freshness: Freshness | None, settings: Settings, now: Instant, plan: Plan | None = None
) -> Condition:
    """Return the condition of a feed. `freshness` is that of the newest stored response, or None if there is none.
    `plan` is the decision of the refresh schedule about the feed, or None if there is none."""
    next_at, next_reason = _next_fetch(resource, freshness, settings, now)
    if isinstance(plan, Later):
        next_at, next_reason = plan.at, f"{next_reason}; {plan.reason}"
    sighting = resource.relocation
    active = moved_and_gone.active_relocation(sighting, now, settings, target=resource.target)
    if active is None:
        return _condition_at_address(resource, freshness, now, next_at, next_reason)
    if isinstance(active, moved_and_gone.RespondMoved):
        state, reason = FeedState.MOVED, f"readers are redirected to {to_public(active.location, settings)}"
    elif settings.gone or (sighting is not None and sighting.confirmed):
        state, reason = FeedState.GONE, "the feed has ended, and readers get 410"
    else:
        state, reason = FeedState.FAILING, "the origin answers that the feed has ended, and readers get its 410"
    if settings.moved_to or settings.gone:
        return Condition(state, f"{reason}, by a rule", next_at, next_reason)
    if sighting is not None and sighting.confirmed and sighting.last + settings.gone_recheck > next_at:
        next_at = sighting.last + settings.gone_recheck
        next_reason = "moves and ends are checked again after gone_recheck"
    return Condition(state, f"{reason}: {_sightings(resource)}", next_at, next_reason)


def _condition_at_address(
    resource: Resource, freshness: Freshness | None, now: Instant, next_at: Instant, next_reason: str
) -> Condition:
    """Return the condition of a feed that has neither moved nor ended."""
    failures = resource.failures
    if failures.count:
        how_long = span(now - failures.since)
        when = f"{how_long} ago" if failures.count == 1 else f"in a row for {how_long}"
        reason = f"{count_noun(failures.count, 'failure')} {when}: {detail_sentence(failures.detail)}"
        if freshness is not None:
            reason += f" The copy is {freshness.description}"
        return Condition(FeedState.FAILING, reason, next_at, next_reason)
    if freshness is None:
        reason = "its body is larger than buffer_max" if resource.oversized else "no copy is stored"
        return Condition(FeedState.UNSTORED, reason, next_at, next_reason)
    if resource.variants[-1].invalid:
        return Condition(FeedState.STALE, detail_sentence(Detail.INVALIDATED), now, next_reason)
    if freshness.is_fresh(now):
        return Condition(FeedState.FRESH, freshness.description, next_at, next_reason)
    state = FeedState.STALE if freshness.allowance is None else FeedState.HELD
    return Condition(state, freshness.description, next_at, next_reason)


def detail_sentence(detail: str) -> str:
    """Return a sentence with the meaning of a Cache-Status detail. Return an unknown detail unchanged."""
    known = Detail.of(detail)
    return detail if known is None else known.sentence


def _next_fetch(
    resource: Resource, freshness: Freshness | None, settings: Settings, now: Instant
) -> tuple[Instant, str]:
    reasons: list[tuple[Instant, str]] = [(now, "the next reader's request")]
    if freshness is not None and not resource.variants[-1].invalid:
        if freshness.allowance is not None:
            reasons.append((freshness.allowance.until, freshness.allowance.reason))
        else:
            # `fresh for another 35 min: ttl of 60 minutes, fetched 25 min ago`
            source = freshness.description.partition(": ")[2].rpartition(", fetched ")[0]
            reasons.append((freshness.expires, source))
    permission = check_fetch_allowed(resource, now, settings, site_free_at=0.0)
    if isinstance(permission, Deferred):
        reasons.append((permission.until, permission.reason.partition("; next try in")[0]))
    return max(reasons, key=lambda reason: reason[0])


def _sightings(resource: Resource) -> str:
    sighting = resource.relocation
    if sighting is None:
        return ""
    count = "once" if sighting.count == 1 else f"{sighting.count} times"
    return f"seen {count}, {'confirmed' if sighting.confirmed else 'waiting for confirmation'}"
