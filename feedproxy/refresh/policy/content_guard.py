"""The content guard: only a good feed replaces a good copy. It compares the outcome of a fetch with the stored copy.

In a *format change*, the feed has another format, has become ill-formed, or has suddenly lost most of its items. A
format change is accepted after several fetches with the changed format over some hours, or when the copy is too old to
be used.
"""

import time

from msgspec import Struct

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Instant, Seconds
from feedproxy.feed.channel import Channel
from feedproxy.refresh.policy.stale_max_after_failure import (
    ContentFault,
    FetchOutcome,
    StaleAllowance,
    classify,
    last_validated,
    stale_limit,
)
from feedproxy.settings import Settings
from feedproxy.store.resource import PendingFormatChange, Resource

NEW_FORMAT_SIGHTINGS = 3
"""Until the copy is too old to be used, a format change is accepted only after this many fetches with the changed
format."""

NEW_FORMAT_SPAN: Seconds = 6 * 3600
"""Until the copy is too old to be used, a format change is accepted only if at least this many seconds pass from the
first to the last fetch with the changed format. The time is longer than a failed deployment of a site usually lasts."""

ITEM_LOSS_SHARE = 1 / 2
"""A well-formed update that lacks more than this fraction of the items of a feed counts as a format change. Of 938
updates in the histories of nine feeds, five lost more than half."""

ITEM_LOSS_SHARE_ILL_FORMED = 1 / 4
"""An ill-formed update that lacks more than this fraction of the items of a feed counts as a format change. The
fraction is lower than ITEM_LOSS_SHARE, because an ill-formed document can be truncated."""

ITEM_LOSS_TOLERATED = 3
"""A well-formed update that lacks fewer than this many items of a feed does not count as a format change, unless it has
no items."""


class Replace(Struct, frozen=True):
    """The decision that the update becomes the stored copy. If a format change waits for confirmation, its record is
    removed."""

    reason: str


class KeepStored(Struct, frozen=True):
    """The decision to serve the stored copy up to the instant `until`, unless HTTP forbids stale use. `detail` is for
    Cache-Status. `pending_change` is the format change to record, or None."""

    detail: Detail
    until: Instant
    reason: str
    pending_change: PendingFormatChange | None = None


class PassThroughOnly(Struct, frozen=True):
    """The decision that clients get the response. HTTP alone decides whether it is stored. `detail` names the fault of
    the response, which delays the next fetch, or is None if there is no fault. `pending_change` is the format change to
    record, or None."""

    reason: str
    detail: Detail | None = None
    pending_change: PendingFormatChange | None = None


type Verdict = Replace | KeepStored | PassThroughOnly


def decide_replacement(resource: Resource | None, outcome: FetchOutcome, now: Instant, settings: Settings) -> Verdict:
    """Return the decision about the outcome of a fetch. `settings` are those of the feed."""
    if resource is None or not resource.variants:
        fault = classify(outcome)
        return PassThroughOnly(fault.reason if fault else "no earlier copy", fault.detail if fault else None)
    if resource.channel is None:
        # For content that is not a feed, only HTTP's caching rules apply.
        if outcome.status is None or outcome.status < 400:
            return Replace("no feed is stored")
        fault = classify(outcome)
        return PassThroughOnly("no feed is stored", fault.detail if fault else None)
    if (fault := classify(outcome)) is not None:
        return _decide_fault(resource, fault, resource.pending_format_change, now, settings)
    if outcome.status == 304 or outcome.channel is None:
        return Replace("not modified")
    return _decide_usable_feed(resource, resource.channel, outcome.channel, now, settings)


def _decide_usable_feed(
    resource: Resource, stored: Channel, update: Channel, now: Instant, settings: Settings
) -> Verdict:
    """Return the decision about a feed. A format change is a fault until it is confirmed."""
    loss = has_lost_items(resource, update)
    if not loss and _is_compatible(stored, update):
        return Replace(f"usable feed ({update.kind})")
    format_seen = format_name(update) + (" without most of its items" if loss else "")
    if settings.on_bad_update == "pass":
        return Replace(f"the feed is {format_seen} now (on_bad_update: pass)")
    pending = _count_sighting(resource.pending_format_change, format_seen, now)
    if pending.count >= NEW_FORMAT_SIGHTINGS and now - pending.first >= NEW_FORMAT_SPAN:
        return Replace(f"the feed is {format_seen} now: seen {pending.count} times since {_format_time(pending.first)}")
    if now >= last_validated(resource) + settings.stale_max:
        # The stored copy must not be served any more: any feed is better.
        return Replace(f"the feed is {format_seen} now, and the copy is too old")
    times = "once" if pending.count == 1 else f"{pending.count} times"
    item_counts = f" ({update.items} of {stored.items})" if loss else ""
    detail = Detail.NEW_SHAPE if update.well_formed else Detail.ILL_FORMED
    fault = ContentFault(detail, f"the feed is {format_seen} now{item_counts}, seen {times}")
    return _decide_fault(resource, fault, pending, now, settings)


def _decide_fault(
    resource: Resource, fault: ContentFault, pending: PendingFormatChange | None, now: Instant, settings: Settings
) -> KeepStored | PassThroughOnly:
    if settings.on_bad_update == "pass":
        return PassThroughOnly(f"{fault.reason} (on_bad_update: pass)", fault.detail)
    if fault.allowance is StaleAllowance.NONE:
        return PassThroughOnly(f"{fault.reason}: clients get the response", fault.detail)
    until = last_validated(resource) + stale_limit(fault, settings)
    if now >= until:
        return PassThroughOnly(
            f"{fault.reason}; the copy, good until {_format_time(until)}, is too old", fault.detail, pending
        )
    return KeepStored(
        fault.detail, until, f"{fault.reason}; serving the cached copy until {_format_time(until)}", pending
    )


def format_name(channel: Channel) -> str:
    """Return the name of a feed's format, such as `atom` or `ill-formed rss`."""
    return str(channel.kind) if channel.well_formed else f"ill-formed {channel.kind}"


def has_lost_items(resource: Resource, update: Channel) -> bool:
    """Return whether a feed has suddenly lost so many items that the loss is a format change (ITEM_LOSS_SHARE). The
    result is False if an earlier version of the feed was as short as the update."""
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
    """Return whether the update may replace the copy at once."""
    if not stored.well_formed:
        return update.well_formed or update.kind is stored.kind
    return update.well_formed and update.kind is stored.kind


def _count_sighting(pending: PendingFormatChange | None, format_seen: str, now: Instant) -> PendingFormatChange:
    """Return the pending format change, counted once more. Another format starts a new count."""
    if pending is None or pending.shape != format_seen or now < pending.first:
        return PendingFormatChange(format_seen, now, 1)
    return PendingFormatChange(format_seen, pending.first, pending.count + 1)


def _format_time(instant: Instant) -> str:
    return time.strftime("%d %b %H:%M GMT", time.gmtime(instant))
