"""Synchronization with the other machines of a fleet: what is sent to them, and how their events are applied here.

Once a second, each worker sends reader counts and polls, and checks for missed events. While Redis is unavailable, the
worker tries to connect instead. The workers of a machine divide the targets of its store among them.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import batched

from msgspec.structs import asdict

from feedproxy.background_work import cancel
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.fleet import shared_polls
from feedproxy.fleet.event_listener import EventListener
from feedproxy.fleet.fleet_store import FleetStore
from feedproxy.fleet.redis_connection import START_TIMEOUT, RedisConnection, RedisRefused, RedisUnavailable
from feedproxy.fleet.redis_keys import RedisKeys
from feedproxy.fleet.redis_operations import FleetEvent, RedisOperations
from feedproxy.fleet.shared_polls import SharedPolls
from feedproxy.fleet.subscriber_counts_of_machines import SubscriberSums
from feedproxy.fleet.via_pseudonym_and_secret import agree_on_state
from feedproxy.notify.changes.change_log import FeedSnapshot
from feedproxy.notify.notification_service import NotificationService
from feedproxy.proxy.service import Service
from feedproxy.refresh.refresh_events import Events
from feedproxy.settings import Settings
from feedproxy.single_flight import SingleFlight
from feedproxy.store.interface import Store
from feedproxy.store.permitted_store import IsRedirectPermitted, IsTargetPermitted
from feedproxy.telemetry.metrics import Metrics

logger = logging.getLogger("feedproxy.fleet")

SYNC_INTERVAL: Seconds = 1.0

STATE_INTERVAL: Seconds = 10
"""Once in this many seconds, each worker stores the shared state in Redis again if Redis does not have it. A Redis with
full memory can remove any key (`maxmemory-policy allkeys-lru`), first the keys that were not used lately."""

CLAIM_LIFETIME: Seconds = 7 * 86_400
"""Redis remembers for this many seconds which machine delivers the notifications of a change."""

COMPARE_BATCH = 200
"""Number of copies that one request to Redis compares."""


class FleetSynchronization:
    """The synchronization of one worker process with the other machines. Call `join`, then `start`."""

    def __init__(
        self,
        settings: Settings,
        local: Store,
        is_redirect_permitted: IsRedirectPermitted,
        is_target_permitted: IsTargetPermitted,
        clock: Clock,
        events: Events,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self.connection = RedisConnection(settings.store, timeout=settings.fleet_timeout / 1000)
        self.keys = RedisKeys(settings.fleet_prefix)
        self.machine = secrets.token_hex(6)
        self.redis_operations = RedisOperations(
            self.connection, self.keys, self.machine, clock, lease=settings.fleet_lease, expiry=settings.fleet_expiry
        )
        self.store = FleetStore(local, is_redirect_permitted, is_target_permitted, self.redis_operations, clock, events)
        self.comparison_count = 0
        """Number of completed comparisons of all copies with those in Redis."""
        self._comparing: asyncio.Task[None] | None = None
        self._is_comparison_requested = False
        self._state_restored = -STATE_INTERVAL
        """Time at which the shared state was last stored in Redis, by the event loop's clock."""
        self.event_listener = EventListener(self.redis_operations, self._apply_event, self._on_events_lost)
        self._refreshes: SingleFlight[str, bool] = SingleFlight()
        self._service: Service | None = None
        self.sums = SubscriberSums(
            self.connection,
            self.keys,
            self.machine,
            self._confirmed_claim,
            clock,
            window=settings.subscriber_window,
            period=max(86_400, settings.subscriber_window),
            exact_max=settings.fleet_exact_max,
            claim_max=settings.claim_max,
        )
        self._polls = SharedPolls(self.redis_operations)
        self._notifications: NotificationService | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def adopt_shared_state(self, makers: Mapping[str, Callable[[], bytes]]) -> None:
        """Load the shared state of the fleet, which consists of named values.

        `makers` maps the name of each value to a function that makes the value if neither Redis nor this machine has
        it. Raises UsageError if redis-py is missing.
        """
        local = self.store.local
        own = {name: state for name in makers if (state := local.get_state(name))}
        self.store.shared_state = agree_on_state(self._settings.store, self.keys, own, makers)
        for name, value in self.store.shared_state.items():
            if own.get(name) != value:
                self._tasks.append(asyncio.ensure_future(local.put_state(name, value)))

    def join(self, service: Service, notifications: NotificationService, metrics: Metrics) -> None:
        """Let the service use the copies of other machines, and send this machine's changes to them."""
        self._service, self._notifications = service, notifications
        service.counts.reader_seen.subscribe(self.sums.record)
        service.counts.reader_seen.subscribe(self._polls.note)
        notifications.events.change_found.subscribe(self._publish_change)
        self.store.content_received.subscribe(notifications.on_peer_copy)
        metrics.add_flush_hook(lambda: self._observe(metrics))
        self.store.redis_queue.start()
        self.event_listener.start()
        self._tasks += [asyncio.ensure_future(self._sync_loop()), asyncio.ensure_future(self._renew_leases())]

    async def start(self) -> None:
        """Start the synchronization. Return when missed events are applied, or Redis is found unavailable."""
        if await self.connection.probe(START_TIMEOUT):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_TIMEOUT):
                    await self.event_listener.subscribed.wait()
            with contextlib.suppress(RedisUnavailable, RedisRefused):
                await self.event_listener.catch_up()
            self.store.redis_queue.wake()
        else:
            self.connection.mark_unavailable(self.connection.reason)

    async def close(self) -> None:
        """Leave the fleet. Queued messages are sent when the store is closed."""
        await cancel(*self._tasks)
        await cancel(self._comparing)
        with contextlib.suppress(RedisUnavailable, RedisRefused):
            await self.sums.sync()
        await self.event_listener.close()
        await self._refreshes.drain(0)

    def status_line(self) -> str:
        """Return the state of the connection to Redis in one line."""
        if self.connection.up:
            refusal = self.connection.refusal
            return f"fleet: degraded, redis refuses commands: {refusal}" if refusal else "fleet: ok"
        since = self.connection.since
        seconds = max(0, round(asyncio.get_running_loop().time() - since)) if since else 0
        return f"fleet: degraded for {seconds} s, redis is away ({self.connection.reason})"

    def problem(self) -> str:
        """Return a message for the operator if Redis is unavailable or refuses requests, else ""."""
        if self.connection.up and (refusal := self.connection.refusal):
            return (
                f"The store shared with other machines refuses commands ({refusal}): this machine uses its own store "
                "for what it cannot share."
            )
        if self.connection.up:
            return ""
        return (
            f"The store shared with other machines is unavailable ({self.connection.reason}): this machine uses its "
            "own store, fetches from origins itself, and sends the others what they missed once it is available."
        )

    async def sync(self, target: str) -> bool:
        """Fetch the copy and the reader counts of other machines for a target. Return True if this machine's copy or
        counts have changed."""
        if not self.connection.up:
            return False
        return await asyncio.shield(self._refreshes.join_or_start(target, lambda: self._refresh(target))[0])

    async def targets(self) -> AsyncIterator[str]:
        """Yield each target in Redis, or no target while Redis is unavailable."""
        with contextlib.suppress(RedisUnavailable, RedisRefused):
            async for target in self.redis_operations.targets():
                yield target

    async def claim_delivery(self, snapshot: FeedSnapshot) -> bool:
        """Claim the deliveries of a change, so that no other machine makes them. Return False if another machine has
        the claim. Return True without a claim if Redis is unavailable or refuses the request."""
        change = f"{snapshot.target} {snapshot.digest} {snapshot.at}"
        try:
            return await self.redis_operations.claim(change, CLAIM_LIFETIME)
        except (RedisUnavailable, RedisRefused):
            return True

    def _publish_change(self, snapshot: FeedSnapshot) -> None:
        """Send the other machines a change that this machine found, without waiting."""
        members = asdict(snapshot)
        members["first"] = members.pop("is_new")  # the key of this member in messages between machines
        self.store.redis_queue.send_event(lambda: self.redis_operations.publish("change", snapshot.target, members))

    async def _refresh(self, target: str) -> bool:
        before = self.sums.sum_of(target)
        changed, _ = await asyncio.gather(self.store.fetch_copy(target), self.sums.refresh(target))
        return changed or self.sums.sum_of(target) != before

    # -- internals

    def _confirmed_claim(self, target: str, fetcher: str, feed_id: str, now: Instant) -> int:
        return self._service.counts.confirmed_claim(target, fetcher, feed_id, now) if self._service is not None else 0

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(max(0.2, self._settings.fleet_lease / 3))
            with contextlib.suppress(RedisUnavailable, RedisRefused):
                await self.store.coordination.renew()

    async def _sync_loop(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            pause = SYNC_INTERVAL if self.connection.up else max(0.05, self.connection.next_probe - loop.time())
            await asyncio.sleep(min(pause, SYNC_INTERVAL))
            try:
                if not self.connection.up:
                    if loop.time() < self.connection.next_probe or not await self.connection.probe():
                        continue
                    await self._on_reconnected()
                # A refusal of one step does not prevent others.
                for step in (self.event_listener.check, self._polls.sync, self.sums.sync, self._restore_state):
                    with contextlib.suppress(RedisRefused):
                        await step()
                self.store.redis_queue.wake()  # messages are left over if Redis has refused them
            except RedisUnavailable:
                continue
            except Exception:
                logger.exception(
                    "fleet: synchronization with Redis at %s failed by a defect of feedproxy, trying again; please"
                    " report the traceback",
                    self.connection.address,
                )

    async def _restore_state(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._state_restored >= STATE_INTERVAL:
            self._state_restored = now
            await self.redis_operations.restore_state(self.store.shared_state)

    async def _on_reconnected(self) -> None:
        """Apply missed events, send what this machine changed during the outage, and repeat the last purges: another
        Redis without the last writes can have taken over."""
        with contextlib.suppress(RedisRefused):
            await self.event_listener.catch_up()
        self._request_comparison()
        self.store.redis_queue.repeat_purges()

    # -- comparison of copies, after events were lost or Redis was unavailable

    def _request_comparison(self) -> None:
        """Start a comparison of all copies. If a comparison is in progress, the new one follows it."""
        self._is_comparison_requested = True
        if self._comparing is None or self._comparing.done():
            self._comparing = asyncio.ensure_future(self._compare_copies())

    async def _compare_copies(self) -> None:
        """Compare the copies of this worker's targets by their fencing tokens. A newer copy in Redis replaces this
        machine's copy, and a later purge in Redis deletes it. A newer copy of this machine is sent to Redis."""
        try:
            while self._is_comparison_requested:
                self._is_comparison_requested = False
                for targets in batched(filter(self._is_mine, self.store.targets()), COMPARE_BATCH):
                    for target, in_redis in zip(targets, await self.redis_operations.versions(targets), strict=True):
                        await self._compare_copy(target, *in_redis)
                    await asyncio.sleep(0)
                self.comparison_count += 1
        except (RedisUnavailable, RedisRefused):
            return  # all copies are compared again when Redis is available

    async def _compare_copy(self, target: str, version: int, has_copy: bool) -> None:
        await self.store.load(target)
        stored_token = self.store.stored_token(target)
        if version > stored_token and has_copy:
            self.store.schedule_pull(target)
        elif version > stored_token:
            await self._invalidate(target)
            await self.store.drop(target, version)
        elif stored_token > version and self.store.local.peek(target) is not None:
            self.store.redis_queue.enqueue_copy(target, 0)

    # -- events

    async def _apply_event(self, event: FleetEvent) -> None:
        target, coordination = event.target, self.store.coordination
        match event.kind:
            case "put":
                coordination.on_peer_completed(target)
                if event.number and self._is_mine(target):
                    await self.store.load(target)
                    resource = self.store.local.peek(target)
                    if resource is not None and resource.fencing_token < event.version:
                        self.store.schedule_pull(target)
            case "landed":
                coordination.on_peer_completed(target)
            case "purge":
                await self.store.load(target)
                if self.store.stored_token(target) <= event.version:
                    await self._invalidate(target)
                    await self.store.drop(target, event.version)
            case "bar":
                coordination.local.invalidate(None)
                await self._invalidate("")
            case "slot":
                coordination.on_peer_slot(target, float(event.payload), self._clock.now())
            case "site":
                coordination.on_peer_pause(target, float(event.payload), self._clock.now())
            case shared_polls.KIND if self._service is not None:
                rhythms, now = self._service.counts.rhythms, self._clock.now()
                for polled, pseudonym, at in shared_polls.parse_polls(event.payload):
                    if self._is_mine(polled):
                        rhythms.record_from_peer(polled, pseudonym, min(at, now))
            case "change" if self._notifications is not None and self._is_mine(target):
                payload = dict(event.payload)
                self._notifications.on_peer_change(FeedSnapshot(is_new=payload.pop("first"), **payload))

    async def _invalidate(self, target: str) -> None:
        if self._service is not None:
            await self._service.admin.on_peer_purge(target)

    def _is_mine(self, target: str) -> bool:
        return self._service is None or self._service.schedule.owns(target)

    def _on_events_lost(self) -> None:
        """Store the shared state in Redis again, repeat the last purges, and compare all copies, because Redis has
        perhaps lost its data."""
        self.store.redis_queue.send_event(lambda: self.redis_operations.restore_state(self.store.shared_state))
        self.store.redis_queue.repeat_purges()
        self._request_comparison()

    def _observe(self, metrics: Metrics) -> None:
        store = self.store
        metrics.observe_fleet(
            up=self.connection.up,
            waiting=len(store.redis_queue),
            events={
                "away": self.connection.outage_count,
                "compared": self.comparison_count,
                "gap": self.event_listener.gaps,
                "lease-lost": store.coordination.lost_count,
                "refused": store.redis_queue.refused + self.connection.refusal_count,
                "sent": store.redis_queue.sent,
                "taken-in": store.received_count,
            },
        )
