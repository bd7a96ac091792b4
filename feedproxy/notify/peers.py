"""Questions that the notification service asks of the other machines, with a default for one machine on its own."""

from typing import Protocol

from feedproxy.notify.change_log import FeedSnapshot


class NotificationPeers(Protocol):
    """The other machines of a cluster. Each notifies its own subscribers of a change."""

    def publish_change(self, snapshot: FeedSnapshot) -> None:
        """Report a change that was found here to the peers. Returns at once."""
        ...

    async def claim_delivery(self, snapshot: FeedSnapshot) -> bool:
        """Return whether this machine notifies the recipients of a change that all machines know."""
        ...


class SingleMachine:
    """The peers of a machine without a cluster."""

    def publish_change(self, snapshot: FeedSnapshot) -> None:
        """Do nothing."""

    async def claim_delivery(self, snapshot: FeedSnapshot) -> bool:
        """Return True for every change."""
        return True
