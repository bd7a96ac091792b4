"""The courier: takes what is due out of the queue, sends it, and writes down what came of it.

At most `AT_ONCE` deliveries are in memory, `PER_HOST` of them to one host, however many wait: ten thousand
subscribers of one feed are ten thousand short rows in the ledger. Outcomes are written in batches, so that the disk
is not waited for ten thousand times; a crash in between means that some are told twice, and none is lost.
"""

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Protocol as Shape

from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import FeedproxyError, FetchTimeout, StoreError
from feedproxy.http.message import Fields, Response
from feedproxy.notify.delivery_queue import Queue, Settled, next_try
from feedproxy.notify.protocol import Delivery, Message, Protocol, Refused, Retry, Verdict
from feedproxy.notify.subscriptions import State, Subscription, Subscriptions, host_of
from feedproxy.upstream.callback_client import Named

logger = logging.getLogger(__name__)

AT_ONCE = 32
PER_HOST = 2
"""What one host gets at once: a stranger can subscribe others' servers, verified or not."""
SLOW: Seconds = 5
SLOW_AT_ONCE = 8
"""Hosts whose last call took longer than SLOW have so many places together, among deliveries and among what is asked:
sixteen that hang would else take them all."""
SLOW_MAX = 512
"""Slow hosts that are remembered; the one of longest ago is forgotten for another."""


ASKED_AT_ONCE = 32
WAITING_MAX = 256
"""Who registers a hundred feeds at once waits for his own turn."""
ASK_TIMEOUT: Seconds = 10
"""Somebody waits for the outcome, and his own patience is some half a minute."""


class Busy(FeedproxyError):
    """So much is being asked already, of this host or of all, that it has to be tried later."""

    status_hint = 503
    detail = "busy"


class Calling(Shape):
    """What the courier sends with: upstream/callback_client.py's Caller."""

    async def call(
        self, method: str, url: str, fields: Fields | None = None, body: bytes = b"", *, named: Named = Named.BY_ANYBODY
    ) -> Response: ...

    def check(self, url: str) -> None: ...

    async def addresses(self, url: str) -> list[str]: ...


@dataclass(slots=True)
class Counts:
    """What was sent since the start."""

    delivered: int = 0
    retried: int = 0
    refused: int = 0


class Courier:
    """Delivers. `step` is the whole of it; the loop that calls it again is in notification_service.py."""

    def __init__(
        self,
        queue: Queue,
        subscriptions: Subscriptions,
        caller: Calling,
        protocols: Mapping[str, Protocol],
        clock: Clock,
        *,
        wake: Callable[[], None],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._queue = queue
        self._subscriptions = subscriptions
        self._caller = caller
        self._protocols = protocols
        self._clock = clock
        self._wake = wake
        self._jitter = jitter
        self._under_way: dict[int, tuple[Delivery, asyncio.Task[None]]] = {}
        self._done: list[Settled] = []
        self._asked: Counter[str] = Counter()
        self._room = asyncio.Condition()
        self._waiting = 0
        self._slow: dict[str, None] = {}
        self.counts = Counts()

    @property
    def under_way(self) -> int:
        """Deliveries being made now."""
        return len(self._under_way)

    async def ask(self, message: Message) -> Response:
        """The answer to what somebody waits for: a challenge, a test notification. It counts among its host's calls.

        Raises Busy, and what the caller raises; FetchTimeout after ASK_TIMEOUT.
        """
        host = host_of(message.url)
        await self._admitted(host)
        try:
            async with asyncio.timeout(ASK_TIMEOUT):
                return await self._called(host, message)
        except TimeoutError as error:
            raise FetchTimeout(f"it did not answer within {ASK_TIMEOUT:g} s") from error
        finally:
            self._asked[host] -= 1
            self._asked += Counter()  # without the zeros
            async with self._room:
                self._room.notify_all()
            self._wake()

    def check(self, url: str) -> None:
        """Raises Forbidden and BadTarget for a callback that can never be called."""
        self._caller.check(url)

    async def is_at(self, url: str, address: str) -> bool:
        """Whether a call to `url` could go to this address: whoever comes from there speaks for himself.

        Raises Forbidden, BadTarget, Unreachable where no call could go there at all.
        """
        own = _plain_address(address)
        return own in map(_plain_address, await self._caller.addresses(url))

    async def _admitted(self, host: str) -> None:
        """Wait for a turn among those who are asked, and take it."""
        if self._waiting >= WAITING_MAX:
            raise Busy("too many subscriptions are being verified; please try again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(ASK_TIMEOUT), self._room:
                await self._room.wait_for(lambda: self._may_be_asked(host))
                self._asked[host] += 1
        except TimeoutError as error:
            raise Busy("too many subscriptions of this host are being verified; please try again later") from error
        finally:
            self._waiting -= 1

    def _may_be_asked(self, host: str) -> bool:
        if host in self._slow and self._of_slow(self._asked) >= SLOW_AT_ONCE:
            return False
        return self._asked[host] < PER_HOST and self._asked.total() < ASKED_AT_ONCE

    def _of_slow(self, calls: Counter[str]) -> int:
        return sum(count for host, count in calls.items() if host in self._slow)

    async def _called(self, host: str, message: Message) -> Response:
        """The answer to a call; whether its host is slow is remembered."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return await self._caller.call(
                message.method, message.url, message.fields, message.body, named=message.named
            )
        finally:
            self._slow.pop(host, None)
            if loop.time() - began > SLOW:
                self._slow[host] = None
                if len(self._slow) > SLOW_MAX:
                    del self._slow[next(iter(self._slow))]

    async def step(self) -> None:
        """Write down what is done, and begin what is due and fits. Raises StoreError."""
        await self._write_down()
        delivered = Counter(delivery.host for delivery, _ in self._under_way.values())
        hosts = self._asked + delivered
        slow = self._of_slow(delivered)
        full = {host for host, count in hosts.items() if count >= PER_HOST}
        while (room := AT_ONCE - len(self._under_way)) > 0:
            if slow >= SLOW_AT_ONCE:
                full |= self._slow.keys()
            due = await self._queue.due(self._clock.now(), limit=room, under_way=self._under_way.keys(), full=full)
            begun = 0
            for delivery in due:
                is_slow = delivery.host in self._slow
                if hosts[delivery.host] >= PER_HOST or (is_slow and slow >= SLOW_AT_ONCE):
                    full.add(delivery.host)
                    continue
                slow += is_slow
                hosts[delivery.host] += 1
                begun += 1
                self._under_way[delivery.id] = (delivery, asyncio.ensure_future(self._deliver(delivery)))
            if begun == len(due):  # all that came has begun: if there is more, there is no room for it
                return

    async def next_due(self) -> Instant | None:
        """When something is due that is not under way; while something is, that wakes the loop by itself."""
        return None if self._under_way or self._done else await self._queue.next_due()

    async def close(self, timeout: Seconds) -> None:
        """Let what is under way end, `timeout` seconds at most. What is cut off is sent again at the next start."""
        tasks = [task for _, task in self._under_way.values()]
        if tasks:
            _, rest = await asyncio.wait(tasks, timeout=timeout)
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
        with contextlib.suppress(StoreError):
            await self._write_down()

    async def _write_down(self) -> None:
        done = list(self._done)
        if not done:
            return
        await self._queue.settle(done)
        del self._done[: len(done)]
        for each in done:
            self._under_way.pop(each.delivery.id, None)

    async def _deliver(self, delivery: Delivery) -> None:
        began = self._clock.now()
        try:
            settled = replace(await self._settled(delivery), began=began)
        except StoreError as error:
            logger.warning("%s", error)
            await self._clock.sleep(1)
            settled = None
        if settled is None:  # nothing is known of it: it is due as before
            self._under_way.pop(delivery.id, None)
        else:
            self._done.append(settled)
        self._wake()

    async def _settled(self, delivery: Delivery) -> Settled:
        protocol = self._protocols.get(delivery.order.protocol)
        if protocol is None:
            return self._judged(delivery, None, Retry("this protocol is switched off"))
        number = delivery.order.subscription
        subscription = await self._subscriptions.get(number) if number is not None else None
        if number is not None and subscription is None:
            return self._judged(delivery, protocol, Refused("the subscription has ended"))
        if subscription is not None and subscription.state is State.PAUSED:
            return self._judged(delivery, protocol, Refused("paused by the operator"))
        try:
            verdict = await self._sent(delivery, protocol, subscription)
        except StoreError:
            raise
        except Exception:
            logger.exception("a delivery by %s failed", protocol.name)
            verdict = Retry("feedproxy failed; its log says more")
        return self._judged(delivery, protocol, verdict)

    async def _sent(self, delivery: Delivery, protocol: Protocol, subscription: Subscription | None) -> Verdict:
        message = await protocol.message(delivery, subscription)
        if message is None:
            return Refused("there is nothing to tell any more")
        answer: Response | FeedproxyError
        try:
            answer = await self._called(delivery.host, message)
        except FeedproxyError as error:
            answer = error
        return await protocol.judge(delivery, subscription, answer)

    def _judged(self, delivery: Delivery, protocol: Protocol | None, verdict: Verdict) -> Settled:
        now = self._clock.now()
        match verdict:
            case Retry():
                self.counts.retried += 1
                patience = protocol.patience if protocol is not None else 86_400
                again = next_try(delivery.tries + 1, delivery.since, now, patience=patience, jitter=self._jitter())
                ends = again is None and protocol is not None and protocol.removes
                return Settled(delivery, verdict, now, again, remove=ends)
            case Refused(_, remove):
                self.counts.refused += 1
                return Settled(delivery, verdict, now, remove=remove)
        self.counts.delivered += 1
        return Settled(delivery, verdict, now)


def _plain_address(address: str) -> str:
    """An address as one text, IPv4 that came by way of IPv6 as IPv4."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
