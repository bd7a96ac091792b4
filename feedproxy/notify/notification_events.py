"""Events that the notification service emits for its protocols."""

from msgspec import Struct, field

from feedproxy.event_signal import AsyncSignal, Signal
from feedproxy.notify.changes.change_log import FeedSnapshot
from feedproxy.notify.subscription_table import Subscription
from feedproxy.store.resource import Resource


class NotificationEvents(Struct, frozen=True):
    """The signals of one notification service."""

    feed_seen: Signal[Resource] = field(default_factory=Signal)
    """Emitted for each stored feed at the start, and for each feed with new content."""
    change_found: Signal[FeedSnapshot] = field(default_factory=Signal)
    """Emitted for each change that this machine found, for the other machines of a fleet."""
    feed_private: Signal[str] = field(default_factory=Signal)
    """Emitted with the target after each refresh of a feed that public lists must not name."""
    feed_relocated: Signal[str] = field(default_factory=Signal)
    """Emitted with the target after each refresh of a public feed while its origin reports a move or an end
    (Relocation)."""
    subscription_expired: Signal[Subscription] = field(default_factory=Signal)
    """Emitted after the removal of an expired subscription, in the process that sends deliveries."""
    delivery_started: AsyncSignal = field(default_factory=AsyncSignal)
    """Emitted when this process begins to send deliveries, and after an outage."""
    tick: AsyncSignal = field(default_factory=AsyncSignal)
    """Emitted in each iteration of the service's loop, in every process.

    Iterations are frequent: receivers with periodic work must check the clock.
    """
