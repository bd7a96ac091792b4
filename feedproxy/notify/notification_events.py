"""Events of the notification service for the protocols that it runs: one object with typed signals."""

from dataclasses import dataclass, field

from feedproxy.event_signal import AsyncSignal, Signal
from feedproxy.refresh.refresh_events import RefreshEnded
from feedproxy.store.resource import Resource


@dataclass(frozen=True, slots=True)
class NotificationEvents:
    """The signals of one notification service."""

    feed_seen: Signal[Resource] = field(default_factory=Signal)
    """A feed was found in the store at the start, or has new content. Protocols look for its hub or cloud."""
    refresh_ended: Signal[RefreshEnded] = field(default_factory=Signal)
    """A refresh has succeeded or failed."""
    delivery_started: AsyncSignal = field(default_factory=AsyncSignal)
    """This process has begun to deliver, or an outage has ended."""
    tick: AsyncSignal = field(default_factory=AsyncSignal)
    """The service's loop begins an iteration. Receivers with periodic work must check the clock, because iterations are
    frequent, and take place in every process."""
