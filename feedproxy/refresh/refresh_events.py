"""Events of refreshes: one object with typed signals. app.py connects the subscribers."""

from dataclasses import dataclass, field

from feedproxy.event_signal import Signal
from feedproxy.store.resource import Resource


@dataclass(frozen=True, slots=True)
class FeedChanged:
    """Event: a feed was stored with new content. `is_new` is true for the first feed of its target."""

    resource: Resource
    is_new: bool


@dataclass(frozen=True, slots=True)
class CopiesInvalidated:
    """Event: copies of these targets in other caches are invalid, because the targets moved, ended or were purged."""

    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RefreshEnded:
    """Event: a refresh of this target has succeeded or failed."""

    target: str


@dataclass(frozen=True, slots=True)
class Events:
    """The signals of one feedproxy process."""

    feed_changed: Signal[FeedChanged] = field(default_factory=Signal)
    """The notification service records the change and notifies subscribers."""
    copies_invalidated: Signal[CopiesInvalidated] = field(default_factory=Signal)
    """The addon `purges` purges the caches in front of feedproxy."""
    refresh_ended: Signal[RefreshEnded] = field(default_factory=Signal)
    """The refresh schedule and the notification service plan the next refresh of the target."""
