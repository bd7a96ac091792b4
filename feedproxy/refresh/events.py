"""Events of refreshes: one object with typed signals. app.py creates it and connects the subscribers."""

from collections.abc import Callable
from dataclasses import dataclass, field

from feedproxy.store.resource import Resource


class Signal[Event]:
    """A signal. It calls its subscribers with each event, in the order in which they subscribed."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[Event], None]] = []

    def subscribe(self, on_event: Callable[[Event], None]) -> None:
        """Call `on_event` with every later event."""
        self._subscribers.append(on_event)

    def unsubscribe(self, on_event: Callable[[Event], None]) -> None:
        """Remove a subscriber. The call has no effect if it is not subscribed."""
        if on_event in self._subscribers:
            self._subscribers.remove(on_event)

    def emit(self, event: Event) -> None:
        """Call all subscribers with the event."""
        for on_event in tuple(self._subscribers):
            on_event(event)


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
    """A refresh of this target has ended, with any result."""

    target: str


@dataclass(frozen=True, slots=True)
class Events:
    """The signals of one feedproxy process."""

    feed_changed: Signal[FeedChanged] = field(default_factory=Signal)
    """The notification service subscribes: it records the change and notifies subscribers."""
    copies_invalidated: Signal[CopiesInvalidated] = field(default_factory=Signal)
    """The addon `purges` subscribes: it purges the caches in front of feedproxy."""
    refresh_ended: Signal[RefreshEnded] = field(default_factory=Signal)
    """The prefetch schedule and the notification service subscribe: both plan the target again."""
