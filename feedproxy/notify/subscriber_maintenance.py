"""Subscriptions to a feed that has become private, or that has moved.

Private: a rule says so, or its origin forbids shared caches to keep it (Cache-Control: private, no-store). Its
subscriptions end at once, not at their leases' ends. A feed that is only not stored at the moment is not private.

Moved: readers are redirected to the new address. Subscriptions know both addresses, and subscribers get the news of
either. A WebSub delivery names the address that the news is of.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from feedproxy.clock import Instant, Seconds
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.protocol import DeliveryRequest
from feedproxy.notify.subscriptions import Role, Subscription
from feedproxy.notify.topics import is_no_longer_public, redirect_target
from feedproxy.refresh.events import RefreshEnded

SWEEP_INTERVAL: Seconds = 600
PAGE_SIZE = 500


class SubscriberMaintenance:
    """The subscribers of one protocol. `farewell` is what they are told whose subscription ends."""

    def __init__(
        self,
        service: NotificationService,
        protocol: str,
        final_message: Callable[[Subscription], DeliveryRequest | None] = lambda _: None,
    ) -> None:
        self._service = service
        self._protocol = protocol
        self._final_message = final_message
        self._swept: Instant | None = None
        service.events.refresh_ended.subscribe(self._on_refresh_ended)
        service.events.tick.subscribe(self._on_tick)

    def _on_refresh_ended(self, event: RefreshEnded) -> None:
        """An update is over."""
        target = event.target
        if is_no_longer_public(self._service, target) or redirect_target(self._service, target) != target:
            self._service.defer(partial(self.update_subscriptions, target))

    async def _on_tick(self) -> None:
        now = self._service.clock.now()
        if not self._service.database.acquire_delivery_lock() or (
            self._swept is not None and abs(now - self._swept) < SWEEP_INTERVAL
        ):
            return
        self._swept = now
        for topic in await self._service.subscriptions.topics(Role.SUBSCRIBER, self._protocol):
            await self.update_subscriptions(topic)
            await asyncio.sleep(0)
        for topic in await self._service.subscriptions.moved_topics(self._protocol):
            await self._service.subscriptions.move(self._protocol, topic, redirect_target(self._service, topic))
            await asyncio.sleep(0)

    async def update_subscriptions(self, topic: str) -> None:
        """Let those who subscribed to this feed share its fate."""
        if is_no_longer_public(self._service, topic):
            await self._end(topic)
        elif (there := redirect_target(self._service, topic)) != topic:
            await self._service.subscriptions.move(self._protocol, topic, there)

    async def _end(self, topic: str) -> None:
        held = partial(self._service.subscriptions.all, role=Role.SUBSCRIBER, protocol=self._protocol, topic=topic)
        while page := await held(limit=PAGE_SIZE):
            await self._service.subscriptions.remove(*(each.id for each in page))
            if orders := [order for each in page if (order := self._final_message(each)) is not None]:
                await self._service.enqueue(*orders)
