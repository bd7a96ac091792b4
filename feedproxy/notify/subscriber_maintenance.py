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
from feedproxy.notify.notification_service import Notices
from feedproxy.notify.protocol import Order
from feedproxy.notify.subscriptions import Role, Subscription
from feedproxy.notify.topics import is_withdrawn, led_to

SWEEP: Seconds = 600
PAGE = 500


class Followers:
    """The subscribers of one protocol. `farewell` is what they are told whose subscription ends."""

    def __init__(
        self, notices: Notices, protocol: str, farewell: Callable[[Subscription], Order | None] = lambda _: None
    ) -> None:
        self._notices = notices
        self._protocol = protocol
        self._farewell = farewell
        self._swept: Instant | None = None
        notices.on_landed.append(self._landed)
        notices.every_turn.append(self._turn)

    def _landed(self, target: str) -> None:
        """An update is over."""
        if is_withdrawn(self._notices, target) or led_to(self._notices, target) != target:
            self._notices.soon(partial(self.follow, target))

    async def _turn(self) -> None:
        now = self._notices.clock.now()
        if not self._notices.ledger.is_ours() or (self._swept is not None and abs(now - self._swept) < SWEEP):
            return
        self._swept = now
        for topic in await self._notices.subscriptions.topics(Role.TELL, self._protocol):
            await self.follow(topic)
            await asyncio.sleep(0)
        for topic in await self._notices.subscriptions.moved(self._protocol):
            await self._notices.subscriptions.move(self._protocol, topic, led_to(self._notices, topic))
            await asyncio.sleep(0)

    async def follow(self, topic: str) -> None:
        """Let those who subscribed to this feed share its fate."""
        if is_withdrawn(self._notices, topic):
            await self._end(topic)
        elif (there := led_to(self._notices, topic)) != topic:
            await self._notices.subscriptions.move(self._protocol, topic, there)

    async def _end(self, topic: str) -> None:
        held = partial(self._notices.subscriptions.all, role=Role.TELL, protocol=self._protocol, topic=topic)
        while page := await held(limit=PAGE):
            await self._notices.subscriptions.remove(*(each.id for each in page))
            if orders := [order for each in page if (order := self._farewell(each)) is not None]:
                await self._notices.order(*orders)
