"""Events of refreshes for the rest of the proxy: one object with typed signals, made in app.py."""

from collections.abc import Callable
from dataclasses import dataclass, field

from feedproxy.store.resource import Resource


class Signal[Event]:
    """Calls its subscribers with each event, in the order in which they subscribed."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[Event], None]] = []

    def subscribe(self, on_event: Callable[[Event], None]) -> None:
        """Call `on_event` with every event from now on."""
        self._subscribers.append(on_event)

    def unsubscribe(self, on_event: Callable[[Event], None]) -> None:
        """End a subscription; without effect where there is none."""
        if on_event in self._subscribers:
            self._subscribers.remove(on_event)

    def emit(self, event: Event) -> None:
        """Call all subscribers."""
        for on_event in tuple(self._subscribers):
            on_event(event)


@dataclass(frozen=True, slots=True)
class FeedChanged:
    """A feed was stored with new content. `is_new`: it is the first feed stored of its target."""

    resource: Resource
    is_new: bool


@dataclass(frozen=True, slots=True)
class CopiesInvalidated:
    """Copies of these targets in other caches are no longer valid, although their content did not change.

    The targets have moved or ended, or were purged.
    """

    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RefreshEnded:
    """A refresh of this target has ended, whatever its result."""

    target: str


@dataclass(frozen=True, slots=True)
class Events:
    """The signals of one installation, and their subscribers."""

    feed_changed: Signal[FeedChanged] = field(default_factory=Signal)
    """The notification service records the change and notifies subscribers."""
    copies_invalidated: Signal[CopiesInvalidated] = field(default_factory=Signal)
    """The addon `purges` purges the caches in front."""
    refresh_ended: Signal[RefreshEnded] = field(default_factory=Signal)
    """The prefetch schedule and the notification service decide about the target again."""
