"""Freshness of a stored response by HTTP, by the feed's hints and by its history."""

import math

from feedproxy.cache import freshness
from feedproxy.cache.freshness import Allowance, Freshness
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant, Seconds
from feedproxy.feed import schedule_hints
from feedproxy.feed.change_rate import changes_per_second
from feedproxy.http.memoize import memoize_by_identity
from feedproxy.refresh.policy import expected_polls_and_price, polling_with_push
from feedproxy.refresh.policy.early_refetch_of_ill_formed_copies import early_refetch
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource


def assess(resource: Resource, stored: StoredResponse, settings: Settings, now: Instant) -> Freshness:
    """Return the freshness of a stored response with its reason."""
    channel = resource.channel if stored.content.feed else None

    def learned() -> Seconds | None:
        return learned_lifetime(resource, stored, settings) if channel is not None else None

    def hint(base: Instant, expires: Instant | None) -> Allowance | None:
        if channel is None or (settings.feed_hints == "heuristic" and expires is not None):
            return None  # not a feed, or HTTP states a lifetime
        pushed = polling_with_push.allowance(resource, base, now, settings)
        if settings.feed_hints == "off":
            return _if_longer_than_heuristic(pushed, base, expires)
        hint_expiry = schedule_hints.hint_expiry(
            channel.schedule,
            base=base,
            expires=expires,
            now=now,
            hint_max=settings.hint_max,
            skip_max=settings.skip_max,
        )
        if hint_expiry is None:
            return _if_longer_than_heuristic(pushed, base, expires)
        stated = Allowance(hint_expiry.until, hint_expiry.detail, hint_expiry.reason)
        return pushed if pushed is not None and pushed.until > stated.until else stated

    def _if_longer_than_heuristic(pushed: Allowance | None, base: Instant, expires: Instant | None) -> Allowance | None:
        """Return `pushed`, the permission to use the copy because changes are pushed, or None if there is none. Return
        None, too, if the heuristic lifetime ends later."""
        if pushed is None or expires is not None:
            return pushed
        heuristic, _ = freshness.heuristic_lifetime(
            stored,
            learned=learned(),
            default=settings.default_lifetime,
            minimum=settings.lifetime_min,
            maximum=settings.lifetime_max,
        )
        return pushed if pushed.until > base + heuristic else None

    assessed = freshness.assess(
        stored,
        now,
        hint=hint,
        learned=learned,
        # The heuristic default applies to feeds only; HTTP alone decides about other content.
        default=settings.default_lifetime if channel is not None else 0,
        minimum=settings.lifetime_min if channel is not None else 0,
        maximum=settings.lifetime_max,
        targeted=settings.is_targeted,
    )
    limit = early_refetch(resource, stored, settings)
    return assessed if limit is None else freshness.limit_freshness(assessed, limit)


@memoize_by_identity(entries=1)
def rate_of(resource: Resource, at: Instant) -> float:
    """Return the rate at which the feed's content changes, per second, as known at the instant `at`."""
    return changes_per_second(resource.changes, at, since=resource.first_seen or None)


def learned_lifetime(resource: Resource, stored: StoredResponse, settings: Settings) -> Seconds | None:
    """Return the lifetime, in seconds, that follows from the feed's history and from the price of a request (option
    `polling`). Return None if the feed has no history."""
    if not resource.changes:
        return None
    # The time without a change counts until the last fetch only: otherwise the lifetime would grow while it elapses,
    # and never end.
    observed = stored.response_time - min(resource.changes[0], resource.first_seen or math.inf)
    return expected_polls_and_price.lifetime_for(
        rate_of(resource, stored.response_time),
        settings.price,
        minimum=settings.lifetime_min,
        maximum=min(settings.lifetime_max, max(settings.default_lifetime, observed)),
        is_expected=resource.has_expected_readers,
    )
