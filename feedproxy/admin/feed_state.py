"""In what condition is a feed, why, and when will its origin be asked next?"""

from dataclasses import dataclass
from enum import StrEnum

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.freshness import Freshness, span
from feedproxy.clock import Instant
from feedproxy.refresh.policy import relocation, throttle
from feedproxy.refresh.policy.prefetch import Later, Plan
from feedproxy.request.url_mapping import to_public
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource


class State(StrEnum):
    """The conditions, the one that wants most attention first."""

    FAILING = "failing"  # the last try brought nothing usable
    GONE = "gone"  # the feed has ended, or its rule says so
    MOVED = "moved"  # readers are told a new address
    STALE = "stale"  # to be validated before it is used again
    UNSTORED = "unstored"  # HTTP forbids to keep it
    HELD = "held"  # past HTTP's lifetime, within the feed's own schedule
    FRESH = "fresh"


MEANING = {
    State.FAILING: "The last try brought nothing usable.",
    State.GONE: "The feed has ended: readers are told so.",
    State.MOVED: "The feed has a new address: readers are sent there.",
    State.STALE: "The next reader makes us ask the origin.",
    State.UNSTORED: "HTTP does not let us keep a copy.",
    State.HELD: "HTTP's lifetime is over; the feed's own schedule says there is no hurry.",
    State.FRESH: "The copy answers.",
}

_SENTENCES = {str(each): each.sentence for each in Detail}


@dataclass(frozen=True, slots=True)
class Condition:
    """A feed's state and the reason in words; `next_at` is when its origin may be asked again, and why then.

    Nothing is asked for that nobody reads: then by the schedule, or by the first reader after `next_at`.
    """

    state: State
    words: str
    next_at: Instant
    next_words: str


def feed_condition(
    resource: Resource, freshness: Freshness | None, settings: Settings, now: Instant, plan: Plan | None = None
) -> Condition:
    """What the operator is told. `freshness` is that of the newest stored response, None where there is none; `plan`
    what the schedule has in mind.
    """
    next_at, next_words = _next_fetch(resource, freshness, settings, now)
    if isinstance(plan, Later):
        next_at, next_words = plan.at, f"{next_words}; {plan.words}"
    standing = relocation.active_relocation(resource.relocation, now, settings, target=resource.target)
    sighting = resource.relocation
    if standing is not None:
        if isinstance(standing, relocation.RespondMoved):
            words = f"readers are sent to {to_public(standing.location, settings)}"
            state = State.MOVED
        elif settings.gone or (sighting is not None and sighting.confirmed):
            words = "readers are told that it has ended"
            state = State.GONE
        else:
            words = "the origin says that it has ended, and readers are told its 410"
            state = State.FAILING
        if settings.moved_to or settings.gone:
            return Condition(state, f"{words}, by a rule", next_at, next_words)
        if sighting is not None and sighting.confirmed:
            recheck = sighting.last + settings.gone_recheck
            if recheck > next_at:
                next_at, next_words = recheck, "what has moved or ended is looked at again now and then"
        return Condition(state, f"{words}: {_last_contact(resource)}", next_at, next_words)
    failures = resource.failures
    if failures.count:
        tries = _times(failures.count, "failure")
        how_long = span(now - failures.since)
        when = f"{how_long} ago" if failures.count == 1 else f"in a row for {how_long}"
        words = f"{tries} {when}: {detail_sentence(failures.detail)}"
        if freshness is not None:
            words += f" The copy is {freshness.words}"
        return Condition(State.FAILING, words, next_at, next_words)
    if freshness is None:
        words = "its body is larger than what is stored" if resource.oversized else "no copy is kept"
        return Condition(State.UNSTORED, words, next_at, next_words)
    if resource.variants[-1].invalid:
        return Condition(State.STALE, detail_sentence(Detail.INVALIDATED), now, next_words)
    if freshness.fresh(now):
        return Condition(State.FRESH, freshness.words, next_at, next_words)
    if freshness.held is not None:
        return Condition(State.HELD, freshness.words, next_at, next_words)
    return Condition(State.STALE, freshness.words, next_at, next_words)


def detail_sentence(detail: str) -> str:
    """What a detail of Cache-Status means; the token itself where it is none of them."""
    return _SENTENCES.get(detail, detail)


def _next_fetch(
    resource: Resource, freshness: Freshness | None, settings: Settings, now: Instant
) -> tuple[Instant, str]:
    reasons: list[tuple[Instant, str]] = [(now, "the next reader's request")]
    if freshness is not None and not resource.variants[-1].invalid:
        if freshness.held is not None:
            reasons.append((freshness.held.until, freshness.held.words))
        else:
            # `fresh for another 35 min: ttl of 60 minutes, fetched 25 min ago`
            why = freshness.words.partition(": ")[2].rpartition(", fetched ")[0]
            reasons.append((freshness.expires, why))
    permission = throttle.check_fetch_allowed(resource, now, settings, site_free_at=0.0)
    if isinstance(permission, throttle.Deferred):
        reasons.append((permission.until, permission.reason.partition("; next try in")[0]))
    return max(reasons, key=lambda reason: reason[0])


def _last_contact(resource: Resource) -> str:
    sighting = resource.relocation
    if sighting is None:
        return ""
    count = "once" if sighting.count == 1 else f"{sighting.count} times"
    return f"seen {count}, {'confirmed' if sighting.confirmed else 'waiting for confirmation'}"


def _times(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
