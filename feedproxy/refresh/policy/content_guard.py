"""The content guard: only a good feed replaces a good copy (DESIGN: Bad updates).

An outcome is first *classified*, whatever is stored: its fault, and how long a stale copy may be served for it. Then it
is compared with the copy, with three possible decisions:

Replace          it becomes the copy.
KeepStored       the copy stays, and is served until `until`, unless HTTP forbids that (cache/serving_stale.py).
PassThroughOnly  clients get the response, and HTTP alone decides whether it is stored.

How long a stale copy is served, and why:

* 429, 5xx, no response, and content that is not a feed (challenges, HTML, empty or truncated content) say nothing about
  the feed: `stale_max`.
* 403, 404 and other 4xx may be intended: `stale_max_refused`. The request has not changed since it succeeded, so the
  origin either has a temporary fault or intends the refusal.
* After 408, 421 and 425 the same request may succeed later (RFC 9110, 15.5.9 and 15.5.20; RFC 8470, 5.2).
* 401 and 451 restrict access, and 410 is an intended end: no copy is served.

A feed of another kind, one that has become ill-formed, and one that has suddenly lost most of its items is a format
change. It is accepted after several sightings over some hours.

These times count from when the copy was last received or validated by a 304.
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
NEW_FORMAT_SPAN: Seconds = 6 * 3600
"""Sightings, and seconds they must span, until a format change is accepted: longer than a failed deployment in the
evening, shorter than a reader's day (DESIGN: Bad updates)."""

ITEM_LOSS_SHARE = 1 / 2
ITEM_LOSS_SHARE_ILL_FORMED = 1 / 4
"""The part of a feed's items above which a sudden loss is a format change. Of 938 updates in the histories of nine real
feeds, five lost more than half, each after months without a recorded version."""
ITEM_LOSS_TOLERATED = 3
"""Items that a well-formed feed may always lose at once, unless these are all: short lists vary."""


class StaleAllowance(Enum):
    """The limit for serving a stale copy in place of a fault."""

    LONG = "stale_max"
    SHORT = "stale_max_refused"
    NONE = "at once"


@dataclass(frozen=True, slots=True)
class FetchOutcome:
    """The outcome of a fetch: a response (`status`), or none (`error`).

    `error` beside a status means that the content could not be read (undecodable, too large). `channel` is the parsed
    feed; `html`, `empty` and `truncated` describe other content, and `page` holds its first decoded bytes, which are
    searched for a challenge. `truncated` means that the end is known to be missing, as by Content-Length. An
    unfinished document in a complete response counts as ill-formed. For a redirect that could not be followed, `broken`
    is the reason.
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
    """The fault of an outcome, whatever is stored."""

    detail: Detail
    reason: str
    allowance: StaleAllowance = StaleAllowance.LONG


@dataclass(frozen=True, slots=True)
class Replace:
    """The update becomes the copy, and sightings of other formats are dropped."""

    reason: str


@dataclass(frozen=True, slots=True)
class KeepStored:
    """The copy is served, with `detail`, before `until`. `new_shape` is stored."""

    detail: Detail
    until: Instant
    reason: str
    new_shape: PendingFormatChange | None = None


@dataclass(frozen=True, slots=True)
class PassThroughOnly:
    """Clients get the response. `detail` names its fault, if there is one.

    A fault still delays the next fetch. `new_shape` is stored.
    """

    reason: str
    detail: Detail | None = None
    new_shape: PendingFormatChange | None = None


type Verdict = Replace | KeepStored | PassThroughOnly


def decide_replacement(resource: Resource | None, outcome: FetchOutcome, now: Instant, settings: Settings) -> Verdict:
    """Decide about this update. `settings` are those of the feed, rules included."""
    if resource is None or not resource.variants:
        fault = classify(outcome)
        return PassThroughOnly(fault.reason if fault else "no copy is held", fault.detail if fault else None)
    if resource.channel is None:
        # "HTTP's caching rules hold for everything that passes; feed features touch feeds only."
        return Replace("no feed is held")
    fault = classify(outcome)
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
            # No copy is left to guard: any feed is better than a copy that may not be served.
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
    """Return the fault of an outcome; None for a feed or a 304. Other content is a fault if a feed was stored."""
    status = outcome.status
    if outcome.channel is None and (name := bot_challenge.identify_vendor(outcome.fields, outcome.page)):
        return ContentFault(Detail.CHALLENGE, f"{name} asks whether we are a browser")
    if status is None:
        return _failure_fault(outcome.error)
    match status:
        case 304:
            return None
        case 200 | 203:
            return _classify_content(outcome)
        case 206 | 226:
            return ContentFault(Detail.TRUNCATED, f"a part came ({status}) where the whole was asked for")
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
        why = outcome.redirect_error or Detail.REDIRECT_LOOP
        return ContentFault(why, f"the origin's redirect ({status}) leads nowhere ({why})")
    if 400 <= status < 500:
        return ContentFault(Detail.REFUSED, f"the origin answered {status}", StaleAllowance.SHORT)
    # 5xx, other 2xx (a 202 has no result yet), and statuses that RFC 9110, section 15, calls invalid: 999.
    return ContentFault(Detail.ERROR_STATUS, f"the origin answered {status}")


def stale_limit_after_failure(failures: Failures, settings: Settings) -> Seconds:
    """Return for how long a copy may be served during the back-off: as long as at the failure.

    It counts from `last_validated`. Otherwise clients would get a 404 and an old copy in turns.
    """
    match failures.detail:
        case Detail.GONE:
            return 0
        case Detail.REFUSED:
            return settings.stale_max_refused
    return settings.stale_max


def format_name(channel: Channel) -> str:
    """Return the format of a feed: `atom`, `ill-formed rss`."""
    return str(channel.kind) if channel.well_formed else f"ill-formed {channel.kind}"


def last_validated(resource: Resource) -> Instant:
    """Return when the origin last sent or validated the stored feed."""
    return max(variant.response_time for variant in resource.variants)


def _classify_content(outcome: FetchOutcome) -> ContentFault | None:
    """Return the fault of a complete response that is not a feed, the most specific one."""
    if outcome.error is not None:
        return _failure_fault(outcome.error)
    if outcome.empty:
        return ContentFault(Detail.EMPTY, "the origin sent nothing at all")
    if outcome.truncated:
        return ContentFault(Detail.TRUNCATED, "the end of what the origin sent is missing")
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
    """Return whether a feed has suddenly lost most of its items, or all.

    A feed with a recorded version as short as that has not. For an ill-formed update the limit is a quarter: it may
    break off before the rest.
    """
    stored = resource.channel
    if stored is None or update.items >= stored.items or update.kind is not stored.kind:
        return False
    if resource.version_records and update.items >= min(edition.items for edition in resource.version_records):
        return False
    lost = stored.items - update.items
    if not update.well_formed:
        return lost > stored.items * ITEM_LOSS_SHARE_ILL_FORMED
    return not update.items or (lost >= ITEM_LOSS_TOLERATED and lost > stored.items * ITEM_LOSS_SHARE)


def _is_compatible(stored: Channel, update: Channel) -> bool:
    """Return whether the update may replace the copy at once; an ill-formed copy is always replaced."""
    if not stored.well_formed:
        return update.well_formed or update.kind is stored.kind
    return update.well_formed and update.kind is stored.kind


def _format_detail(channel: Channel) -> Detail:
    return Detail.NEW_SHAPE if channel.well_formed else Detail.ILL_FORMED


def _count_sighting(pending: PendingFormatChange | None, format_seen: str, now: Instant) -> PendingFormatChange:
    """Return the format change with one more sighting; another format starts at one. Failures do not count."""
    if pending is None or pending.shape != format_seen or now < pending.first:
        return PendingFormatChange(format_seen, now, 1)
    return PendingFormatChange(format_seen, pending.first, pending.count + 1)


def _format_time(instant: Instant) -> str:
    return time.strftime("%d %b %H:%M GMT", time.gmtime(instant))
