"""Listener for the events of all machines. It applies the events in order.

The number of an event shows whether earlier ones were missed. The listener reads missed events from the log. If the log
lacks some of them, all copies are compared with Redis.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from feedproxy.background_work import cancel
from feedproxy.clock import Seconds
from feedproxy.fleet.redis_connection import RedisRefused, RedisUnavailable
from feedproxy.fleet.redis_operations import FleetEvent, RedisOperations, parse_event
from feedproxy.http.target_uri.url_redaction import redact_target

logger = logging.getLogger("feedproxy.fleet")

RESUBSCRIBE_DELAY: Seconds = 0.2
"""After a subscription to the events has ended, the listener waits this many seconds before the next attempt to
subscribe."""
MESSAGE_TIMEOUT: Seconds = 1
MISSED_MAX = 3
"""If this many checks in a row find missed events, the listener subscribes again, with a new connection."""


class EventListener:
    """A subscription to events. `on_event` is called with each event of other machines, in order. `on_events_lost` is
    called at the start, and whenever the log lacks missed events."""

    def __init__(
        self,
        redis_operations: RedisOperations,
        on_event: Callable[[FleetEvent], Awaitable[None]],
        on_events_lost: Callable[[], None],
    ) -> None:
        self._redis_operations = redis_operations
        self._on_event = on_event
        self._on_events_lost = on_events_lost
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self.last_number: int | None = None
        """Number of the last applied event."""
        self.gaps = 0
        self._missed = 0
        """Number of consecutive checks with missed events. A message from Redis resets the number."""
        self.subscribed = asyncio.Event()
        """Set while the subscription exists."""

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._listen())

    async def close(self) -> None:
        await cancel(self._task)

    async def catch_up(self) -> None:
        """Read the missed events from the log, and apply them. Raises RedisUnavailable or RedisRefused if Redis
        fails."""
        async with self._lock:
            if self.last_number is None:
                # Later events have higher numbers than this one, and the comparison finds earlier changes.
                self.last_number = await self._redis_operations.last_event_number()
                self._on_events_lost()
                return
            now, events = await self._redis_operations.events_since(self.last_number)
            if events is None:
                if now < self.last_number:
                    logger.info("fleet: Redis has lost its data, comparing all copies")
                else:
                    logger.info("fleet: events %d to %d missed, comparing all copies", self.last_number + 1, now)
                self.last_number = now
                self._on_events_lost()
                return
            for event in events:
                await self._apply_numbered(event)

    async def check(self) -> None:
        """Ask Redis for the number of the last event. If events were missed, apply them. Raises RedisUnavailable or
        RedisRefused if Redis fails."""
        last_number = self.last_number
        # An event that arrives during the request is not missed.
        if last_number is None or (
            await self._redis_operations.last_event_number() != last_number and self.last_number == last_number
        ):
            self.gaps += last_number is not None
            self._missed += last_number is not None
            await self.catch_up()

    async def _apply_numbered(self, event: FleetEvent) -> None:
        self.last_number = event.number
        await self._apply(event)

    async def _apply(self, event: FleetEvent) -> None:
        if event.machine != self._redis_operations.machine:
            try:
                await self._on_event(event)
            except Exception:
                logger.exception(
                    "fleet: event %d (%s of %s) not applied, by a defect of feedproxy: this machine's copy may be"
                    " outdated until its next refresh; please report the traceback",
                    event.number,
                    event.kind,
                    redact_target(event.target),
                )

    async def _listen(self) -> None:
        while True:
            try:
                if self._redis_operations.connection.up:
                    await self._receive()
            except (RedisUnavailable, RedisRefused):
                pass
            except Exception:
                logger.exception(
                    "fleet: subscription to %s at %s ended by a defect of feedproxy, subscribing again; please report"
                    " the traceback",
                    self._redis_operations.keys.channel,
                    self._redis_operations.connection.address,
                )
            self.subscribed.clear()
            await asyncio.sleep(RESUBSCRIBE_DELAY)

    async def _receive(self) -> None:
        async with self._redis_operations.connection.subscribe(self._redis_operations.keys.channel) as pubsub:
            self.subscribed.set()
            self._missed = 0
            while self._redis_operations.connection.up and self._missed < MISSED_MAX:
                message = await pubsub.get_message(timeout=MESSAGE_TIMEOUT)
                if message is None or message.get("type") != "message":
                    continue
                self._missed = 0
                event = parse_event(message["data"])
                if event is None:
                    continue
                if not event.number:
                    await self._apply(event)
                    continue
                async with self._lock:
                    is_next = self.last_number is not None and event.number == self.last_number + 1
                    if is_next:
                        await self._apply_numbered(event)
                if not is_next and self.last_number is not None and event.number > self.last_number:
                    self.gaps += 1
                    await self.catch_up()
