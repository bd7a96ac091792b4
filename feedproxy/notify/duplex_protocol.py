"""A protocol that is spoken on both sides: one tells those who subscribed here, the other asks to be told."""

from collections.abc import Iterable
from typing import Protocol as Shape

from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Response
from feedproxy.notify.outbound_subscriptions import Hearing
from feedproxy.notify.protocol import DAY, Change, Delivery, Message, Order, Refused, Verdict
from feedproxy.notify.subscriptions import Role, Subscription


class Side(Shape):
    """What one side sends for a subscription, and what the answer means (protocol.py)."""

    async def message(self, delivery: Delivery, subscription: Subscription) -> Message | None: ...

    async def judge(self, subscription: Subscription, answer: Response | FeedproxyError) -> Verdict: ...


class Hearer(Side, Shape):
    """The side that asks."""

    hearing: Hearing


class Both[T: Side, H: Hearer]:
    """Both sides as one protocol of the courier: who fails is tried for a day and once more, and then forgotten."""

    patience = DAY
    removes = True

    def __init__(self, name: str, teller: T, hearer: H) -> None:
        self.name = name
        self.teller = teller
        self.hearer = hearer

    def standing(self, change: Change) -> Iterable[Order]:
        """Nobody is told who did not subscribe."""
        return ()

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        return await self._side(subscription).message(delivery, subscription) if subscription is not None else None

    async def judge(
        self, delivery: Delivery, subscription: Subscription | None, answer: Response | FeedproxyError
    ) -> Verdict:
        if subscription is None:
            return Refused("the subscription has ended")
        return await self._side(subscription).judge(subscription, answer)

    async def renew(self, subscription: Subscription) -> None:
        await self.hearer.hearing.renew(subscription)

    def _side(self, subscription: Subscription) -> Side:
        return self.hearer if subscription.role is Role.HEAR else self.teller
