"""Freshness of a stored response by HTTP, the feed's hints and its history (DESIGN, section 6)."""

import math

from feedproxy.cache import freshness
from feedproxy.cache.cache_status import Detail
from feedproxy.cache.freshness import Allowance, Freshness
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant, Seconds
from feedproxy.feed import schedule
from feedproxy.feed.change_rate import ChangeRate, from_changes
from feedproxy.refresh.ingest.edit_settings import is_outdated
from feedproxy.refresh.policy import polling, push
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

SECOND_LOOK: Seconds = 60
"""Seconds until an ill-formed feed is fetched again at first: a truncated one may be complete by then."""


def assess(resource: Resource, stored: StoredResponse, settings: Settings, now: Instant) -> Freshness:
    """Return the freshness with its reason, for cache, status page and log alike."""
    channel = resource.channel if stored.content.feed else None
    learned = learned_lifetime(resource, stored, settings) if channel is not None else None

    def hint(_: StoredResponse, base: Instant, expires: Instant | None, at: Instant) -> Allowance | None:
        if channel is None or (settings.feed_hints == "heuristic" and expires is not None):
            return None  # not a feed, or HTTP has decided
        pushed = push.hold(resource, base, at, settings)
        if settings.feed_hints == "off":
            return _beyond(pushed, base, expires)
        hold = schedule.hint_expiry(
            channel.schedule,
            base=base,
            expires=expires,
            now=at,
            hint_max=settings.hint_max,
            skip_max=settings.skip_max,
        )
        if hold is None:
            return _beyond(pushed, base, expires)
        hint = Allowance(hold.until, hold.detail, hold.reason)
        return pushed if pushed is not None and pushed.until > hint.until else hint

    def _beyond(pushed: Allowance | None, base: Instant, expires: Instant | None) -> Allowance | None:
        """Return the push's allowance, not shorter than the heuristic lifetime."""
        if pushed is None or expires is not None:
            return pushed
        guessed, _ = freshness.heuristic_lifetime(
            stored,
            learned=learned,
            default=settings.default_lifetime,
            minimum=settings.lifetime_min,
            maximum=settings.lifetime_max,
        )
        return pushed if pushed.until > base + guessed else None

    found = freshness.assess(
        stored,
        now,
        hint=hint,
        learned=learned,
        # Without any information a heuristic applies to feeds; HTTP alone decides about other content.
        default=settings.default_lifetime if channel is not None else 0,
        minimum=settings.lifetime_min if channel is not None else 0,
        maximum=settings.lifetime_max,
        targeted=settings.is_targeted,
    )
    limit = _outdated(stored, settings) or _doubt(resource, stored, settings)
    return found if limit is None else freshness.limited(found, limit)


def _outdated(stored: StoredResponse, settings: Settings) -> Allowance | None:
    """Return an allowance that has ended for the upstream's feeds that other settings have edited; else None."""
    if not settings.upstream or not is_outdated(stored.content, settings):
        return None
    return Allowance(stored.response_time, "", "other settings have edited it, and the original is fetched anew")


def _doubt(resource: Resource, stored: StoredResponse, settings: Settings) -> Allowance | None:
    """Return until when an ill-formed copy may be used; None for a well-formed one.

    It may be truncated, or have been fetched while it was written. So it is fetched again after a minute, and then at
    intervals of the feed's known age: a feed that stays ill-formed always is. skipHours are respected.
    """
    channel = resource.channel
    if channel is None or channel.well_formed or not stored.content.feed:
        return None
    until = stored.response_time + max(
        stored.response_time - resource.first_seen, SECOND_LOOK, float(settings.feed_min_interval)
    )
    if settings.feed_hints != "off":
        until = schedule.next_unskipped(channel.schedule, until)
    return Allowance(until, Detail.ILL_FORMED, "it is not well-formed, and is fetched again soon")


def rate_of(resource: Resource, at: Instant) -> ChangeRate:
    """Return how often the feed's content changes, by what was known of it at that moment."""
    return from_changes(resource.changes, at, since=resource.first_seen or None)


def learned_lifetime(resource: Resource, stored: StoredResponse, settings: Settings) -> Seconds | None:
    """Return the lifetime that follows from the feed's history and the price of a request; None without a history.

    The dates of a feed that was fetched once are its publisher's claim, and count from the second fetch on. A feed that
    tells no dates is not left alone for longer than it has been observed.
    """
    if stored.response_time <= resource.first_seen or not resource.changes:
        return None
    # Quiet is counted until the last fetch: a lifetime that grew while it runs would never end.
    observed = stored.response_time - min(resource.changes[0], resource.first_seen or math.inf)
    return polling.lifetime_for(
        rate_of(resource, stored.response_time).per_second,
        settings.price,
        minimum=settings.lifetime_min,
        maximum=min(settings.lifetime_max, max(settings.default_lifetime, observed)),
    )


def rests_until(resource: Resource | None, stored: StoredResponse, fresh: Freshness, settings: Settings) -> Instant:
    """Return until when a stale copy answers without being refreshed: `stale_while_refreshing` and the price.

    In the past where HTTP forbids stale copies, or where nothing is known of the feed's history.
    """
    limit = settings.stale_while_refreshing
    if resource is None or limit <= 0 or not stored.content.feed or not freshness.may_be_held(stored, fresh.control):
        return 0.0
    if fresh.limit is not None:
        return 0.0
    learned = learned_lifetime(resource, stored, settings)
    if learned is None:
        return 0.0
    return min(stored.response_time + learned, fresh.expires + limit)
