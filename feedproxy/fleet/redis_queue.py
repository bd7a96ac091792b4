"""The queue of messages to Redis. Callers do not wait until a message is sent.

The copy of a target is read from the store when it is sent. Messages stay queued while Redis is unavailable or refuses
them for now, for example because its memory is full. A refused message does not prevent messages of other kinds
(events, purges, copies) from being sent. Sending a message twice does no harm.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sized
from dataclasses import dataclass

from msgspec import Struct

from feedproxy.background_work import cancel
from feedproxy.clock import Clock, Seconds
from feedproxy.errors import StoreError
from feedproxy.fleet.redis_connection import RedisRefused, RedisRefusedForNow, RedisUnavailable
from feedproxy.fleet.redis_operations import RedisOperations
from feedproxy.store import resource_codec
from feedproxy.store.resource import Resource

logger = logging.getLogger("feedproxy.fleet")

WAITING_MAX = 100_000
"""The queue holds the copies of at most this many targets. Above the limit, the oldest target is dropped. A later
comparison (synchronization.py) finds the copy of this target."""
PURGES_MAX = 100_000
"""The queue holds the purges of at most this many targets. Above the limit, the oldest is dropped."""
EVENTS_MAX = 10_000
"""The queue holds at most this many events. Above the limit, the oldest is dropped."""

FLUSH_TIMEOUT: Seconds = 2
"""A caller waits at most this many seconds until queued messages, such as an operator's purge, are sent to Redis."""

PURGE_DELAY_MAX: Seconds = 1
"""A purge that is sent within this many seconds deletes the target's copy. A purge that is sent later deletes the copy
only if the copy was fetched before the purge was requested."""

PURGES_REPEATED_FOR: Seconds = 600
"""The purges of this many seconds are sent again if Redis has perhaps lost data. A replica that takes over lacks the
last writes, usually those of a few seconds."""
SENT_PURGES_MAX = 10_000
"""At most this many sent purges are remembered to be sent again."""

type SendEvent = Callable[[], Awaitable[None]]


class _PendingEvent(Struct, frozen=True):
    send: SendEvent
    is_useful_later: bool


class _Purge(Struct, frozen=True):
    """A purge. `requested` is the time of the request, which does not change when the clock is set. `version` is the
    version that Redis has given to the purge, or 0 if Redis has not given one yet."""

    requested: Seconds
    version: int = 0


@dataclass(slots=True)
class _PendingUpdate:
    """The queued messages about a target, except for a purge. `has_copy` is True if a copy waits to be sent. `release`
    is True if the lease with `token` has still to be released."""

    has_copy: bool = False
    token: int = 0
    release: bool = False


class RedisQueue:
    """The queue, and the task that sends its messages. `get_copy` returns the copy of a target, or None if no copy is
    stored. `pull` fetches a later copy of another machine."""

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
        self._events: deque[_PendingEvent] = deque(maxlen=EVENTS_MAX)
        self._purges: OrderedDict[str, _Purge] = OrderedDict()
        """For each target, the last purge that waits to be sent."""
        self._sent_purges: OrderedDict[str, _Purge] = OrderedDict()
        """For each target, the last purge that Redis has accepted."""
        self._updates: OrderedDict[str, _PendingUpdate] = OrderedDict()
        self._unreleased: set[str] = set()
        """The targets in `_updates` with a lease that has still to be released."""
        self._awake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.busy = False
        self._purging: str | None = None
        """The target of the purge that is being sent."""
        self.sent = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._events) + len(self._purges) + len(self._updates)

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._work())

    def enqueue_copy(self, target: str, token: int) -> None:
        """Enqueue the target, so that its new copy, fetched under the lease with this token, is sent to Redis."""
        self._enqueue_update(target, _PendingUpdate(has_copy=True, token=token))
        self.wake()

    def enqueue_purge(self, target: str) -> None:
        """Enqueue a purge of the target. It is sent before all copies."""
        if (update := self._updates.get(target)) is not None:
            update.has_copy = False
        self._purges[target] = _Purge(self._clock.monotonic())
        if len(self._purges) > PURGES_MAX:
            self._purges.popitem(last=False)
        self.wake()

    def repeat_purges(self) -> None:
        """Enqueue the purges of the last PURGES_REPEATED_FOR seconds again, because Redis has perhaps lost them."""
        after = self._clock.monotonic() - PURGES_REPEATED_FOR
        for target, purge in self._sent_purges.items():
            if purge.requested > after:
                self._purges.setdefault(target, purge)
        self._sent_purges.clear()
        self.wake()

    def enqueue_release(self, target: str, token: int) -> None:
        self._enqueue_update(target, _PendingUpdate(token=token, release=True))
        self.wake()

    def send_event(self, send: SendEvent, *, is_useful_later: bool = True) -> None:
        """Enqueue an event. `send` sends the event, after the events that were queued earlier have been sent. An event
        that is not useful later is dropped if Redis is unavailable or refuses the event."""
        self._events.append(_PendingEvent(send, is_useful_later))
        self.wake()

    def is_purge_pending(self, target: str) -> bool:
        """Return True if a purge of this target is queued or being sent."""
        return target == self._purging or target in self._purges

    def wake(self) -> None:
        """Process the queue now."""
        self._awake.set()

    async def flush(self, timeout: Seconds) -> None:
        """Return when all messages are sent or refused, after `timeout` seconds, or at once while Redis is
        unavailable."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while self._is_progressing and loop.time() < end:  # noqa: ASYNC110 (an operator waits)
            await asyncio.sleep(0.002)

    async def close(self, timeout: Seconds) -> None:
        await self.flush(timeout)
        await cancel(self._task)

    # -- internals

    @property
    def _is_progressing(self) -> bool:
        is_due = bool(self) and self._awake.is_set()
        return (is_due or self.busy) and self._redis_operations.connection.up

    def _enqueue_update(self, target: str, update: _PendingUpdate) -> None:
        """Enqueue an update, or add it to the queued update of the target."""
        queued = self._updates.setdefault(target, update)
        queued.has_copy = queued.has_copy or update.has_copy
        queued.token = max(queued.token, update.token)  # tokens only increase
        queued.release = queued.release or update.release
        if queued.release:
            self._unreleased.add(target)
        if len(self._updates) > WAITING_MAX:
            self._pop_update()

    def _pop_update(self) -> tuple[str, _PendingUpdate]:
        target, update = self._updates.popitem(last=False)
        self._unreleased.discard(target)
        return target, update

    async def _work(self) -> None:
        while True:
            await self._awake.wait()
            self._awake.clear()
            self.busy = True
            try:
                with contextlib.suppress(RedisUnavailable):
                    await self._send_all()
            finally:
                self.busy = False

    async def _send_all(self) -> None:
        """Send all messages: first the events, then purges, then the rest. A refusal for now stops the messages of that
        kind. Raises RedisUnavailable if Redis does not answer."""
        kinds: list[tuple[Sized, Callable[[], Awaitable[None]]]] = [
            (self._events, self._send_next_event),
            (self._purges, self._send_next_purge),
            (self._updates, self._send_next_update),
        ]
        while self._redis_operations.connection.up and (kind := next((kind for kind in kinds if kind[0]), None)):
            _, send_next = kind
            try:
                await send_next()
            except RedisRefusedForNow:
                kinds.remove(kind)
            except RedisUnavailable:
                raise
            except Exception:
                logger.exception(
                    "fleet: message to Redis at %s dropped, by a defect of feedproxy: copies of other machines may be"
                    " outdated until their next refresh; please report the traceback",
                    self._redis_operations.connection.address,
                )

    async def _send_next_event(self) -> None:
        event = self._events.popleft()
        try:
            await event.send()
        except (RedisRefusedForNow, RedisUnavailable):
            if event.is_useful_later:
                if len(self._events) < EVENTS_MAX:
                    self._events.appendleft(event)
                raise
        except RedisRefused:
            pass

    async def _send_next_purge(self) -> None:
        await self._send_purge(next(iter(self._purges)))

    async def _send_purge(self, target: str) -> None:
        self._purging, purge = target, self._purges.pop(target)
        # The age is the same by all clocks, and the clock of this machine may differ from that of Redis.
        age = self._clock.monotonic() - purge.requested
        try:
            version = await self._redis_operations.purge(target, age if age > PURGE_DELAY_MAX else 0, purge.version)
        except (RedisRefusedForNow, RedisUnavailable):
            self._purges.setdefault(target, purge)
            raise
        except RedisRefused:
            self.refused += 1
        else:
            if version:
                self._sent_purges[target] = _Purge(purge.requested, version)
                self._sent_purges.move_to_end(target)
            if len(self._sent_purges) > SENT_PURGES_MAX:
                self._sent_purges.popitem(last=False)
        finally:
            self._purging = None

    async def _send_next_update(self) -> None:
        target, update = self._pop_update()
        try:
            if target in self._purges:
                await self._send_purge(target)  # Redis would otherwise delete the copy that is sent first
            await self._send_update(target, update)
        except RedisRefusedForNow:
            self.refused += 1
            self._put_back(target, update)
            with contextlib.suppress(RedisRefused):
                await self._release_leases()
            raise
        except RedisRefused:
            self.refused += 1
            if update.release:
                with contextlib.suppress(RedisRefused):
                    await self._redis_operations.release_lease(target, update.token)
        except RedisUnavailable:
            self._put_back(target, update)
            raise

    def _put_back(self, target: str, update: _PendingUpdate) -> None:
        """Enqueue an unsent update again, behind all others, so that the others are sent even if Redis always refuses
        this one."""
        update.has_copy = update.has_copy and target not in self._purges
        self._enqueue_update(target, update)

    async def _release_leases(self) -> None:
        """Release the leases of the queued copies, so that other machines do not wait for these copies."""
        while self._unreleased:
            target = self._unreleased.pop()
            update = self._updates[target]
            update.release = False
            await self._redis_operations.release_lease(target, update.token)

    async def _send_update(self, target: str, update: _PendingUpdate) -> None:
        data, version = None, 0
        if update.has_copy and (resource := self._get_copy(target)) is not None:
            try:
                data, version = resource_codec.dump(resource), resource.fencing_token
            except StoreError as error:
                logger.warning(
                    "fleet: copy of %s not sent, other machines fetch the feed themselves: %s", target, error
                )
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
