"""Events of one process: beginnings and ends of refreshes, and changes and invalidations of stored feeds.

The description of each signal names its receivers.
"""

from msgspec import Struct, field

from feedproxy.event_signal import Signal
from feedproxy.refresh.refresh_result import RefreshRecord
from feedproxy.store.resource import Resource


class FeedChanged(Struct, frozen=True):
    """The event that a feed was stored with new content. `is_new` is true if its target had no feed before."""

    resource: Resource
    is_new: bool


class RefreshEnded(Struct, frozen=True):
    """The event that a refresh of a target has succeeded, failed or been cancelled. `record` is None after a
    cancellation or an exception."""

    target: str
    record: RefreshRecord | None


class Events(Struct, frozen=True):
    """The signals of one feedproxy process."""

    feed_changed: Signal[FeedChanged] = field(default_factory=Signal)
    """Signal for the notification service, which records the change and notifies subscribers."""
    copies_invalidated: Signal[tuple[str, ...]] = field(default_factory=Signal)
    """Signal with the targets that moved, ended or were purged, so that copies in other caches are invalid. It is for
    the addon `purges`, which purges the caches in front of feedproxy."""
    scheduled_refresh_started: Signal[str] = field(default_factory=Signal)
    """Signal with the target of a refresh that the refresh schedule starts. It is for the metrics."""
    refresh_ended: Signal[RefreshEnded] = field(default_factory=Signal)
    """Signal with three kinds of receivers. The metrics and the recent activity record the refresh. The refresh
    schedule and the notification service plan the next refresh of the target. The admin pages show the new state of
    the feed."""
    updated_by_peer: Signal[str] = field(default_factory=Signal)
    """Signal with a target. Another worker, or another machine of the fleet, has updated or purged the target's copies.
    It is for the refresh schedule, and for the admin pages, which show the new state of the feed."""
    page_redirected_to_feed: Signal[str] = field(default_factory=Signal)
    """Signal with the target of a web page from which a client was redirected to its feed. The recent activity then no
    longer lists the page as an address without a feed."""
