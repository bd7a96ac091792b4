"""The notification service's interface to the other machines of a fleet."""

from typing import Protocol

from feedproxy.notify.changes.change_log import FeedSnapshot


class NotificationPeers(Protocol):
    """The other machines of a fleet. Each machine notifies its own subscribers."""

    def publish_change(self, snapshot: FeedSnapshot) -> None:
        """Send the peers a change that this machine found, without waiting."""
        ...

    async def claim_delivery(self, snapshot: FeedSnapshot) -> bool:
        """Return whether this machine makes the deliveries that are made only once in a fleet, such as pings."""
        ...


class SingleMachine:
    """The peers of a machine that belongs to no fleet."""

    def publish_change(self, snapshot: FeedSnapshot) -> None:
        """Do nothing."""

    async def claim_delivery(self, snapshot: FeedSnapshot) -> bool:
        return True
