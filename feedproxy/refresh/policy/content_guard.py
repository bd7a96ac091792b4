"""The content guard: only a good feed replaces a good copy.

The outcome of a fetch is first *classified* by itself: whether it has a fault, and how long a stale copy may be served
in its place. Then the outcome is compared with the stored copy. There are three decisions:

    Replace          the update becomes the stored copy.
    KeepStored       the copy stays, and is served up to `until`, unless HTTP forbids that (cache/serving_stale.py).
    PassThroughOnly  clients get the response, and HTTP alone decides whether it is stored.

How long a stale copy is served depends on the fault:

* 429, 5xx, no response, and content that is not a feed (challenges, HTML, empty or truncated content) tell nothing
  about the feed. The limit is `stale_max`.
* 403, 404 and other 4xx may be intended. The limit is `stale_max_refused`. The same request succeeded before, so the
  origin either has a temporary fault or intends the refusal.
* After 408, 421 and 425 the same request may succeed later (RFC 9110, sections 15.5.9 and 15.5.20; RFC 8470, section
  5.2). The limit is `stale_max`.
* 401 and 451 restrict access, and 410 is an intended end. No copy is served.

The limits count from the instant at which the copy was last received or validated by a 304.

Three changes of a feed count as a format change: the feed has another format, has become ill-formed, or has suddenly
lost most of its items. A format change is accepted after several sightings over some hours.
"""

import time
from dataclasses import dataclass, field
from enum import Enum

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Instant, Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.feed.channel import Channel
from feedproxy.http.message import Fields
from feedproxy.refresh.policy import bot_challenge
from feedproxy.settings import Settings
from feedproxy.store.resource import Failures, PendingFormatChange, Resource

NEW_FORMAT_SIGHTINGS = 3
"""Number of sightings after which a format change is accepted."""

NEW_FORMAT_SPAN: Seconds = 6 * 3600
"""Seconds that the NEW_FORMAT_SIGHTINGS sightings must span: longer than a failed deployment lasts, shorter than a
day."""

ITEM_LOSS_SHARE = 1 / 2
"""Fraction of a feed's items: if a well-formed update lacks more than this fraction, the loss is a format change. Of
938 updates in the histories of nine feeds, five lost more than half, each after months without a recorded version."""

ITEM_LOSS_SHARE_ILL_FORMED = 1 / 4
"""Fraction of a feed's items: if an ill-formed update lacks more than this fraction, the loss is a format change.

The fraction is lower than for a well-formed update (ITEM_LOSS_SHARE), because an ill-formed document may be truncated:
its missing items are then still part of the feed, and the stored copy is better.
"""

ITEM_LOSS_TOLERATED = 3
"""Minimum number of items that a well-formed update must lack for a format change. Fewer items may disappear from a
short feed by chance. The loss of all items always counts as a format change.
"""


class StaleAllowance(Enum):
    """The option that limits how long a stale copy is served in place of a faulty response."""

    LONG = "stale_max"
    SHORT = "stale_max_refused"
    NONE = "at once"


@dataclass(frozen=True, slots=True)
class FetchOutcome:
    """The outcome of a fetch: a response (`status`), or none (`error`).

    `error` beside a status means that the content could not be decoded or is too large. `channel` is the parsed feed.
    For other content, `html`, `empty` and `truncated` describe it, and `page` are its first decoded bytes. `truncated`
    means that the end is known to be missing, for example by Content-Length. An unfinished document in a complete
    response is ill-formed instead. `redirect_error` is the reason why a redirect could not be followed.
    """

    status: int | None = None
    fields: Fields = field(default_factory=Fields)
    error: FeedproxyError | None = None
    channel: Channel | None = None
    empty: bool = False
    html: bool = False
    truncated: bool = False
    page: bytes = b""
    redirect_error: Detail | None = None


@dataclass(frozen=True, slots=True)
class ContentFault:
    """The fault in the outcome of a fetch, and the limit for stale copies. Neither depends on the stored copy."""

    detail: Detail
    reason: str
    allowance: StaleAllowance = StaleAllowance.LONG


@dataclass(frozen=True, slots=True)
class Replace:
    """The decision that the update becomes the stored copy. A pending format change is dropped."""

    reason: str


@dataclass(frozen=True, slots=True)
class KeepStored:
    """The decision to serve the stored copy up to the instant `until`, with `detail` in Cache-Status.

    `pending_change` is the format change to record, or None.
    """

    detail: Detail
    until: Instant
    reason: str
    pending_change: PendingFormatChange | None = None


@dataclass(frozen=True, slots=True)
class PassThroughOnly:
    """The decision that clients get the response. `detail` names its fault, if any.

    A fault still delays the next fetch. `pending_change` is the format change to record, or None.
    """

    reason: str
    detail: Detail | None = None
    pending_change: PendingFormatChange | None = None


type Verdict = Replace | KeepStored | PassThroughOnly


def decide_replacement(resource: Resource | None, outcome: FetchOutcome, now: Instant, settings: Settings) -> Verdict:
    """Return the decision about the outcome of a fetch. `settings` are those of the feed, rules included."""
    if resource is None or not resource.variants:
        fault = classify(outcome)
        return PassThroughOnly(fault.reason if fault else "no earlier copy", fault.detail if fault else None)
    if resource.channel is None and (outcome.status is None or outcome.status < 400):
        # For content that is not a feed, only HTTP's caching rules apply.
        return Replace("no feed is stored")
    fault = classify(outcome)
    if resource.channel is None:
        return PassThroughOnly("no feed is stored", fault.detail if fault else None)
    pending = resource.pending_format_change
    if fault is None:
        if outcome.status == 304 or outcome.channel is None:
            return Replace("not modified")
        loss = has_lost_items(resource, outcome.channel)
        if not loss and _is_compatible(resource.channel, outcome.channel):
            return Replace(f"new version ({outcome.channel.kind})")
        format_seen = format_name(outcome.channel) + (" without most of its items" if loss else "")
        if settings.on_bad_update == "pass":
            return Replace(f"the feed is {format_seen} now; bad updates pass here")
        pending = _count_sighting(pending, format_seen, now)
        if pending.count >= NEW_FORMAT_SIGHTINGS and now - pending.first >= NEW_FORMAT_SPAN:
            return Replace(
                f"the feed is {format_seen} now: seen {pending.count} times since {_format_time(pending.first)}"
            )
        if now >= last_validated(resource) + settings.stale_max:
            # The stored copy must not be served any more: any feed is better.
            return Replace(f"the feed is {format_seen} now, and the copy is too old")
        times = "once" if pending.count == 1 else f"{pending.count} times"
        item_counts = f" ({outcome.channel.items} of {resource.channel.items})" if loss else ""
        fault = ContentFault(
            _format_detail(outcome.channel), f"the feed is {format_seen} now{item_counts}, seen {times}"
        )
    if settings.on_bad_update == "pass":
        return PassThroughOnly(f"{fault.reason}; bad updates pass here", fault.detail)
    if fault.allowance is StaleAllowance.NONE:
        return PassThroughOnly(f"{fault.reason}: passed at once", fault.detail)
    limit = settings.stale_max if fault.allowance is StaleAllowance.LONG else settings.stale_max_refused
    until = last_validated(resource) + limit
    if now >= until:
        return PassThroughOnly(
            f"{fault.reason}; the copy, good until {_format_time(until)}, is too old", fault.detail, pending
        )
    return KeepStored(
        fault.detail, until, f"{fault.reason}; serving the cached copy until {_format_time(until)}", pending
    )


def classify(outcome: FetchOutcome) -> ContentFault | None:
    """Return the fault in the outcome of a fetch of a feed, or None if the outcome is a feed or a 304."""
    status = outcome.status
    if outcome.channel is None and (name := bot_challenge.identify_vendor(outcome.fields, outcome.page)):
        return ContentFault(Detail.CHALLENGE, f"{name} answered with a check for browsers")
    if status is None:
        return _failure_fault(outcome.error)
    match status:
        case 304:
            return None
        case 200 | 203:
            return _classify_content(outcome)
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
        case 408 | 421 | 425:
            return ContentFault(Detail.ERROR_STATUS, f"the origin answered {status}")
    if 300 <= status < 400:
        detail = outcome.redirect_error or Detail.REDIRECT_LOOP
        return ContentFault(detail, f"the origin's redirect ({status}) could not be followed ({detail})")
    if 400 <= status < 500:
        return ContentFault(Detail.REFUSED, f"the origin answered {status}", StaleAllowance.SHORT)
    # 5xx, other 2xx (a 202 has no result yet), and values outside the range that RFC 9110, section 15, defines, such
    # as 999.
    return ContentFault(Detail.ERROR_STATUS, f"the origin answered {status}")


def stale_limit_after_failure(failures: Failures, settings: Settings) -> Seconds:
    """Return the seconds for which a copy may be served during a back-off, counted from `last_validated`.

    The limit is the same as when the fetch failed. With another limit, clients would alternately get an error and the
    stale copy.
    """
    match failures.detail:
        case Detail.GONE:
            return 0
        case Detail.REFUSED:
            return settings.stale_max_refused
    return settings.stale_max


def format_name(channel: Channel) -> str:
    """Return the name of a feed's format, such as `atom` or `ill-formed rss`."""
    return str(channel.kind) if channel.well_formed else f"ill-formed {channel.kind}"


def last_validated(resource: Resource) -> Instant:
    """Return the instant at which the origin last sent or validated the stored feed."""
    return max(variant.response_time for variant in resource.variants)


def _classify_content(outcome: FetchOutcome) -> ContentFault | None:
    """Return the most specific fault of a complete response, or None if it is a feed."""
    if outcome.error is not None:
        return _failure_fault(outcome.error)
    if outcome.empty:
        return ContentFault(Detail.EMPTY, "the response has no content")
    if outcome.truncated:
        return ContentFault(Detail.TRUNCATED, "the end of the content is missing")
    if outcome.channel is not None:
        return None
    if outcome.html:
        return ContentFault(Detail.HTML_WHERE_FEED, "the response is HTML, not a feed")
    return ContentFault(Detail.ILL_FORMED, "the response is not a feed")


def _failure_fault(error: FeedproxyError | None) -> ContentFault:
    token = error.detail if error is not None else Detail.FETCH_ERROR
    detail = next((detail_token for detail_token in Detail if detail_token == token), Detail.FETCH_ERROR)
    return ContentFault(detail, f"no usable answer ({detail})" + (f": {error}" if str(error or "") else ""))


def has_lost_items(resource: Resource, update: Channel) -> bool:
    """Return whether a feed has suddenly lost so many items that the loss counts as a format change (ITEM_LOSS_SHARE).

    The result is False if a recorded earlier version of the feed was as short as the update.
    """
    stored = resource.channel
    if stored is None or update.items >= stored.items or update.kind is not stored.kind:
        return False
    if resource.version_records and update.items >= min(record.items for record in resource.version_records):
        return False
    lost_items = stored.items - update.items
    if not update.well_formed:
        return lost_items > stored.items * ITEM_LOSS_SHARE_ILL_FORMED
    return not update.items or (lost_items >= ITEM_LOSS_TOLERATED and lost_items > stored.items * ITEM_LOSS_SHARE)


def _is_compatible(stored: Channel, update: Channel) -> bool:
    """Return whether the update may replace the copy at once. An ill-formed copy may always be replaced by a
    well-formed feed."""
    if not stored.well_formed:
        return update.well_formed or update.kind is stored.kind
    return update.well_formed and update.kind is stored.kind


def _format_detail(channel: Channel) -> Detail:
    return Detail.NEW_SHAPE if channel.well_formed else Detail.ILL_FORMED


def _count_sighting(pending: PendingFormatChange | None, format_seen: str, now: Instant) -> PendingFormatChange:
    """Return the pending format change with one more sighting. A sighting of another format starts a new count.

    Failures do not count as sightings.
    """
    if pending is None or pending.shape != format_seen or now < pending.first:
        return PendingFormatChange(format_seen, now, 1)
    return PendingFormatChange(format_seen, pending.first, pending.count + 1)


def _format_time(instant: Instant) -> str:
    return time.strftime("%d %b %H:%M GMT", time.gmtime(instant))
