"""Events of the notification service, for the protocols that it runs: one object with typed signals."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from feedproxy.refresh.events import RefreshEnded, Signal
from feedproxy.store.resource import Resource


class AsyncSignal:
    """Awaits its subscribers one after another, in the order in which they subscribed."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[], Awaitable[None]]] = []

    def subscribe(self, on_event: Callable[[], Awaitable[None]]) -> None:
        """Await `on_event` at every event from now on."""
        self._subscribers.append(on_event)

    async def emit(self) -> None:
        """Await all subscribers. An exception of a subscriber ends the event."""
        for on_event in self._subscribers:
            await on_event()


@dataclass(frozen=True, slots=True)
class NotificationEvents:
    """The signals of one notification service."""

    feed_seen: Signal[Resource] = field(default_factory=Signal)
    """A feed was found in the store at the start, or its content is new. Protocols find its hub or cloud."""
    refresh_ended: Signal[RefreshEnded] = field(default_factory=Signal)
    """A refresh is over, whatever it brought."""
    delivery_started: AsyncSignal = field(default_factory=AsyncSignal)
    """This process begins to deliver, or an outage is over."""
    tick: AsyncSignal = field(default_factory=AsyncSignal)
    """An iteration of the loop, in every process. Subscribers with little to do check the clock first."""
