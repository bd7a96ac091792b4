"""Rules for the use of stale responses.  RFC 9111, section 4.2.4; RFC 5861"""

from enum import StrEnum
from typing import assert_never

from feedproxy.cache.freshness import Freshness, may_extend_lifetime, prohibits_stale_use
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.storing import storing_prohibition
from feedproxy.clock import Instant, Seconds
from feedproxy.http.cache_control import CacheControl


class Occasion(StrEnum):
    """The reason for using a stale response."""

    ERROR = "error"  # the origin answered 500, 502, 503 or 504, or sent unusable content
    DISCONNECTED = "disconnected"  # the origin could not be reached
    REFUSED = "refused"  # the origin answered 403, 404 or 429, which RFC 5861 does not count as errors
    REVALIDATING = "revalidating"  # a new response is being fetched at the same time
    MAX_STALE = "max-stale"  # the request permits it
    HELD = "held"  # the feed's own schedule permits it


def may_serve_stale(
    stored: StoredResponse,
    freshness: Freshness,
    now: Instant,
    *,
    occasion: Occasion,
    request: CacheControl,
    limit: Seconds,
) -> bool:
    """Return True if the response may be used at `now`: it is fresh, or `occasion` permits its use while stale.

    An invalidated response is never used. `request` contains the directives of the request. `limit` is the operator's
    limit of staleness in seconds (the "configuration" of RFC 9111, section 4.2.4). After an error or during a refresh,
    the origin's stale-if-error or stale-while-revalidate counts if it is longer than `limit`.
    """
    if (
        stored.invalid
        or storing_prohibition(freshness.control, stored.status)
        or prohibits_stale_use(freshness.control)
    ):
        return False
    if freshness.is_fresh(now):
        return True
    staleness = now - freshness.expires
    # A response to a request with credentials may be used stale only if the origin permits it.
    configured = None if stored.authorized else limit

    def is_within(*permissions: Seconds | None) -> bool:
        return any(permitted is not None and staleness <= permitted for permitted in permissions)

    match occasion:
        case Occasion.ERROR | Occasion.DISCONNECTED:
            # RFC 5861, section 4: beyond stale-if-error a response "SHOULD NOT be used to satisfy the request,
            # absent other information". The operator's limit is such information.
            return is_within(freshness.control.stale_if_error, request.stale_if_error, configured)
        case Occasion.REFUSED:
            return is_within(configured)
        case Occasion.REVALIDATING:
            # Section 4.2.4 also permits stale responses "by configuration in accordance with an out-of-band
            # contract": that is `limit`.
            return _accepts_stale(request) and is_within(
                freshness.control.stale_while_revalidate,
                configured or None,  # a limit of 0 permits nothing
            )
        case Occasion.MAX_STALE:
            # "the client is willing to accept a response that has exceeded its freshness lifetime by no more
            # than the specified number of seconds" -- RFC 9111, section 5.2.1.2
            return request.max_stale is not None and staleness <= min(request.max_stale, limit)
        case Occasion.HELD:
            allowance = freshness.allowance
            return (
                allowance is not None
                and now < allowance.until
                and may_extend_lifetime(stored, freshness.control)
                and _accepts_stale(request)
            )
    assert_never(occasion)


def _accepts_stale(request: CacheControl) -> bool:
    # "Unless the max-stale request directive is also present, the client does not wish to receive a stale response." --
    # section 5.2.1.1; min-fresh also excludes a stale response.
    if request.min_fresh is not None:
        return False
    return request.max_age is None or request.max_stale is not None
