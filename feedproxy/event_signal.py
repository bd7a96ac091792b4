"""Signals: one part of the proxy emits an event, and its subscribers get the event."""

import logging
import time
from collections.abc import Awaitable, Callable

from feedproxy.errors import FeedproxyError
from feedproxy.repeated_log_messages import RepeatedMessages

logger = logging.getLogger("feedproxy.event_signal")


class Signal[Event]:
    """A signal. It calls its subscribers with each event, in the order of subscription."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[Event], None]] = []
        self._logged = RepeatedMessages()

    def subscribe(self, on_event: Callable[[Event], None]) -> None:
        self._subscribers.append(on_event)

    def unsubscribe(self, on_event: Callable[[Event], None]) -> None:
        """Remove a subscriber, if `on_event` is subscribed."""
        if on_event in self._subscribers:
            self._subscribers.remove(on_event)

    def emit(self, event: Event) -> None:
        """Call all subscribers. An exception of one subscriber is logged, and the others are still called."""
        for on_event in tuple(self._subscribers):
            try:
                on_event(event)
            except Exception as error:
                _log(on_event, error, self._logged)


class AsyncSignal:
    """A signal that awaits its subscribers one after another, in the order of subscription."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[], Awaitable[None]]] = []
        self._logged = RepeatedMessages()

    def subscribe(self, on_event: Callable[[], Awaitable[None]]) -> None:
        self._subscribers.append(on_event)

    async def emit(self) -> None:
        """Await all subscribers, even if one of them raises an exception.

        A FeedproxyError, such as a failure of the database, is raised after all subscribers have been awaited. If there
        are several, the first is raised. Any other exception is logged.
        """
        failures: list[FeedproxyError] = []
        for on_event in self._subscribers:
            try:
                await on_event()
            except FeedproxyError as error:
                failures.append(error)
            except Exception as error:
                _log(on_event, error, self._logged)
        if failures:
            raise failures[0]


def _log(subscriber: object, error: Exception, logged: RepeatedMessages) -> None:
    """Log an exception with its traceback. Equal exceptions of one receiver are logged at most once a minute."""
    name = getattr(subscriber, "__qualname__", type(subscriber).__qualname__)
    if logged.may_log(f"{name}: {error!r}", time.monotonic()):
        logger.error("event: %s failed", name, exc_info=error)
