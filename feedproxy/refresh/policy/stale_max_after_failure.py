"""The time for which a stale copy answers after a failed fetch.

The time depends on the fault:

* `stale_max` after 429, 5xx, no response, and content that is not a feed. These outcomes say nothing about the feed.
* `stale_max` after 408, 421 and 425, because the same request may succeed later (RFC 9110, sections 15.5.9 and 15.5.20;
  RFC 8470, section 5.2).
* `stale_max` after unregistered statuses of this kind: 420 and 430 limit rates, and 444, 460 and 499 report that the
  connection between two servers of the publisher ended.
* `stale_max`, but at most REFUSED_STALE_MAX, after 403, 404 and other 4xx, which can be intended.
* No time after 401 and 451, which restrict access, and after 410.

The time counts from the instant at which the origin last sent or confirmed the copy.
"""

from enum import Enum, auto

from msgspec import Struct

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Instant, Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.feed.channel import Channel
from feedproxy.http.message import NO_FIELDS, Fields
from feedproxy.refresh.policy import bot_challenge
from feedproxy.settings import Settings
from feedproxy.store.resource import Failures, Resource

REFUSED_STALE_MAX: Seconds = 86_400
"""A stale copy answers for at most this many seconds while its origin answers 403, 404 or another 4xx."""


class StaleAllowance(Enum):
    """The limit on the time for which a stale copy answers after a faulty response. LONG is `stale_max`. SHORT is
    `stale_max`, but at most REFUSED_STALE_MAX. NONE is no time."""

    LONG = auto()
    SHORT = auto()
    NONE = auto()


class FetchOutcome(Struct, frozen=True):
    """The outcome of a fetch: a response (`status`), or no response (`error`).

    If both are set, `error` means that the content is undecodable or too large. `channel` is the parsed feed. For other
    content, `page` contains the first decoded bytes. `redirect_error` is the reason why a redirect could not be
    followed.
    """

    status: int | None = None
    fields: Fields = NO_FIELDS
    error: FeedproxyError | None = None
    channel: Channel | None = None
    empty: bool = False
    html: bool = False
    page: bytes = b""
    redirect_error: Detail | None = None


class ContentFault(Struct, frozen=True):
    """The fault in the outcome of a fetch, and the limit on how long a stale copy answers."""

    detail: Detail
    reason: str
    allowance: StaleAllowance = StaleAllowance.LONG


def classify(outcome: FetchOutcome) -> ContentFault | None:
    """Return the fault in the outcome of a fetch, or None if the outcome is a feed or a 304."""
    status = outcome.status
    if outcome.channel is None and (name := bot_challenge.identify_vendor(outcome.fields, outcome.page)):
        return ContentFault(Detail.CHALLENGE, f"{name} answered with a check for browsers")
    if status is None:
        return _failure_fault(outcome.error)
    match status:
        case 304:
            return None
        case 200 | 203:
            if outcome.error is not None:
                return _failure_fault(outcome.error)
            if outcome.empty:
                return ContentFault(Detail.EMPTY, "the response has no content")
            if outcome.channel is not None:
                return None
            if outcome.html:
                return ContentFault(Detail.HTML_WHERE_FEED, "the response is HTML, not a feed")
            return ContentFault(Detail.ILL_FORMED, "the response is not a feed")
        case 206 | 226:
            return ContentFault(Detail.TRUNCATED, f"the origin answered {status} to a request for the whole feed")
        case 204 | 205:
            return ContentFault(Detail.EMPTY, f"the origin answered {status}, no content")
        case 401 | 451:
            return ContentFault(Detail.REFUSED, f"the origin answered {status}", StaleAllowance.NONE)
        case 410:
            return ContentFault(Detail.GONE, "the origin answered 410, gone", StaleAllowance.NONE)
        case 429:
            return ContentFault(Detail.RATE_LIMITED, "the origin answered 429, too many requests")
        case 408 | 421 | 425 | 420 | 430 | 444 | 460 | 499:
            return ContentFault(Detail.ERROR_STATUS, f"the origin answered {status}")
    if 300 <= status < 400:
        detail = outcome.redirect_error or Detail.REDIRECT_LOOP
        return ContentFault(detail, f"the origin's redirect ({status}) could not be followed ({detail})")
    if 400 <= status < 500:
        return ContentFault(Detail.REFUSED, f"the origin answered {status}", StaleAllowance.SHORT)
    # 5xx, other 2xx (a 202 has no result yet), and values outside the range that RFC 9110, section 15, defines, such
    # as 999.
    return ContentFault(Detail.ERROR_STATUS, f"the origin answered {status}")


def stale_limit(fault: ContentFault, settings: Settings) -> Seconds:
    """Return the seconds for which a copy may be served after a fault, counted from `last_validated`."""
    return _seconds(fault.allowance, settings)


def stale_limit_after_failure(failures: Failures, settings: Settings) -> Seconds:
    """Return the seconds for which a copy may be served during a back-off, counted from `last_validated`.

    The limit depends on the kind of the last failure, as in `stale_limit`. Otherwise clients would get the copy during
    the back-off, but an error as the result of each fetch after the back-off.
    """
    allowances: dict[str, StaleAllowance] = {Detail.GONE: StaleAllowance.NONE, Detail.REFUSED: StaleAllowance.SHORT}
    return _seconds(allowances.get(failures.detail, StaleAllowance.LONG), settings)


def _seconds(allowance: StaleAllowance, settings: Settings) -> Seconds:
    match allowance:
        case StaleAllowance.NONE:
            return 0
        case StaleAllowance.SHORT:
            return min(settings.stale_max, REFUSED_STALE_MAX)
        case StaleAllowance.LONG:
            return settings.stale_max


def last_validated(resource: Resource) -> Instant:
    """Return the instant at which the origin last sent or confirmed the stored feed."""
    return max(variant.response_time for variant in resource.variants)


def _failure_fault(error: FeedproxyError | None) -> ContentFault:
    detail = (Detail.of(error.detail) if error is not None else None) or Detail.FETCH_ERROR
    return ContentFault(detail, f"no usable answer ({detail})" + (f": {error}" if str(error or "") else ""))
