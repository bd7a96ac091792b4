"""The queue of messages to Redis. Callers do not wait until a message is sent.

The copy of a target is read from the store when it is sent. Messages stay queued while Redis is unavailable or refuses
them for now, for example because its memory is full. Sending a message twice does no harm.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from feedproxy.clock import Clock, Seconds
from feedproxy.errors import StoreError
from feedproxy.fleet.redis_connection import RedisRefused, RedisRefusedForNow, RedisUnavailable
from feedproxy.fleet.redis_operations import RedisOperations
from feedproxy.store import resource_codec
from feedproxy.store.resource import Resource
from feedproxy.task_cancellation import cancel

logger = logging.getLogger("feedproxy.fleet")

WAITING_MAX = 100_000
"""Maximum number of targets in the queue. Above the limit, the oldest is dropped, and a later comparison finds its copy
(synchronization.py)."""
EVENTS_MAX = 10_000
"""The queue holds at most this many events. Above the limit, the oldest is dropped."""

FLUSH_TIMEOUT: Seconds = 2
"""A caller waits at most this many seconds until queued messages, such as an operator's purge, are sent to Redis."""

type SendEvent = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _PendingUpdate:
    """The queued messages about a target.

    `purged` is the time of a purge in microseconds, or 0. `has_copy` is True if a copy waits to be sent. `release` is
    True if the lease with `token` waits to be ended.
    """

    purged: int = 0
    has_copy: bool = False
    token: int = 0
    release: bool = False


class RedisQueue:
    """The queue, and the task that sends its messages.

    `get_copy` returns the copy of a target. `pull` fetches a later copy of another machine.
    """

    def __init__(
        self,
        redis_operations: RedisOperations,
        get_copy: Callable[[str], Resource | None],
        pull: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._redis_operations = redis_operations
        self._get_copy = get_copy
        self._pull = pull
        self._clock = clock
        self._updates: OrderedDict[str, _PendingUpdate] = OrderedDict()
        self._events: deque[SendEvent] = deque(maxlen=EVENTS_MAX)
        self._awake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.busy = False
        self._sending: tuple[str, _PendingUpdate] = ("", _PendingUpdate())
        """The target and its update that are being sent."""
        self._is_redis_refusing = False
        """True if Redis refused the last message for now."""
        self.sent = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._updates) + len(self._events)

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._work())

    def enqueue_copy(self, target: str, token: int) -> None:
        """Enqueue the target's new copy, fetched under the lease with this token."""
        update = self._update_of(target)
        update.has_copy, update.token = True, token
        self.wake()

    def enqueue_purge(self, target: str) -> None:
        update = self._update_of(target)
        update.purged, update.has_copy = self.now(), False
        self.wake()

    def enqueue_release(self, target: str, token: int) -> None:
        update = self._update_of(target)
        update.token, update.release = token, True
        self.wake()

    def send_event(self, send: SendEvent) -> None:
        """Enqueue an event. `send` sends the event, after the events that were queued earlier have been sent."""
        self._events.append(send)
        self.wake()

    def is_purge_pending(self, target: str) -> bool:
        """Return True if a purge of this target is queued or being sent."""
        sending_target, sending_update = self._sending
        if target == sending_target and sending_update.purged:
            return True
        update = self._updates.get(target)
        return update is not None and update.purged > 0

    def wake(self) -> None:
        """Process the queue now."""
        self._awake.set()

    def now(self) -> int:
        """Return the time of this machine's clock in microseconds, the unit of the fencing tokens in Redis."""
        return int(self._clock.now() * 1_000_000)

    async def flush(self, timeout: Seconds) -> None:
        """Return when all messages are sent, after `timeout` seconds, or at once while Redis is unavailable or
        refuses messages.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while self._is_progressing and loop.time() < end:  # noqa: ASYNC110 (an operator waits)
            await asyncio.sleep(0.002)

    async def close(self, timeout: Seconds) -> None:
        await self.flush(timeout)
        await cancel(self._task)

    # -- internals

    def _update_of(self, target: str) -> _PendingUpdate:
        update = self._updates.get(target)
        if update is None:
            update = self._updates[target] = _PendingUpdate()
            if len(self._updates) > WAITING_MAX:
                self._updates.popitem(last=False)
        return update

    @property
    def _is_progressing(self) -> bool:
        return (bool(self) or self.busy) and self._redis_operations.connection.up and not self._is_redis_refusing

    async def _work(self) -> None:
        while True:
            await self._awake.wait()
            self._awake.clear()
            while self and self._redis_operations.connection.up:
                self.busy = True
                try:
                    await self._send_next()
                    self._is_redis_refusing = False
                except RedisUnavailable:
                    break
                except RedisRefusedForNow:
                    self._is_redis_refusing = True
                    with contextlib.suppress(RedisUnavailable, RedisRefused):
                        await self._release_leases()
                    break
                except Exception:
                    logger.exception("fleet: message not sent")
                finally:
                    self.busy = False

    async def _send_next(self) -> None:
        if self._events:
            send = self._events.popleft()
            try:
                await send()
            except (RedisRefusedForNow, RedisUnavailable):
                if len(self._events) < EVENTS_MAX:
                    self._events.appendleft(send)
                raise
            except RedisRefused:
                pass
            return
        target, update = self._sending = self._updates.popitem(last=False)
        try:
            await self._send(target, update)
        except RedisRefusedForNow:
            self.refused += 1
            self._put_back(target, update)
            raise
        except RedisRefused:
            self.refused += 1
            if update.release:
                with contextlib.suppress(RedisRefused):
                    await self._redis_operations.release_lease(target, update.token)
        except RedisUnavailable:
            self._put_back(target, update)
            raise
        finally:
            self._sending = "", _PendingUpdate()

    async def _release_leases(self) -> None:
        """Release the leases of the queued copies, so that other machines do not wait for these copies."""
        for target, update in list(self._updates.items()):
            if update.release:
                update.release = False
                await self._redis_operations.release_lease(target, update.token)

    async def _send(self, target: str, update: _PendingUpdate) -> None:
        if update.purged:
            # The age is the same by all clocks, and the clock of this machine may differ from that of Redis.
            age = self.now() - update.purged
            await self._redis_operations.purge(target, age if age > PURGE_DELAY_MAX else 0)
        data, version = None, 0
        if update.has_copy and (resource := self._get_copy(target)) is not None:
            try:
                data, version = resource_codec.dump(resource), resource.fencing_token
            except StoreError as error:
                logger.warning("fleet: copy not sent: %s", error)
        if data is not None:
            accepted, stored_version = await self._redis_operations.put(
                target, version, data, update.token, release=update.release
            )
            self.sent += accepted
            if not accepted and stored_version > version:
                self.refused += 1
                self._pull(target)
        elif update.release:
            await self._redis_operations.release_lease(target, update.token)

    def _put_back(self, target: str, update: _PendingUpdate) -> None:
        """Enqueue an unsent update again. Messages that were queued since then take precedence."""
        if (newer := self._updates.get(target)) is None:
            self._updates[target] = update
        else:
            newer.has_copy = newer.has_copy or (update.has_copy and not newer.purged)
            newer.purged = newer.purged or update.purged
            newer.release = newer.release or update.release
            newer.token = newer.token or update.token
        self._updates.move_to_end(target, last=False)


PURGE_DELAY_MAX = 1_000_000
"""A purge that has waited in the queue for at most this many microseconds deletes the target's copy in any case.

A purge that has waited longer deletes the copy only if it was fetched before the purge was requested.
"""
