"""A feed that is for everybody no longer: who subscribed to it hears of it no more, at once and not at his lease's end.

A rule makes it private, or its origin lets nobody else keep it (Cache-Control: private, no-store). What is merely not
held at the moment has not changed its nature, and keeps its subscribers.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from feedproxy.clock import Instant, Seconds
from feedproxy.notify.notices import Notices
from feedproxy.notify.protocol import Order
from feedproxy.notify.subscriptions import Role, Subscription
from feedproxy.notify.topics import is_withdrawn

SWEEP: Seconds = 600
PAGE = 500


class Withdrawals:
    """Ends the subscriptions of one protocol to such feeds; `farewell` is what their subscribers are told."""

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
        if is_withdrawn(self._notices, target):
            self._notices.soon(partial(self.end, target))

    async def _turn(self) -> None:
        now = self._notices.clock.now()
        if not self._notices.ledger.is_ours() or (self._swept is not None and abs(now - self._swept) < SWEEP):
            return
        self._swept = now
        for topic in await self._notices.subscriptions.topics(Role.TELL, self._protocol):
            if is_withdrawn(self._notices, topic):
                await self.end(topic)
            await asyncio.sleep(0)

    async def end(self, topic: str) -> None:
        """End all subscriptions to this feed."""
        held = partial(self._notices.subscriptions.all, role=Role.TELL, protocol=self._protocol, topic=topic)
        while page := await held(limit=PAGE):
            for each in page:
                await self._notices.subscriptions.remove(each.id)
            if orders := [order for each in page if (order := self._farewell(each)) is not None]:
                await self._notices.order(*orders)
