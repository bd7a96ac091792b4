"""Notifications without a network: a service with a manual clock, an origin in memory, and other hosts to call."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from feedproxy.app import App
from feedproxy.clock import DAY, ManualClock
from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Fields, Response
from feedproxy.notify import notification_service
from feedproxy.notify.notification_protocol import Delivered, Delivery, Message, Refused, Retry, Verdict
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.subscription_table import Role, State, Subscription
from feedproxy.subscribers.reader_pseudonyms import Pseudonym
from feedproxy.upstream.address_policy import AddressPolicy, AddressTrust
from feedproxy.upstream.callback_client import CallbackClient
from tests.stages.origin import Origin, OriginFetcher

NOON = 1_780_056_000.0
TARGET = "http://origin.example/feed.xml"


@dataclass
class Others:
    """All hosts that the proxy calls: the calls, and their responses."""

    calls: list[tuple[str, str, bytes]] = field(default_factory=list)
    heads: list[Fields] = field(default_factory=list)
    """The fields of each call."""
    answer: Callable[[str], Response | FeedproxyError] = lambda _: Response(200)
    gate: asyncio.Event | None = None
    at: dict[str, list[str]] = field(default_factory=dict)
    """Addresses by host name. A host that is missing here is an address itself."""
    policy: AddressPolicy = field(default_factory=AddressPolicy)
    at_once: int = 0
    most_at_once: int = 0

    async def call(
        self,
        method: str,
        url: str,
        fields: Fields | None = None,
        body: bytes = b"",
        *,
        trust: AddressTrust = AddressTrust.UNTRUSTED,
    ) -> Response:
        self.calls.append((method, url, body))
        self.heads.append(fields or Fields())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            if self.gate is not None:
                await self.gate.wait()
        finally:
            self.at_once -= 1
        answer = self.answer(url)
        if isinstance(answer, FeedproxyError):
            raise answer
        return answer

    def check(self, url: str) -> None:
        CallbackClient(self.policy).check(url)

    async def resolve(self, url: str) -> list[str]:
        return self.at.get(urlsplit(url).hostname or "", [urlsplit(url).hostname or ""])

    async def close(self) -> None: ...


class Plain:
    """The simplest protocol: a GET of the callback. 410 ends the subscription; other failures are retried."""

    remove_on_failure = True

    def __init__(self) -> None:
        self.renewed: list[str] = []

    def join(self, notifications: NotificationService) -> None:
        notifications.senders["plain"] = notifications.subscribers["plain"] = self

    async def message(self, delivery: Delivery, subscription: Subscription | None) -> Message | None:
        return Message("GET", delivery.request.callback)

    async def interpret(
        self, delivery: Delivery, subscription: Subscription | None, answer: Response | FeedproxyError
    ) -> Verdict:
        if isinstance(answer, FeedproxyError):
            return Retry(str(answer))
        if answer.status == 410:
            return Refused("gone", remove=True)
        return Delivered("thanks") if answer.status < 300 else Retry(f"{answer.status}")

    async def renew(self, subscription: Subscription) -> None:
        self.renewed.append(subscription.callback)


async def wait_idle(service: NotificationService) -> None:
    """Wait until no work is due."""
    await asyncio.gather(*service._tasks[:1])  # the reconciliation at the start
    while (
        not service._wake_event._waiters  # the loop is not at rest
        or service._wake_timer
        or service._wake_event.is_set()
        or service.delivery_worker.running_count
        or service.refresh_requests.running_count
    ):
        if service._wake_timer is not None:
            service.wake()  # skips the delay of new feeds
        await asyncio.sleep(0.001)


@dataclass
class Stand:
    """The service, the origin and the other hosts of a test."""

    app: App
    origin: Origin
    clock: ManualClock
    others: Others
    plain: Plain

    @property
    def notifications(self) -> NotificationService:
        return self.app.notifications

    async def settled(self) -> None:
        """Wait until no work is left at this instant."""
        while True:
            await wait_idle(self.notifications)
            if not self.app.service.admin.active_refreshes:
                await wait_idle(self.notifications)
                return
            await asyncio.sleep(0)

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.notifications.wake()
        await self.settled()

    async def read(self, target: str = TARGET, *, readers: int = 3) -> None:
        """Fetch the feed, regardless of its minimum interval, after reads by a number of different readers."""
        for number in range(1, readers + 1):
            self.app.service.counts.distinct.record(target, Pseudonym(number, number, number), self.clock.now())
        await self.app.service._coordinator.refresh(target)
        await self.settled()

    async def subscribe(self, callback: str, *, topic: str = TARGET, lasts: float = 10 * DAY) -> Subscription:
        now = self.clock.now()
        new = Subscription(Role.SUBSCRIBER, "plain", topic, callback, now + lasts, State.ACTIVE, since=now)
        return await self.notifications.subscriptions.put(new)


@pytest.fixture
async def stand_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Any]]:
    """Yield a function that opens stands. Stands with one `folder` share a store, one after the other."""
    opened: list[Stand] = []
    monkeypatch.setattr(notification_service, "LOOP_INTERVAL", 0.0)  # simulated days cause thousands of rounds

    async def open_at(
        *,
        folder: str = "",
        origin: Origin | None = None,
        clock: ManualClock | None = None,
        join: Callable[[NotificationService], None] | None = None,
        **options: Any,
    ) -> Stand:
        clock = clock or ManualClock(NOON)
        origin = origin or Origin(clock)
        others, plain = Others(), Plain()
        app = App(clock, make_client=lambda _: OriginFetcher(origin))
        app.notification_plugins["plain"] = plain.join
        if join is not None:
            app.notification_plugins["joining"] = join
        store = str(tmp_path / folder) if folder else "memory:"
        given = {"store": store, "site_interval": 0, "feed_min_interval": 0}
        app.configure({**given, **options})
        monkeypatch.setattr(app.notifications.delivery_worker, "_caller", others)
        opened.append(stand := Stand(app, origin, clock, others, plain))
        await stand.settled()
        return stand

    yield open_at
    for each in opened:
        await each.app.close()


@pytest.fixture
async def stand(stand_at: Callable[..., Any]) -> Stand:
    made: Stand = await stand_at()
    return made
