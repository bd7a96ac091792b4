"""Events of refreshes: one object with typed signals. app.py creates it and connects the subscribers."""

from dataclasses import dataclass, field

from feedproxy.event_signal import Signal
from feedproxy.store.resource import Resource


@dataclass(frozen=True, slots=True)
class FeedChanged:
    """A feed was stored with new content. `is_new` is true if no feed was stored for its target before."""

    resource: Resource
    is_new: bool


@dataclass(frozen=True, slots=True)
class CopiesInvalidated:
    """Copies of these targets in other caches are no longer valid, because the targets have moved, ended or been
    purged."""

    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RefreshEnded:
    """A refresh of this target has succeeded or failed."""

    target: str


@dataclass(frozen=True, slots=True)
class Events:
    """The signals of one feedproxy process."""

    feed_changed: Signal[FeedChanged] = field(default_factory=Signal)
    """The notification service subscribes: it records the change and notifies subscribers."""
    copies_invalidated: Signal[CopiesInvalidated] = field(default_factory=Signal)
    """The addon `purges` subscribes: it purges the caches in front of feedproxy."""
    refresh_ended: Signal[RefreshEnded] = field(default_factory=Signal)
    """The refresh schedule and the notification service subscribe: both plan the next refresh of the target."""
