"""Use of a stale feed while it is refreshed, or in place of a refresh (option `stale_while_refreshing`)."""

from feedproxy.cache.freshness import Freshness, may_extend_lifetime
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant, Seconds
from feedproxy.feed.change_rate import age_for
from feedproxy.refresh.policy import expected_polls_and_price
from feedproxy.refresh.policy.freshness_by_hints_and_history import learned_lifetime, rate_of
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

WAIT_WORTH: Seconds = 2 * 3600
"""A reader waits for the refresh, and does not get the copy, if the copy's expected staleness exceeds this many
seconds. If the price of a request is high (option `polling`), the limit is higher. In a simulated week with this limit,
one poll in 200 waited, and the mean staleness fell to a third."""


def stale_while_refreshing(
    resource: Resource | None, stored: StoredResponse, fresh: Freshness, settings: Settings
) -> Seconds:
    """Return the seconds beyond its lifetime for which a stale feed answers during a refresh.

    The result is at most the option `stale_while_refreshing`, and equals it if the feed has no history. With a history,
    the time ends when the expected staleness of the copy reaches both limits: WAIT_WORTH, and the price of a request
    plus the price of a reader's wait.

    Return 0 if the content is not a feed, or if the copy is refetched before its lifetime ends
    (policy/early_refetch_of_ill_formed_copies.py).
    """
    limit = settings.stale_while_refreshing
    if resource is None or limit <= 0 or not stored.content.feed or fresh.limit is not None:
        return 0
    if not resource.changes:
        return limit  # without a history, the change rate of the feed is unknown
    rate = rate_of(resource, stored.response_time)
    worth = max(WAIT_WORTH, (1 + expected_polls_and_price.WAIT_PRICE) * settings.price)
    return min(limit, max(0.0, stored.response_time + age_for(rate, worth) - fresh.expires))


def rests_until(resource: Resource | None, stored: StoredResponse, fresh: Freshness, settings: Settings) -> Instant:
    """Return the instant until which a stale copy may answer without a refresh.

    The instant is the end of the learned lifetime, at most `stale_while_refreshing` seconds after the copy became
    stale.

    Return 0 in these cases:

    * HTTP forbids stale responses, or the option `stale_while_refreshing` is 0.
    * The content is not a feed, or the feed has no history.
    * The copy is refetched before its lifetime ends (early_refetch_of_ill_formed_copies.py).
    """
    limit = settings.stale_while_refreshing
    if resource is None or limit <= 0 or not stored.content.feed or not may_extend_lifetime(stored, fresh.control):
        return 0.0
    if fresh.limit is not None:
        return 0.0
    lifetime = learned_lifetime(resource, stored, settings)
    if lifetime is None:
        return 0.0
    return min(stored.response_time + lifetime, fresh.expires + limit)
