"""Signals: one part of the proxy emits an event, and its subscribers get the event."""

from collections.abc import Awaitable, Callable


class Signal[Event]:
    """A signal. It calls its subscribers with each event, in the order of subscription."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[Event], None]] = []

    def subscribe(self, on_event: Callable[[Event], None]) -> None:
        self._subscribers.append(on_event)

    def unsubscribe(self, on_event: Callable[[Event], None]) -> None:
        """Remove a subscriber, if `on_event` is subscribed."""
        if on_event in self._subscribers:
            self._subscribers.remove(on_event)

    def emit(self, event: Event) -> None:
        for on_event in tuple(self._subscribers):
            on_event(event)


class AsyncSignal:
    """A signal that awaits its subscribers one after another, in the order of subscription."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[], Awaitable[None]]] = []

    def subscribe(self, on_event: Callable[[], Awaitable[None]]) -> None:
        self._subscribers.append(on_event)

    async def emit(self) -> None:
        """Await all subscribers. An exception of one subscriber ends the call."""
        for on_event in self._subscribers:
            await on_event()
