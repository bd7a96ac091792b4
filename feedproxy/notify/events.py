"""Events of the notification service, for the protocols that it runs: one object with typed signals."""

from dataclasses import dataclass, field

from feedproxy.refresh.events import RefreshEnded
from feedproxy.signals import AsyncSignal, Signal
from feedproxy.store.resource import Resource


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
