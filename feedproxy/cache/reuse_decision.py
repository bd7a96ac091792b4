"""The decision whether a stored response may answer a GET or HEAD.  RFC 9111, section 4"""

import math

from msgspec import Struct

from feedproxy.cache import serving_stale
from feedproxy.cache.cache_status import Detail, Fwd
from feedproxy.cache.freshness import Freshness
from feedproxy.cache.serving_stale import Occasion
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.storing import storing_prohibition
from feedproxy.cache.validation import conditional_fields
from feedproxy.clock import Instant, Seconds
from feedproxy.http.cache_control import CacheControl


class Reuse(Struct, frozen=True):
    """The decision to answer with the stored response.

    `detail` is a token of Cache-Status. It states why a stale response may be used, or what shortened the use of the
    response. It is None if neither applies.
    """

    stored: StoredResponse
    freshness: Freshness
    detail: str | None = None


class ReuseAndRevalidate(Struct, frozen=True):
    """The decision to answer with the stored response, and to refresh it in the background (RFC 5861, section 3)."""

    stored: StoredResponse
    freshness: Freshness


class Validate(Struct, frozen=True):
    """The decision to forward the request with conditions that validate the stored response."""

    stored: StoredResponse
    fwd: Fwd
    reason: str


class Forward(Struct, frozen=True):
    """The decision to forward the request without conditions.

    `stored` is a stored response without a validator, or None. If the origin fails, the stored response may answer.
    """

    fwd: Fwd
    reason: str
    stored: StoredResponse | None = None


class NotInCache(Struct, frozen=True):
    """The decision to answer 504, because the request has only-if-cached and no stored response may answer."""

    reason: str = "only-if-cached, and no stored response may be used"


type Decision = Reuse | ReuseAndRevalidate | Validate | Forward | NotInCache


def decide(
    stored: StoredResponse | None,
    request: CacheControl,
    freshness: Freshness | None,
    now: Instant,
    *,
    known_uri: bool = False,
    stale_limit: Seconds = math.inf,
    stale_while_refreshing: Seconds = 0.0,
) -> Decision:
    """Return the decision whether `stored` answers the request (RFC 9111, section 4).

    * `request` contains the directives of the request.
    * `freshness` is the freshness of `stored` at `now`, or None if `stored` is None.
    * `known_uri` is True if a response is stored for the target URI.
    * `stale_limit` is the upper limit of max-stale, in seconds.
    * `stale_while_refreshing` is the time for which a stale response may answer during its refresh, in seconds.

    The directive no-store in a request does not prevent the use of a stored response (section 5.2.1.5).
    """
    if stored is None or freshness is None:
        if request.only_if_cached:
            return NotInCache()
        if known_uri:
            return Forward(Fwd.VARY_MISS, "the stored responses are for other request fields (Vary)")
        return Forward(Fwd.URI_MISS, "nothing is stored")
    control = freshness.control
    if reason := storing_prohibition(control, stored.status):
        return _forward(None, request, Fwd.STALE, f"must not be reused: {reason}")
    if stored.invalid:
        # 'or mark them as "invalid" and in need of a mandatory validation before they can be sent in response
        # to a subsequent request' -- section 4.4
        return _forward(stored, request, Fwd.STALE, "invalidated")
    if control.no_cache:
        # "the response MUST NOT be used to satisfy any other request without forwarding it for validation
        # and receiving a successful response" -- section 5.2.2.4
        return _forward(stored, request, Fwd.STALE, "no-cache: every use is validated")
    if request.no_cache:
        fwd = Fwd.REQUEST if freshness.is_fresh(now) else Fwd.STALE
        return _forward(stored, request, fwd, "the request has no-cache")
    if freshness.is_fresh(now):
        return _decide_fresh(stored, request, freshness, now, stale_limit)
    return _decide_stale(stored, request, freshness, now, stale_limit, stale_while_refreshing)


def _decide_fresh(
    stored: StoredResponse, request: CacheControl, freshness: Freshness, now: Instant, stale_limit: Seconds
) -> Decision:
    # "the client prefers a response whose age is less than or equal to the specified number of seconds" --
    # section 5.2.1.1; in whole seconds, as the Age field states it.
    if request.max_age is not None and math.floor(freshness.age) > request.max_age:
        past = freshness.age - request.max_age
        if request.max_stale is None or past > min(request.max_stale, stale_limit):
            return _forward(stored, request, Fwd.REQUEST, "older than the request's max-age")
    # "the client wants a response that will still be fresh for at least the specified number of seconds" --
    # section 5.2.1.3
    if request.min_fresh is not None and freshness.expires - now < request.min_fresh:
        return _forward(stored, request, Fwd.REQUEST, "not fresh for as long as the request's min-fresh")
    return Reuse(stored, freshness, freshness.limit.detail if freshness.limit is not None else None)


def _decide_stale(
    stored: StoredResponse,
    request: CacheControl,
    freshness: Freshness,
    now: Instant,
    stale_limit: Seconds,
    stale_while_refreshing: Seconds,
) -> Decision:
    def allows(occasion: Occasion) -> bool:
        limit = stale_while_refreshing if occasion is Occasion.REVALIDATING else stale_limit
        return serving_stale.may_serve_stale(stored, freshness, now, occasion=occasion, request=request, limit=limit)

    allowance = freshness.allowance
    if allowance is not None and allows(Occasion.HELD):
        return Reuse(stored, freshness, (freshness.limit or allowance).detail)
    if allows(Occasion.REVALIDATING):
        return ReuseAndRevalidate(stored, freshness)
    if request.min_fresh is None and _is_within_max_age(request, freshness) and allows(Occasion.MAX_STALE):
        return Reuse(stored, freshness, Detail.MAX_STALE)
    return _forward(stored, request, Fwd.STALE, freshness.description)


def _is_within_max_age(request: CacheControl, freshness: Freshness) -> bool:
    if request.max_age is None or request.max_stale is None:
        return True
    return freshness.age - request.max_age <= request.max_stale


def _forward(stored: StoredResponse | None, request: CacheControl, fwd: Fwd, reason: str) -> Decision:
    """Return the decision to forward, with conditions if the stored response has a validator.

    For a request with only-if-cached, return NotInCache.
    """
    # "respond using a stored response consistent with the other constraints of the request or respond with a
    # 504 (Gateway Timeout) status code" -- section 5.2.1.7
    if request.only_if_cached:
        return NotInCache(f"only-if-cached, but {reason}")
    if stored is not None and len(conditional_fields(stored)):
        return Validate(stored, fwd, reason)
    return Forward(fwd, reason, stored)
