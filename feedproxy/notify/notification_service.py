"""The notification service: it records changes, sends deliveries, and runs the protocols that addons add."""

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from feedproxy.background_work import cancel
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.cooperative_iteration import iterate_in_background
from feedproxy.errors import FeedproxyError, StoreError
from feedproxy.event_signal import AsyncSignal, Signal
from feedproxy.feed.parse.channel_parser import read
from feedproxy.notify.changes.change_log import ChangeLog, ExtraDeliveries, FeedSnapshot, snapshot_of
from feedproxy.notify.changes.pending_changes import BATCH_SIZE, PendingChanges
from feedproxy.notify.delivery.delivery_queue import DeliveryQueue
from feedproxy.notify.delivery.delivery_worker import DeliveryWorker
from feedproxy.notify.notification_database import NotificationDatabase
from feedproxy.notify.notification_protocol import (
    SUBSCRIBER_REQUESTS,
    Change,
    DeliveryRequest,
    Sender,
    SinkSender,
    SubscriberSender,
)
from feedproxy.notify.refresh_requests import RefreshRequests
from feedproxy.notify.resubscribe_after_outage import Outages
from feedproxy.notify.rpc.xmlrpc import XmlRpcDispatcher
from feedproxy.notify.subscription_table import Subscription, Subscriptions
from feedproxy.proxy.public_feeds import may_be_listed
from feedproxy.proxy.service import Service
from feedproxy.refresh.ingest.ingest import document_without_digest
from feedproxy.refresh.refresh_events import FeedChanged, RefreshEnded
from feedproxy.request.upstream_and_public_urls import is_upstream_target
from feedproxy.request.upstream_request import own_user_agent
from feedproxy.settings import Settings
from feedproxy.store.interface import OnFailure
from feedproxy.store.resource import Resource
from feedproxy.upstream.callback_client import CallbackClient

logger = logging.getLogger(__name__)

POLL_INTERVAL: Seconds = 5
"""The notification service's loop waits at most this many seconds between two iterations. The time is limited, because
another process can queue work meanwhile, or the clock can be corrected."""
TRIM_INTERVAL: Seconds = 600
"""Seconds between two deletions of old changes and pings."""
DEFERRED_MAX = 10_000
"""While the database fails, at most this many deferred actions wait. Above the limit, the oldest is dropped."""
LOOP_INTERVAL: Seconds = 0.05
"""The notification service's loop waits at least this many seconds between two iterations, and then records all changes
of this time together."""


RECONCILIATION_IDLE_FACTOR = 15
"""After each piece of work, the search for unrecorded changes pauses for this many times the duration of the piece.

The search (cooperative_iteration.py) therefore uses a sixteenth of a CPU. It lasts two seconds for a thousand feeds,
and half an hour for a million.
"""


class NotificationEvents(Struct, frozen=True):
    """The signals of one notification service."""

    feed_seen: Signal[Resource] = field(default_factory=Signal)
    """Emitted for each stored feed at the start, and for each feed with new content."""
    change_found: Signal[FeedSnapshot] = field(default_factory=Signal)
    """Emitted for each change that this machine found, for the other machines of a fleet."""
    feed_private: Signal[str] = field(default_factory=Signal)
    """Emitted with the target after each refresh of a feed that public lists must not name."""
    feed_relocated: Signal[str] = field(default_factory=Signal)
    """Emitted with the target after each refresh of a public feed while its origin reports a move or an end
    (Relocation)."""
    subscription_expired: Signal[Subscription] = field(default_factory=Signal)
    """Emitted after the removal of an expired subscription, in the process that sends deliveries."""
    delivery_started: AsyncSignal = field(default_factory=AsyncSignal)
    """Emitted when this process begins to send deliveries, and after an outage."""
    tick: AsyncSignal = field(default_factory=AsyncSignal)
    """Emitted in each iteration of the service's loop, in every process. Iterations are frequent: receivers with
    periodic work must check the clock."""


class _NextDue(NamedTuple):
    """For each kind of work: the next instant at which it is due, or infinity."""

    subscriptions: Instant
    """Earliest instant at which a subscription expires or is renewed."""
    refreshes: Instant
    deliveries: Instant


class NotificationService:
    """The service that receives and sends notifications of changed feeds."""

    def __init__(
        self,
        *,
        file: Path | None,
        proxy: Service,
        settings: Callable[[], Settings],
        settings_for: Callable[[str], Settings],
        caller: CallbackClient,
        clock: Clock,
        listed_feeds: Callable[[], Awaitable[Container[str]]],
        on_failure: OnFailure,
        claim_delivery: Callable[[FeedSnapshot], Awaitable[bool]] | None,
    ) -> None:
        """Create the service.

        `listed_feeds` returns the targets that public lists may name (endpoints/feed_list.py). `on_failure` gets each
        failure of the database. A fleet makes some deliveries of a change, such as pings, only once: `claim_delivery`
        returns True on the machine that makes them. If there is no fleet, `claim_delivery` is None.
        """
        self._listed_feeds = listed_feeds
        self.clock = clock
        self.settings = settings
        self.settings_for = settings_for
        self.proxy = proxy
        self.database = NotificationDatabase(file, on_failure)
        self.changes = ChangeLog(self.database, self._compute_digest)
        self.subscriptions = Subscriptions(self.database, settings().subscriptions_max)
        self.queue = DeliveryQueue(self.database)
        self.senders: dict[str, Sender] = {}
        """For each protocol, the sender of messages to feedproxy's subscribers and sinks."""
        self.subscribers: dict[str, SubscriberSender] = {}
        """For each protocol, the sender of subscription requests to other servers."""
        self.extra_deliveries: list[ExtraDeliveries] = []
        """Functions that return the deliveries for a change to receivers without a subscription."""
        self.xmlrpc = XmlRpcDispatcher()
        self.refresh_requests = RefreshRequests(self.database, clock, proxy.admin, settings, wake=self.wake)
        self.delivery_worker = DeliveryWorker(
            *(self.queue, self.subscriptions, caller, self._sender, clock),
            agent=lambda: own_user_agent(settings()),
            wake=self.wake,
        )
        self.events = NotificationEvents()
        self.pending_changes = PendingChanges(self.changes, proxy.store, clock, claim_delivery, self._extra_deliveries)
        self._deferred: deque[Callable[[], Awaitable[None]]] = deque(maxlen=DEFERRED_MAX)
        self._outages = Outages()
        self._wake_event = asyncio.Event()
        self._wake_timer: asyncio.TimerHandle | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._last_trim = 0.0

    def add_sinks(self, sinks: SinkSender) -> None:
        """Add a protocol without subscriptions. The service sends its deliveries for each change."""
        self.senders[sinks.name] = sinks
        self.extra_deliveries.append(sinks.extra_deliveries)

    def _sender(self, request: DeliveryRequest) -> Sender | None:
        senders = self.subscribers if request.what in SUBSCRIBER_REQUESTS else self.senders
        return senders.get(request.protocol)

    @property
    def can_receive_calls(self) -> bool:
        """Return whether other servers can send pushes to feedproxy: whether `public_url` is set."""
        return bool(self.settings().public_url)

    async def enqueue(self, *requests: DeliveryRequest) -> None:
        """Enqueue deliveries, and wake the loop. The deliveries are durable when the call returns. Raises StoreError if
        the database fails."""
        await self.queue.add(*requests, now=self.clock.now())
        self.wake()

    def defer(self, action: Callable[[], Awaitable[None]]) -> None:
        """Await `action` in the next iteration of the service's loop. If the database fails during the action, the
        action is dropped."""
        self._deferred.append(action)
        self.wake()

    def on_feed_changed(self, event: FeedChanged) -> None:
        """Record the change of a feed in the next iteration of the service's loop."""
        self._emit_feed_seen(event.resource)
        snapshot = self._snapshot(event.resource, first=event.is_new)
        if snapshot is not None:
            self.events.change_found.emit(snapshot)
            self._wake_in(self.pending_changes.add(snapshot))

    def on_peer_change(self, snapshot: FeedSnapshot) -> None:
        """Record another machine's change in the next iteration of the service's loop, and notify this machine's
        subscribers."""
        self._wake_in(self.pending_changes.add(snapshot, is_of_peer=True))

    def on_peer_copy(self, resource: Resource) -> None:
        """Record the change of a feed that got new content from another machine. This machine has missed the message
        about the change if it was not running.

        If the database has no earlier content of the feed, the feed has no subscribers, and the new content does not
        count as a change.
        """
        snapshot = self._snapshot(resource, first=False)
        if snapshot is not None:
            self.on_peer_change(replace(snapshot, is_new=True))

    def _wake_in(self, delay: Seconds) -> None:
        if not delay:
            self.wake()
        elif self._wake_timer is None:
            self._wake_timer = asyncio.get_running_loop().call_later(delay, self.wake)

    def _on_refresh_ended(self, event: RefreshEnded) -> None:
        target = event.target
        resource = self.proxy.store.peek(target)
        if (
            resource is not None
            and self._outages.record_refresh(resource, self.clock.now())
            and self.database.acquire_delivery_lock()
        ):
            self.defer(self.events.delivery_started.emit)
        if not may_be_listed(target, self.settings_for(target), resource):
            self.events.feed_private.emit(target)
        elif resource is not None and resource.relocation is not None:
            self.events.feed_relocated.emit(target)

    async def is_listed(self, target: str) -> bool:
        """Return whether public lists may name a target: it is in the list of feeds, or below the upstream."""
        return is_upstream_target(target, self.settings()) or target in await self._listed_feeds()

    def start(self) -> None:
        if not self._tasks:
            self.proxy.events.feed_changed.subscribe(self.on_feed_changed)
            self.proxy.events.refresh_ended.subscribe(self._on_refresh_ended)
            self._tasks = [asyncio.ensure_future(self._reconcile()), asyncio.ensure_future(self._loop())]

    def wake(self) -> None:
        """Start the next iteration of the service's loop without waiting for its interval."""
        if self._wake_timer is not None:
            self._wake_timer.cancel()
            self._wake_timer = None
        self._wake_event.set()

    async def close(self, timeout: Seconds) -> None:
        """Record pending changes, finish deliveries within `timeout` seconds, and close the database."""
        self.proxy.events.feed_changed.unsubscribe(self.on_feed_changed)
        self.proxy.events.refresh_ended.unsubscribe(self._on_refresh_ended)
        self.wake()  # no timer may fire after this
        tasks, self._tasks = self._tasks, []
        await cancel(*tasks)
        await self.refresh_requests.close()
        await self.delivery_worker.close(timeout)
        with contextlib.suppress(StoreError):
            await self.pending_changes.write()
        await self.database.close()

    def _snapshot(self, resource: Resource, *, first: bool) -> FeedSnapshot | None:
        settings = self.settings_for(resource.target)
        return snapshot_of(resource, is_new=first, listed=may_be_listed(resource.target, settings, resource))

    async def _compute_digest(self, snapshot: FeedSnapshot) -> FeedSnapshot | None:
        await self.proxy.store.load(snapshot.target)
        resource = self.proxy.store.peek(snapshot.target)
        document = document_without_digest(snapshot.digest, resource.variants) if resource is not None else None
        if document is None:
            return None
        try:
            channel = await self.proxy.helper_pool.submit(partial(read, *document))
        except FeedproxyError:
            return None
        return replace(snapshot, digest=channel.content_digest) if channel is not None else None

    def _extra_deliveries(self, change: Change) -> Iterable[DeliveryRequest]:
        return [request for extra_deliveries in self.extra_deliveries for request in extra_deliveries(change)]

    async def _loop(self) -> None:
        loop, started = asyncio.get_running_loop(), -LOOP_INTERVAL
        while True:
            await asyncio.sleep(max(0.0, started + LOOP_INTERVAL - loop.time()))
            started = loop.time()
            self._wake_event.clear()
            try:
                await self.pending_changes.write()
                while self._deferred:
                    await self._deferred.popleft()()
                await self.events.tick.emit()
                if self.database.acquire_delivery_lock():
                    await self._start_deliveries()
                    await self._trim()
                    next_due = await self._do_due_work()
                else:
                    next_due = await self._next_due()
                pause = self._pause(next_due)
            except StoreError:
                pause = 1.0
            except Exception:
                logger.exception(
                    "notify: one round of pings, deliveries and renewals failed by a defect of feedproxy, trying again;"
                    " please report the traceback"
                )
                pause = 1.0
            if not self._wake_event.is_set():
                await self._sleep(pause)

    async def _do_due_work(self) -> _NextDue:
        """Renew and expire subscriptions, and start refreshes and deliveries, if they are due. Return when each kind of
        work is due next."""
        now, next_due = self.clock.now(), await self._next_due()
        are_outcomes_unrecorded = self.delivery_worker.has_outcomes
        if not are_outcomes_unrecorded and min(next_due) > now:
            return next_due
        if next_due.subscriptions <= now:
            await self._renew_and_expire()
        if next_due.refreshes <= now:
            await self.refresh_requests.start_due()
        if next_due.deliveries <= now or are_outcomes_unrecorded:
            await self.delivery_worker.run_once()
        return await self._next_due()

    async def _next_due(self) -> _NextDue:
        """Return when each kind of work is due next, read in one transaction. Most iterations find nothing due."""
        subscriptions, refresh_requests, queue = self.subscriptions, self.refresh_requests, self.queue
        instants = await self.database.run(
            lambda db: (subscriptions.next_due(db), refresh_requests.next_due(db), queue.next_due(db))
        )
        return _NextDue(*(math.inf if instant is None else instant for instant in instants))

    def _pause(self, next_due: _NextDue) -> Seconds:
        if self.refresh_requests.running_count or self.delivery_worker.running_count:
            return POLL_INTERVAL
        next_start = min(next_due.refreshes, next_due.deliveries)
        return min(POLL_INTERVAL, max(0.05, next_start - self.clock.now()))

    async def _sleep(self, seconds: Seconds) -> None:
        sleeper = asyncio.ensure_future(self.clock.sleep(seconds))
        waker = asyncio.ensure_future(self._wake_event.wait())
        try:
            await asyncio.wait([sleeper, waker], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
            waker.cancel()

    def _emit_feed_seen(self, resource: Resource) -> None:
        if resource.channel is not None:
            self.events.feed_seen.emit(resource)

    async def _start_deliveries(self) -> None:
        """Correct the deadlines if the clock was set back. Emit `delivery_started` in the first iteration that sends
        deliveries, and in the first after an outage."""
        now = self.clock.now()
        await self.database.correct_deadlines(now)
        if self._outages.record_tick(now):
            await self.events.delivery_started.emit()

    async def _trim(self) -> None:
        now = self.clock.now()
        if abs(now - self._last_trim) >= TRIM_INTERVAL:
            await self.changes.trim(now)
            await self.refresh_requests.trim(now)
            self._last_trim = now

    async def _renew_and_expire(self) -> None:
        now = self.clock.now()
        for subscription in await self.subscriptions.expire(now):
            self.events.subscription_expired.emit(subscription)
        for subscription in await self.subscriptions.due_for_renewal(now):
            await self.subscriptions.postpone_renewal(subscription.id, now)
            subscriber = self.subscribers.get(subscription.protocol)
            if subscriber is not None:
                await subscriber.renew(subscription)

    async def _reconcile(self) -> None:
        """Record the changes that the previous process has left unrecorded.

        Each worker records the changes of the feeds that it owns. Otherwise two workers would make the deliveries of
        the same change, because `claim_delivery` excludes only other machines.
        """
        try:
            snapshots = list[FeedSnapshot]()
            async for target in iterate_in_background(self.proxy.store.targets(), RECONCILIATION_IDLE_FACTOR):
                await self.proxy.store.load(target)
                resource = self.proxy.store.peek(target)
                if resource is None:
                    continue
                self._emit_feed_seen(resource)
                snapshot = self._snapshot(resource, first=False) if self.proxy.schedule.owns(target) else None
                if snapshot is None:
                    continue
                snapshots.append(snapshot)
                if len(snapshots) == BATCH_SIZE:
                    await self.pending_changes.reconcile(snapshots)
                    snapshots = []
            await self.pending_changes.reconcile(snapshots)
            await self._forget_deleted()
            self.wake()
        except StoreError:
            return  # the next start searches again

    async def _forget_deleted(self) -> None:
        last = ""
        while page := await self.changes.known_targets(last, 1000):
            last = page[-1]
            deleted = [target async for target in iterate_in_background(page) if not self.proxy.store.holds(target)]
            if deleted:
                await self.changes.forget(deleted)
