"""Hears what is told to all machines, in order, and notices what it has missed.

News are numbered. They come over a subscription; whoever has missed some (it was away, its connection was cut, Redis
had too much to send) sees it by the next number, or once a second by asking for the last one, and reads the rest from
the log. Where the log does not reach back, or Redis has begun anew, everything that is held here is compared instead.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from feedproxy.clock import Seconds
from feedproxy.cluster.redis_connection import RedisRefused, RedisUnavailable
from feedproxy.cluster.redis_store import ClusterEvent, RedisStore, parse_event

logger = logging.getLogger("feedproxy.cluster")

RESUBSCRIBE_DELAY: Seconds = 0.2
"""Before it subscribes anew."""
MESSAGE_TIMEOUT: Seconds = 1
MISSED_MAX = 3
"""Who has missed something so often, and heard nothing, has a connection that leads nowhere."""


class EventListener:
    """One subscription. `act` is given each message of others, in order; `lost` is called where some are lost."""

    def __init__(
        self, shelf: RedisStore, act: Callable[[ClusterEvent], Awaitable[None]], lost: Callable[[], None]
    ) -> None:
        self._redis_store = shelf
        self._on_event = act
        self._on_events_lost = lost
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self.last_number: int | None = None
        """The number of the last news that was acted upon."""
        self.gaps = 0
        self._missed = 0
        """Times in a row that the log had something of which nothing was heard."""
        self.subscribed = asyncio.Event()
        """It has subscribed."""

    def start(self) -> None:
        """Begin; inside a running event loop."""
        self._task = asyncio.ensure_future(self._listen())

    async def close(self) -> None:
        """Hear no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def catch_up(self) -> None:
        """Act upon what was told since, if anything was missed. Raises Away or Refused."""
        async with self._lock:
            if self.last_number is None:
                # Subscribed or not: from here on nothing is missed, and what was before is compared.
                self.last_number = await self._redis_store.last_event_number()
                self._on_events_lost()
                return
            now, told = await self._redis_store.events_since(self.last_number)
            if told is None:
                logger.info("Redis: changes %d to %d were missed: all copies are compared", self.last_number, now)
                self.last_number = now
                self._on_events_lost()
                return
            for message in told:
                await self._apply_numbered(message)

    async def check(self) -> None:
        """Has anything been missed? Raises Away or Refused."""
        heard = self.last_number
        # What is on its way is no gap: it has a moment.
        if heard is None or (await self._redis_store.last_event_number() != heard and self.last_number == heard):
            self.gaps += heard is not None
            self._missed += heard is not None
            await self.catch_up()

    async def _apply_numbered(self, message: ClusterEvent) -> None:
        self.last_number = message.number
        await self._apply(message)

    async def _apply(self, message: ClusterEvent) -> None:
        if message.machine != self._redis_store.machine:
            try:
                await self._on_event(message)
            except Exception:
                logger.exception("the fleet's news could not be acted upon")

    async def _listen(self) -> None:
        while True:
            try:
                if self._redis_store.connection.up:
                    await self._receive()
            except (RedisUnavailable, RedisRefused):
                pass
            except Exception:
                logger.exception("the fleet's news cannot be heard")
            self.subscribed.clear()
            await asyncio.sleep(RESUBSCRIBE_DELAY)

    async def _receive(self) -> None:
        async with self._redis_store.connection.subscribe(self._redis_store.keys.channel) as pubsub:
            self.subscribed.set()
            self._missed = 0
            while self._redis_store.connection.up and self._missed < MISSED_MAX:
                said = await pubsub.get_message(timeout=MESSAGE_TIMEOUT)
                if said is None or said.get("type") != "message":
                    continue
                self._missed = 0
                message = parse_event(said["data"])
                if message is None:
                    continue
                if not message.number:
                    await self._apply(message)
                    continue
                async with self._lock:
                    is_next = self.last_number is not None and message.number == self.last_number + 1
                    if is_next:
                        await self._apply_numbered(message)
                if not is_next and self.last_number is not None and message.number > self.last_number:
                    self.gaps += 1
                    await self.catch_up()
