"""A protocol with two sides: a publisher that notifies subscribers, and a subscriber that subscribes at other
servers."""

from collections.abc import Iterable
from typing import Protocol as Shape

from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Response
from feedproxy.notify.notification_protocol import Change, Delivery, DeliveryRequest, Message, Refused, Verdict
from feedproxy.notify.outbound_subscriptions import OutboundSubscriptions
from feedproxy.notify.subscription_table import Role, Subscription


class ProtocolSide(Shape):
    """One side of a protocol: it makes messages and interprets responses (notification_protocol.py)."""

    async def message(self, delivery: Delivery, subscription: Subscription) -> Message | None:
        """Return the message to send now, or None to drop the delivery."""
        ...

    async def interpret(self, subscription: Subscription, answer: Response | FeedproxyError) -> Verdict:
        """Return the verdict on a response, or on the error without a response."""
        ...


class SubscriberSide(ProtocolSide, Shape):
    """The side of a protocol that subscribes at other servers."""

    subscriptions: OutboundSubscriptions


class DuplexProtocol[P: ProtocolSide, S: SubscriberSide]:
    """A protocol made of a publisher and a subscriber side.

    A failing delivery is retried for a day. The subscription is then removed.
    """

    remove_on_failure = True

    def __init__(self, name: str, publisher: P, subscriber: S) -> None:
        self.name = name
        self.publisher = publisher
        self.subscriber = subscriber

    def extra_deliveries(self, change: Change) -> Iterable[DeliveryRequest]:
        return ()

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        return await self._side(subscription).message(delivery, subscription) if subscription is not None else None

    async def interpret(
        self, delivery: Delivery, subscription: Subscription | None, answer: Response | FeedproxyError
    ) -> Verdict:
        if subscription is None:
            return Refused("the subscription has ended")
        return await self._side(subscription).interpret(subscription, answer)

    async def renew(self, subscription: Subscription) -> None:
        await self.subscriber.subscriptions.renew(subscription)

    def _side(self, subscription: Subscription) -> ProtocolSide:
        return self.subscriber if subscription.role is Role.PUBLISHER else self.publisher
