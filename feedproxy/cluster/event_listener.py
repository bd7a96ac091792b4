"""Hears what is told to all machines, in order, and notices what it has missed.

News are numbered. They come over a subscription; whoever has missed some (it was away, its connection was cut, Redis
had too much to send) sees it by the next number, or once a second by asking for the last one, and reads the rest from
the log. Where the log does not reach back, or Redis has begun anew, everything that is held here is compared instead.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from feedproxy.clock import Seconds
from feedproxy.cluster.redis_connection import Away, Refused
from feedproxy.cluster.redis_store import Message, Shelf, read

logger = logging.getLogger("feedproxy.cluster")

AGAIN: Seconds = 0.2
"""Before it subscribes anew."""
LISTEN: Seconds = 1
MISSED_MAX = 3
"""Who has missed something so often, and heard nothing, has a connection that leads nowhere."""


class Ear:
    """One subscription. `act` is given each message of others, in order; `lost` is called where some are lost."""

    def __init__(self, shelf: Shelf, act: Callable[[Message], Awaitable[None]], lost: Callable[[], None]) -> None:
        self._shelf = shelf
        self._act = act
        self._lost = lost
        self._task: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        self.heard: int | None = None
        """The number of the last news that was acted upon."""
        self.gaps = 0
        self._missed = 0
        """Times in a row that the log had something of which nothing was heard."""
        self.listens = asyncio.Event()
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
        async with self._one_at_a_time:
            if self.heard is None:
                # Subscribed or not: from here on nothing is missed, and what was before is compared.
                self.heard = await self._shelf.number()
                self._lost()
                return
            now, told = await self._shelf.since(self.heard)
            if told is None:
                logger.info("Redis: changes %d to %d were missed: all copies are compared", self.heard, now)
                self.heard = now
                self._lost()
                return
            for message in told:
                await self._hear(message)

    async def check(self) -> None:
        """Has anything been missed? Raises Away or Refused."""
        heard = self.heard
        # What is on its way is no gap: it has a moment.
        if heard is None or (await self._shelf.number() != heard and self.heard == heard):
            self.gaps += heard is not None
            self._missed += heard is not None
            await self.catch_up()

    async def _hear(self, message: Message) -> None:
        self.heard = message.number
        await self._heed(message)

    async def _heed(self, message: Message) -> None:
        if message.machine != self._shelf.machine:
            try:
                await self._act(message)
            except Exception:
                logger.exception("the fleet's news could not be acted upon")

    async def _listen(self) -> None:
        while True:
            try:
                if self._shelf.link.up:
                    await self._subscribed()
            except (Away, Refused):
                pass
            except Exception:
                logger.exception("the fleet's news cannot be heard")
            self.listens.clear()
            await asyncio.sleep(AGAIN)

    async def _subscribed(self) -> None:
        async with self._shelf.link.listening(self._shelf.names.channel) as pubsub:
            self.listens.set()
            self._missed = 0
            while self._shelf.link.up and self._missed < MISSED_MAX:
                said = await pubsub.get_message(timeout=LISTEN)
                if said is None or said.get("type") != "message":
                    continue
                self._missed = 0
                message = read(said["data"])
                if message is None:
                    continue
                if not message.number:
                    await self._heed(message)
                    continue
                async with self._one_at_a_time:
                    is_next = self.heard is not None and message.number == self.heard + 1
                    if is_next:
                        await self._hear(message)
                if not is_next and self.heard is not None and message.number > self.heard:
                    self.gaps += 1
                    await self.catch_up()
