"""Hearing and telling, put together: the one object that the service, the endpoints and the operator speak to."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from feedproxy.aio import throttled
from feedproxy.clock import Clock, Seconds
from feedproxy.errors import FeedproxyError, StoreError
from feedproxy.feed.content_digest import stem_of
from feedproxy.feed.parse.parser import read
from feedproxy.notify.change_log import ChangeLog, Sight, sight_of
from feedproxy.notify.database import Ledger, put_back
from feedproxy.notify.delivery_queue import Queue
from feedproxy.notify.delivery_worker import Calling, Courier
from feedproxy.notify.outage import Outages
from feedproxy.notify.protocol import Change, Order, Protocol
from feedproxy.notify.refresh_requests import Bell
from feedproxy.notify.subscriptions import Subscriptions
from feedproxy.notify.xmlrpc import Rpc
from feedproxy.proxy.service import Service
from feedproxy.proxy.visibility import may_be_listed
from feedproxy.request.url_mapping import is_upstream_target
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

logger = logging.getLogger(__name__)

LOOK: Seconds = 5
"""Another process of this machine may have queued something; and a clock may have been put right."""
TIDY: Seconds = 600
RENEW_AGAIN: Seconds = 900
NEWS_MAX = 10_000
"""Changes that wait for a ledger that fails; what is beyond is found at the next start."""
SLICE = 100
BREATH: Seconds = 0.05
"""From one round to the next: what comes one by one is told at once, what comes by the hundred, together."""

KEPT_MAX: Seconds = 5
"""A disk that hangs for longer holds up nobody who wants to know of a change."""

FIRST_SIGHTS: Seconds = 0.5
"""Feeds that are met for the first time wait so long for one another: nobody is told of them."""


class Notices:
    """Who hears and who tells that a feed changed. `begin` starts it, inside a running event loop."""

    def __init__(
        self,
        *,
        file: Path | None,
        service: Service,
        settings: Callable[[], Settings],
        settings_for: Callable[[str], Settings],
        caller: Calling,
        clock: Clock,
        named: Callable[[], Awaitable[Container[str]]],
    ) -> None:
        """`named` gives the feeds that a public list may name (endpoints/feed_list.py)."""
        self._named = named
        self.clock = clock
        self.settings = settings
        self.settings_for = settings_for
        self.service = service
        self.ledger = Ledger(file)
        self.changes = ChangeLog(self.ledger, self._reckoned)
        self.subscriptions = Subscriptions(self.ledger, settings().subscriptions_max)
        self.queue = Queue(self.ledger)
        self.protocols: dict[str, Protocol] = {}
        self.rpc = Rpc()
        self.bell = Bell(
            self.ledger, self.changes, clock, service.admin, settings, written=self._write_news, wake=self.wake
        )
        self.courier = Courier(self.queue, self.subscriptions, caller, self.protocols, clock, wake=self.wake)
        self.watchers: list[Callable[[Resource], None]] = []
        """Called with every feed that is held at the start, and with each whose content is new: who tells of it?"""
        self.on_landed: list[Callable[[str], None]] = []
        """Called with the target of every update that is over, whatever came of it."""
        self.on_start: list[Callable[[], Awaitable[None]]] = []
        """Called where this process begins to deliver, and after an outage."""
        self.every_turn: list[Callable[[], Awaitable[None]]] = []
        """Called in every turn of the loop, in every process: whoever has little to do then looks at the clock."""
        self.abroad: Callable[[Sight], None] = lambda sight: None
        """Tells other machines of what was found here."""
        self.may_tell: Callable[[Sight], Awaitable[bool]] = _always
        """Whether it is this machine that tells those of a change whom every machine would tell."""
        self._chores: deque[Callable[[], Awaitable[None]]] = deque(maxlen=NEWS_MAX)
        self._outages = Outages()
        self._news: list[Sight] = []
        self._writing = asyncio.Lock()
        self._foreign: set[Sight] = set()
        self._awake = asyncio.Event()
        self._waking: asyncio.TimerHandle | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._tidied = 0.0
        self._idle = False

    def add(self, protocol: Protocol) -> None:
        """One more way of telling and hearing."""
        self.protocols[protocol.name] = protocol

    @property
    def hears(self) -> bool:
        """Whether others could call us: push needs an address."""
        return bool(self.settings().public_url)

    async def order(self, *orders: Order) -> None:
        """Queue these, kept when it returns, and begin. Raises StoreError."""
        await self.queue.add(*orders, now=self.clock.now())
        self.wake()

    def soon(self, chore: Callable[[], Awaitable[None]]) -> None:
        """Do this in the loop's next turn; where the ledger fails then, it is left to the next occasion."""
        self._chores.append(chore)
        self.wake()

    def changed(self, resource: Resource, first: bool) -> None:
        """The service has stored a feed whose content is new; `first`: none was known before. Returns at once."""
        self._watched(resource)
        seen = self._sight(resource, first=first)
        if seen is not None:
            self.abroad(seen)
            self._noted(seen)

    def heard_of(self, seen: Sight) -> None:
        """Another machine has found this: its subscribers here are told. Returns at once."""
        self._foreign.add(seen)
        self._noted(seen)

    def _noted(self, seen: Sight) -> None:
        if len(self._news) < NEWS_MAX:
            self._news.append(seen)
        if not seen.first:
            self.wake()
        elif self._waking is None:
            self._waking = asyncio.get_running_loop().call_later(FIRST_SIGHTS, self.wake)

    def _landed(self, target: str) -> None:
        for each in self.on_landed:
            each(target)
        resource = self.service.store.peek(target)
        if resource is not None and self._outages.landed(resource, self.clock.now()) and self.ledger.is_ours():
            self.soon(self._back)

    async def may_be_named(self, target: str) -> bool:
        """Whether strangers may be told this address: it is the upstream's, or in the public list."""
        return is_upstream_target(target, self.settings()) or target in await self._named()

    def begin(self) -> None:
        """Catch up with what changed before, and go on until `close`."""
        if not self._tasks:
            self.service.listeners.append(self.changed)
            self.service.landings.append(self._landed)
            self._tasks = [asyncio.ensure_future(self._catch_up()), asyncio.ensure_future(self._loop())]

    def wake(self) -> None:
        """There is something to do."""
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        self._awake.set()

    async def settled(self) -> None:
        """Return when nothing can be done at this hour: for tests."""
        await asyncio.gather(*self._tasks[:1])  # what changed before
        while not self._idle or self._waking or self._awake.is_set() or self.courier.under_way or self.bell.under_way:
            if self._waking is not None:
                self.wake()  # what is collected for a moment is looked at now
            await asyncio.sleep(0.001)

    async def close(self, timeout: Seconds) -> None:
        """Write down what is known, let what is being sent end (`timeout` at most), and close the ledger."""
        with contextlib.suppress(ValueError):
            self.service.listeners.remove(self.changed)
            self.service.landings.remove(self._landed)
        self.wake()  # no timer outlives this
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.bell.close()
        await self.courier.close(timeout)
        with contextlib.suppress(StoreError):
            await self._write_news()
        await self.ledger.close()

    def _sight(self, resource: Resource, *, first: bool) -> Sight | None:
        settings = self.settings_for(resource.target)
        return sight_of(resource, first=first, listed=may_be_listed(resource.target, settings, resource))

    async def _reckoned(self, seen: Sight) -> Sight | None:
        resource, stem = self.service.store.peek(seen.target), stem_of(seen.digest)
        held = [each for each in resource.variants if each.content.tag == stem] if resource is not None else []
        if not held or (body := held[0].content.bodies.get("identity")) is None:
            return None
        declared = held[0].fields.get("content-type")
        try:
            channel = await self.service.workshop.do(partial(read, body, declared))
        except FeedproxyError:
            return None
        return replace(seen, digest=channel.content_digest) if channel is not None else None

    def _standing_of(self, ours: set[str], change: Change) -> Iterable[Order]:
        return self._standing(change) if change.target in ours else ()

    def _standing(self, change: Change) -> Iterable[Order]:
        return [order for each in self.protocols.values() for order in each.standing(change)]

    async def _loop(self) -> None:
        loop, began = asyncio.get_running_loop(), -BREATH
        while True:
            await asyncio.sleep(max(0.0, began + BREATH - loop.time()))
            began = loop.time()
            self._awake.clear()
            try:
                await self._write_news()
                while self._chores:
                    await self._chores.popleft()()
                for each in self.every_turn:
                    await each()
                if self.ledger.is_ours():
                    await self._take_up()
                    await self._tidy()
                    await self.bell.step()
                    await self.courier.step()
                pause = await self._pause()
            except StoreError as error:
                logger.warning("%s", error)
                pause = 1.0
            except Exception:
                logger.exception("notifications stumbled")
                pause = 1.0
            if not self._awake.is_set():
                self._idle = True
                await self._sleep(pause)
                self._idle = False

    async def _pause(self) -> Seconds:
        dues = [each for each in (await self.bell.next_due(), await self.courier.next_due()) if each is not None]
        if self.bell.under_way or self.courier.under_way:
            return LOOK
        return min([LOOK, *(max(0.05, each - self.clock.now()) for each in dues)])

    async def _sleep(self, seconds: Seconds) -> None:
        sleeper = asyncio.ensure_future(self.clock.sleep(seconds))
        waker = asyncio.ensure_future(self._awake.wait())
        try:
            await asyncio.wait([sleeper, waker], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
            waker.cancel()

    async def _write_news(self) -> None:
        """What the service has told, into the ledger; it stays here until it is there.

        The store comes first. Killed in between, the next start finds a copy that was not told of (`_catch_up`); the
        other way round it would find a change that was told of, and no copy of it to send or to serve.
        """
        async with self._writing:
            while news := self._news[:SLICE]:
                await self._kept(news)
                ours = {each.target for each in news if each not in self._foreign and await self.may_tell(each)}
                await self.changes.note(news, self.clock.now(), partial(self._standing_of, ours))
                self._foreign.difference_update(news)
                del self._news[: len(news)]

    async def _kept(self, news: list[Sight]) -> None:
        """Return when the store has written these. One after the other: it writes many together, and is asked once."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KEPT_MAX):
                for each in news:
                    await self.service.store.written(each.target)

    def _watched(self, resource: Resource) -> None:
        if resource.channel is not None:
            for watch in self.watchers:
                watch(resource)

    async def _take_up(self) -> None:
        """At this process's first turn, and at the first after an outage."""
        now = self.clock.now()
        if back := self._outages.put_back(now):
            logger.warning("the clock was put back by %.0f s: what waits is put back with it", back)
            await self.ledger.run(partial(put_back, seconds=back))
        if self._outages.turned(now):
            await self._back()

    async def _back(self) -> None:
        for each in self.on_start:
            await each()

    async def _tidy(self) -> None:
        now = self.clock.now()
        if abs(now - self._tidied) >= TIDY:
            await self.changes.trim(now)
            await self.bell.trim(now)
            self._tidied = now
        await self.subscriptions.expire(now)
        for each in await self.subscriptions.to_renew(now):
            await self.subscriptions.postpone(each.id, now + RENEW_AGAIN)
            protocol = self.protocols.get(each.protocol)
            if protocol is not None:
                await protocol.renew(each)

    async def _catch_up(self) -> None:
        """What the store holds and the ledger has not told: a crash may have come between the two."""
        try:
            sights = list[Sight]()
            async for target in throttled(self.service.store.targets()):
                resource = self.service.store.peek(target)
                seen = self._sight(resource, first=False) if resource is not None else None
                if resource is not None:
                    self._watched(resource)
                if seen is None:
                    continue
                sights.append(seen)
                if len(sights) == SLICE:
                    await self.changes.catch_up(sights, self.clock.now(), self._standing)
                    sights = []
            await self.changes.catch_up(sights, self.clock.now(), self._standing)
            await self._forget_what_is_not()
            self.wake()
        except StoreError as error:
            logger.warning("%s", error)

    async def _forget_what_is_not(self) -> None:
        last = ""
        while page := await self.changes.all_known(last, 1000):
            last = page[-1]
            gone = [each async for each in throttled(page) if not self.service.store.holds(each)]
            if gone:
                await self.changes.forget(gone)


async def _always(_: Sight) -> bool:
    return True
