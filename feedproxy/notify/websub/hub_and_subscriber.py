"""The protocol `websub`: a hub for feedproxy's subscribers, and a subscriber at other hubs."""

from collections.abc import Callable

from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Response
from feedproxy.notify.notification_protocol import Change, Delivery, DeliveryRequest, Message, Verdict
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.subscription_table import Subscription
from feedproxy.notify.websub.hub import Hub
from feedproxy.notify.websub.subscriber import Subscriber
from feedproxy.notify.websub.subscriber_callback import SubscriberCallback
from feedproxy.notify.websub.websub_messages import NAME

_SUBSCRIBER_REQUESTS = frozenset({"subscribe", "unsubscribe"})
"""Kinds of deliveries (`DeliveryRequest.what`) that the subscriber sends. All other kinds belong to the hub."""


class WebSub:
    """Hub and subscriber of WebSub. `hub` and `subscriber_callback` answer requests to endpoints.

    `key` returns a secret key of this installation.
    """

    name = NAME
    remove_on_failure = False

    def __init__(self, service: NotificationService, key: Callable[[], bytes]) -> None:
        self.hub = Hub(service)
        self.subscriber = Subscriber(service, key)
        self.subscriber_callback = SubscriberCallback(service, self.subscriber, key)

    def extra_deliveries(self, change: Change) -> tuple[DeliveryRequest, ...]:
        return ()

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        role = self.subscriber if delivery.request.what in _SUBSCRIBER_REQUESTS else self.hub
        return await role.message(delivery, subscription)

    async def interpret(
        self, delivery: Delivery, subscription: Subscription | None, answer: Response | FeedproxyError
    ) -> Verdict:
        role = self.subscriber if delivery.request.what in _SUBSCRIBER_REQUESTS else self.hub
        return await role.interpret(delivery, subscription, answer)

    async def renew(self, subscription: Subscription) -> None:
        await self.subscriber.renew(subscription)
