"""What Redis is to be told, in its time: nobody waits for it, and while Redis is away it stays here.

Of each target there are two things to tell at most: that it was purged, and that it is to be kept as it is here. A copy
is read when it is sent, so that what waits are names. What is told twice is refused there, or makes no difference.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from feedproxy.clock import Clock, Seconds
from feedproxy.cluster.interfaces import CopySource
from feedproxy.cluster.redis_connection import RedisRefused, RedisUnavailable
from feedproxy.cluster.redis_store import RedisStore
from feedproxy.errors import StoreError
from feedproxy.store import codec

logger = logging.getLogger("feedproxy.cluster")

WAITING_MAX = 100_000
"""Names that wait; who has more compares all that it has when Redis is back."""
EVENTS_MAX = 10_000
"""News that wait."""

type SendEvent = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _PendingUpdate:
    """What is to be told of a target: that it was purged at an instant (microseconds), or is to be kept; and a lease
    to give back."""

    purged: int = 0
    has_copy: bool = False
    token: int = 0
    release: bool = False


class Replicator:
    """A queue by target, and one task that works it off. `copies` has what is sent."""

    def __init__(self, redis_store: RedisStore, copies: CopySource, clock: Clock) -> None:
        self._redis_store = redis_store
        self._copies = copies
        self._clock = clock
        self._waiting: OrderedDict[str, _PendingUpdate] = OrderedDict()
        self._events: deque[SendEvent] = deque(maxlen=EVENTS_MAX)
        self._awake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.busy = False
        self.overflowed = False
        self.sent = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._events)

    def start(self) -> None:
        """Begin; inside a running event loop."""
        self._task = asyncio.ensure_future(self._work())

    def enqueue_copy(self, target: str, token: int) -> None:
        """The target has a new copy, made under this token."""
        item = self._item(target)
        item.has_copy, item.token = True, token
        self.wake()

    def enqueue_purge(self, target: str) -> None:
        """The target was purged, now."""
        item = self._item(target)
        item.purged, item.has_copy = self.now(), False
        self.wake()

    def enqueue_release(self, target: str, token: int) -> None:
        """A lease is over."""
        item = self._item(target)
        item.token, item.release = token, True
        self.wake()

    def send_event(self, tale: SendEvent) -> None:
        """Something else to be done, in order."""
        self._events.append(tale)
        self.wake()

    def is_purge_pending(self, target: str) -> bool:
        """Whether a purge of this target has still to be told."""
        item = self._waiting.get(target)
        return item is not None and item.purged > 0

    def wake(self) -> None:
        """There is something to do, or Redis is there again."""
        self._awake.set()

    def now(self) -> int:
        """Microseconds of this machine's clock, which stand in for a number of Redis's."""
        return int(self._clock.now() * 1_000_000)

    async def flush(self, timeout: Seconds) -> None:
        """Return when all is told; while Redis is away at once, and after `timeout` in any case."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while (self or self.busy) and self._redis_store.connection.up and loop.time() < end:  # noqa: ASYNC110 (an operator waits)
            await asyncio.sleep(0.002)

    async def close(self, timeout: Seconds) -> None:
        """Tell what can be told, and end."""
        await self.flush(timeout)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # -- inside

    def _item(self, target: str) -> _PendingUpdate:
        item = self._waiting.get(target)
        if item is None:
            item = self._waiting[target] = _PendingUpdate()
            if len(self._waiting) > WAITING_MAX:
                self._waiting.popitem(last=False)
                self.overflowed = True
        return item

    def __bool__(self) -> bool:
        return bool(self._waiting or self._events)

    async def _work(self) -> None:
        while True:
            await self._awake.wait()
            self._awake.clear()
            while self and self._redis_store.connection.up:
                self.busy = True
                try:
                    await self._send_next()
                except RedisUnavailable:
                    break
                except Exception:
                    logger.exception("what is to be told to the fleet could not be told")
                finally:
                    self.busy = False

    async def _send_next(self) -> None:
        if self._events:
            with contextlib.suppress(RedisRefused):
                await self._events[0]()
            self._events.popleft()
            return
        target, item = self._waiting.popitem(last=False)
        try:
            await self._send(target, item)
        except RedisRefused:
            # It is full, say. What others do not get here they fetch themselves, and need not wait for.
            self.refused += 1
            if item.release:
                with contextlib.suppress(RedisRefused):
                    await self._redis_store.release_lease(target, item.token)
        except RedisUnavailable:
            self._put_back(target, item)
            raise

    async def _send(self, target: str, item: _PendingUpdate) -> None:
        if item.purged:
            late = self.now() - item.purged > PURGE_DELAY_MAX
            await self._redis_store.purge(target, item.purged if late else 0)
        data, version = None, 0
        if item.has_copy and (resource := self._copies.get_latest(target)) is not None:
            try:
                data, version = codec.dump(resource), resource.fencing_token
            except StoreError as error:
                logger.warning("%s", error)
        if data is not None:
            done, there = await self._redis_store.put(target, version, data, item.token, release=item.release)
            self.sent += done
            if not done and there > version:
                self.refused += 1
                self._copies.schedule_pull(target)
        elif item.release:
            await self._redis_store.release_lease(target, item.token)

    def _put_back(self, target: str, item: _PendingUpdate) -> None:
        """It was not told; what has come meanwhile counts more."""
        if (later := self._waiting.get(target)) is None:
            self._waiting[target] = item
        else:
            later.has_copy = later.has_copy or (item.has_copy and not later.purged)
            later.purged = later.purged or item.purged
            later.release = later.release or item.release
            later.token = later.token or item.token
        self._waiting.move_to_end(target, last=False)


PURGE_DELAY_MAX = 1_000_000
"""Microseconds after which a purge that could not be told is one of then, not of now: what was fetched since stays."""
