"""Maintenance of the subscriptions to feeds that have become private or have moved. The subscriptions to a private feed
end at once. The subscriptions to a moved feed cover its former and its new address."""

import asyncio
from collections.abc import Callable
from functools import partial

from feedproxy.clock import Instant, Seconds
from feedproxy.notify.notification_protocol import DeliveryRequest
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.subscription_table import Role, Subscription
from feedproxy.notify.topics import is_no_longer_public, moved_target

SWEEP_INTERVAL: Seconds = 600
"""Seconds between two checks whether topics have become private or have moved."""
PAGE_SIZE = 500


class SubscriberMaintenance:
    """Maintenance of the subscribers of one protocol. `final_message` returns the delivery that tells a subscriber of
    the end of its subscription, or None if the protocol has no such message."""

    def __init__(
        self,
        service: NotificationService,
        protocol: str,
        final_message: Callable[[Subscription], DeliveryRequest | None] = lambda _: None,
    ) -> None:
        self._service = service
        self._protocol = protocol
        self._final_message = final_message
        self._last_sweep: Instant | None = None
        service.events.feed_private.subscribe(self._update_later)
        service.events.feed_relocated.subscribe(self._update_later)
        service.events.tick.subscribe(self._on_tick)

    def _update_later(self, target: str) -> None:
        self._service.defer(partial(self.update_subscriptions, target))

    async def _on_tick(self) -> None:
        now = self._service.clock.now()
        if not self._service.database.acquire_delivery_lock() or (
            self._last_sweep is not None and abs(now - self._last_sweep) < SWEEP_INTERVAL
        ):
            return
        self._last_sweep = now
        for topic in await self._service.subscriptions.topics(Role.SUBSCRIBER, self._protocol):
            await self.update_subscriptions(topic)
            await asyncio.sleep(0)
        for topic in await self._service.subscriptions.moved_topics(self._protocol):
            await self._service.subscriptions.move(self._protocol, topic, moved_target(self._service, topic))
            await asyncio.sleep(0)

    async def update_subscriptions(self, topic: str) -> None:
        """End the subscriptions to a private feed, or move the subscriptions to a moved feed."""
        if is_no_longer_public(self._service, topic):
            await self._end(topic)
        elif (new_topic := moved_target(self._service, topic)) != topic:
            await self._service.subscriptions.move(self._protocol, topic, new_topic)

    async def _end(self, topic: str) -> None:
        read_page = partial(self._service.subscriptions.all, role=Role.SUBSCRIBER, protocol=self._protocol, topic=topic)
        while page := await read_page(limit=PAGE_SIZE):
            await self._service.subscriptions.remove(*(subscription.id for subscription in page))
            if requests := [
                request for subscription in page if (request := self._final_message(subscription)) is not None
            ]:
                await self._service.enqueue(*requests)
