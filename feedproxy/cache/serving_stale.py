"""Rules for the use of stale responses (RFC 9111, section 4.2.4, and RFC 5861)."""

from enum import StrEnum
from typing import assert_never

from feedproxy.cache.freshness import Freshness, may_be_held
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.storing import withheld
from feedproxy.clock import Instant, Seconds
from feedproxy.http.cache_control import CacheControl


class Occasion(StrEnum):
    """The reason for using a stale response."""

    ERROR = "error"  # the origin answered 500, 502, 503 or 504, or sent unusable content
    DISCONNECTED = "disconnected"  # the origin could not be reached
    REFUSED = "refused"  # it answered 403, 404 or 429: no error in the sense of RFC 5861
    REVALIDATING = "revalidating"  # a new response is being fetched meanwhile
    MAX_STALE = "max-stale"  # the request allows it
    HELD = "held"  # the feed's own schedule allows it


def allowed(
    stored: StoredResponse,
    freshness: Freshness,
    now: Instant,
    *,
    occasion: Occasion,
    request: CacheControl,
    limit: Seconds,
) -> bool:
    """Return whether the response may be used now on this occasion; a fresh one may on any.

    `limit` is the operator's limit of staleness in seconds: the "configuration" of section 4.2.4. It applies beside
    the origin's stale-if-error and stale-while-revalidate; the longer one counts.
    """
    if stored.invalid or withheld(freshness.control, stored.status) or prohibited(freshness.control):
        return False
    if freshness.fresh(now):
        return True
    staleness = now - freshness.expires
    match occasion:
        case Occasion.ERROR | Occasion.DISCONNECTED:
            # RFC 5861, section 4: beyond stale-if-error a response "SHOULD NOT be used to satisfy the request,
            # absent other information". The operator's limit is such information.
            permissions = [
                freshness.control.stale_if_error,
                request.stale_if_error,
                _configured(stored, limit),
            ]
            return any(permitted is not None and staleness <= permitted for permitted in permissions)
        case Occasion.REFUSED:
            configured = _configured(stored, limit)
            return configured is not None and staleness <= configured
        case Occasion.REVALIDATING:
            # Section 4.2.4 also permits stale responses "by configuration in accordance with an out-of-band
            # contract": that is `limit`.
            granted, configured = freshness.control.stale_while_revalidate, _configured(stored, limit)
            meanwhile = granted is not None and staleness <= granted
            return (meanwhile or bool(configured and staleness <= configured)) and _accepts_stale(request)
        case Occasion.MAX_STALE:
            # "the client is willing to accept a response that has exceeded its freshness lifetime by no more
            # than the specified number of seconds" -- RFC 9111, section 5.2.1.2
            return request.max_stale is not None and staleness <= min(request.max_stale, limit)
        case Occasion.HELD:
            held = freshness.held
            return (
                held is not None
                and now < held.until
                and may_be_held(stored, freshness.control)
                and _accepts_stale(request)
            )
    assert_never(occasion)


def prohibited(control: CacheControl) -> bool:
    """Return whether HTTP forbids any stale use of a response with these directives."""
    # "A cache MUST NOT generate a stale response if it is prohibited by an explicit in-protocol directive
    # (e.g., by a no-cache response directive, a must-revalidate response directive, or an applicable s-maxage
    # or proxy-revalidate response directive; see Section 5.2.2)."
    return control.no_cache or control.must_revalidate or control.proxy_revalidate or control.s_maxage is not None


def _configured(stored: StoredResponse, limit: Seconds) -> Seconds | None:
    # A response to a request with credentials may be used stale only if the origin allows it.
    return None if stored.authorized else limit


def _accepts_stale(request: CacheControl) -> bool:
    # "Unless the max-stale request directive is also present, the client does not wish to receive a stale
    # response." -- section 5.2.1.1; min-fresh and no-cache exclude a stale response as well.
    if request.no_cache or request.min_fresh is not None:
        return False
    return request.max_age is None or request.max_stale is not None
