"""One machine of a fleet: what it does with the others, beside answering readers.

Once a second it tells who reads, asks whether it has missed any news, and while Redis is away tries it again. Each
worker of a machine is one of these; what concerns the machine's own store is done by one worker for each target.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping

from feedproxy.clock import Clock, Seconds
from feedproxy.cluster.event_listener import Ear
from feedproxy.cluster.identity import agreed
from feedproxy.cluster.keys import Names
from feedproxy.cluster.redis_connection import START_PATIENCE, Away, Link, Refused
from feedproxy.cluster.redis_store import Message, Shelf
from feedproxy.cluster.shared_store import FleetStore
from feedproxy.cluster.subscriber_sums import Sums
from feedproxy.notify.change_log import FeedSnapshot
from feedproxy.notify.notification_service import NotificationService
from feedproxy.proxy.service import Service
from feedproxy.refresh.singleflight import SingleFlight
from feedproxy.settings import Settings
from feedproxy.store.interface import Store
from feedproxy.telemetry.metrics import Metrics

logger = logging.getLogger("feedproxy.cluster")

ROUND: Seconds = 1.0
BATCH = 200
TOLD: Seconds = 7 * 86_400
"""So long it is remembered who told of a change."""

TURN_MAX: Seconds = 60
"""No turn that another machine books is believed further ahead: its clock may be."""


class Fleet:
    """Made from the settings with this machine's own store; `join` and `start` it, in this order."""

    def __init__(self, settings: Settings, local: Store, clock: Clock) -> None:
        self._clock = clock
        self._settings = settings
        self.link = Link(settings.store, timeout=settings.fleet_timeout / 1000)
        self.names = Names(settings.fleet_prefix)
        self.machine = secrets.token_hex(6)
        self.shelf = Shelf(
            self.link, self.names, self.machine, lease=settings.fleet_lease, expiry=settings.fleet_expiry
        )
        self.store = FleetStore(local, self.shelf, clock)
        self.ear = Ear(self.shelf, self._act, self._compare_soon)
        self._looks: SingleFlight[str, bool] = SingleFlight()
        self._service: Service | None = None
        self.sums: Sums | None = None
        self._notices: NotificationService | None = None
        self._purge_here: Callable[[str], None] = lambda target: None
        self._tasks: list[asyncio.Task[None]] = []
        self._comparing: asyncio.Task[None] | None = None
        self._compare_again = False
        self.compared = 0
        """How often all that is held here was compared with what Redis has."""

    def agree(self, makers: Mapping[str, Callable[[], bytes]]) -> None:
        """Go by what the other machines go by; what `makers` make is asked for where nothing is known yet."""
        local = self.store.local
        own = {name: kept for name in makers if (kept := local.get_state(name))}
        self.store.agreed = agreed(self._settings.store, self.names, own, makers)
        for name, value in self.store.agreed.items():
            if own.get(name) != value:
                self._tasks.append(asyncio.ensure_future(local.put_state(name, value)))

    def join(self, service: Service, notices: NotificationService, metrics: Metrics) -> None:
        """Let the service use what the other machines have; changes found here are told everywhere."""
        self._service, self._notices = service, notices
        notices.publish_to_cluster, notices.owns_delivery = self._tell_change, self._may_tell
        settings = self._settings
        self.sums = service.counts.sums = Sums(
            self.link,
            self.names,
            self.machine,
            service.counts,
            self._clock,
            window=settings.subscriber_window,
            period=max(86_400, settings.subscriber_window),
            exact_max=settings.fleet_exact_max,
            claim_max=settings.claim_max,
        )

        def changed(target: str) -> None:
            metrics.touched(target)
            service.admin.reschedule(target)

        self.store.on_change = changed
        self.store.common.on_booked = self._booked
        metrics.add_flush_hook(lambda: self._observe(metrics))
        self._begin()

    async def start(self) -> None:
        """Return when Redis has been asked what was missed, or is not there."""
        if await self.link.probe(START_PATIENCE):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_PATIENCE):
                    await self.ear.listens.wait()
            with contextlib.suppress(Away, Refused):
                await self.ear.catch_up()
            self.store.outbox.wake()
        else:
            self.link.absent_from_the_start()

    async def close(self) -> None:
        """Leave the others; what they are still to be told is told when the store is closed."""
        for task in (*self._tasks, self._comparing):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self.sums is not None:
            with contextlib.suppress(Away, Refused):
                await self.sums.go_round()
        await self.ear.close()
        await self._looks.drain(0)

    def words(self) -> str:
        """How it stands, in a line."""
        if self.link.up:
            return "fleet: ok"
        for_ = max(0, round(asyncio.get_running_loop().time() - self.link.since)) if self.link.since else 0
        return f"fleet: degraded for {for_} s, redis is away ({self.link.why})"

    def ailment(self) -> str:
        """What is wrong, for the operator; empty where nothing is."""
        if self.link.up:
            return ""
        return (
            f"The store shared with other machines is away ({self.link.why}): this machine works from its own, asks "
            "origins by itself, and tells the others what they missed when it is back."
        )

    async def sync(self, target: str) -> bool:
        """Take in what the others have of a target, and of who reads it; whether anything is new."""
        if not self.link.up:
            return False
        return await asyncio.shield(self._looks.join_or_start(target, lambda: self._look(target))[0])

    def targets(self) -> AsyncIterator[str]:
        """Return the targets of which the other machines have copies."""
        return self.store.everywhere()

    async def _look(self, target: str) -> bool:
        if self.sums is None:
            return await self.store.look(target)
        before = self.sums.sum_of(target)
        changed, _ = await asyncio.gather(self.store.look(target), self.sums.refresh(target))
        return changed or self.sums.sum_of(target) != before

    # -- inside

    def _begin(self) -> None:
        self.store.outbox.start()
        self.ear.start()
        lease = self._settings.fleet_lease
        self._tasks += [
            asyncio.ensure_future(self._go_round()),
            asyncio.ensure_future(self._keep_leases(max(0.2, lease / 3))),
        ]

    async def _keep_leases(self, interval: Seconds) -> None:
        while True:
            await asyncio.sleep(interval)
            with contextlib.suppress(Away, Refused):
                await self.store.common.renew()

    async def _go_round(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            pause = ROUND if self.link.up else max(0.05, self.link.next_probe - loop.time())
            await asyncio.sleep(min(pause, ROUND))
            try:
                if not self.link.up:
                    if loop.time() < self.link.next_probe or not await self.link.probe():
                        continue
                    await self._heal()
                if self.sums is not None:
                    await self.sums.go_round()
                await self.ear.check()
            except (Away, Refused):
                continue
            except Exception:
                logger.exception("the round of the fleet failed")

    async def _heal(self) -> None:
        """Redis is there again: first what was missed, then what was done here meanwhile."""
        await self.ear.catch_up()
        self._compare_soon()
        self.store.outbox.wake()

    def _booked(self, site: str, until: float) -> None:
        if self.link.up:
            self.store.outbox.tell(lambda: self.shelf.shout("site", site, until))

    # -- news

    async def _act(self, message: Message) -> None:
        """Do here what another machine has done."""
        target, common = message.target, self.store.common
        match message.kind:
            case "put":
                common.landed(target)
                if message.number and self._is_mine(target):
                    held = self.store.local.peek(target)
                    if held is not None and held.fence < message.version:
                        self.store.pull_soon(target)
            case "landed":
                common.landed(target)
            case "purge":
                if self.store.known(target) <= message.version:
                    await self._outdated(target)
                    await self.store.drop(target)
            case "bar":
                common.here.outdate(None)
                await self._outdated("")
            case "site":
                common.sites.heard(target, min(float(message.rest), self._clock.now() + TURN_MAX))
            case "change" if self._notices is not None and self._is_mine(target):
                rest = dict(message.rest)
                self._notices.on_peer_change(FeedSnapshot(is_new=rest.pop("first"), **rest))

    async def _outdated(self, target: str) -> None:
        if self._service is not None:
            await self._service.admin.on_peer_purge(target)

    def _is_mine(self, target: str) -> bool:
        return self._service is None or self._service.admin.owns(target)

    def _tell_change(self, sight: FeedSnapshot) -> None:
        said = {name: getattr(sight, name) for name in FeedSnapshot.__slots__}
        said["first"] = said.pop("is_new")  # the name of this member between machines
        self.store.outbox.tell(lambda: self.shelf.tell("change", sight.target, said))

    async def _may_tell(self, sight: FeedSnapshot) -> bool:
        """Whether it is this machine that tells of a change to those whom all machines know."""
        try:
            return await self.shelf.mine(f"{sight.target} {sight.digest} {sight.at}", TOLD)
        except (Away, Refused):
            return True

    # -- comparing everything

    def _compare_soon(self) -> None:
        """News were lost, or something was done here that nobody was told."""
        self._compare_again = True
        if self._comparing is None or self._comparing.done():
            self._comparing = asyncio.ensure_future(self._compare())

    async def _compare(self) -> None:
        try:
            while self._compare_again:
                self._compare_again = False
                self.store.outbox.overflowed = False
                batch: list[str] = []
                for target in self.store.targets():
                    if self._is_mine(target):
                        batch.append(target)
                    if len(batch) == BATCH:
                        await self._compare_these(batch)
                        batch = []
                await self._compare_these(batch)
                self.compared += 1
        except (Away, Refused):
            return  # all is compared again when it is back

    async def _compare_these(self, targets: list[str]) -> None:
        if not targets:
            return
        for target, (version, kept) in zip(targets, await self.shelf.versions(targets), strict=True):
            known = self.store.known(target)
            if version > known and kept:
                self.store.pull_soon(target)
            elif version > known:
                await self._outdated(target)
                await self.store.drop(target)
            elif known > version and self.store.local.peek(target) is not None:
                self.store.outbox.keep(target, 0)
        await asyncio.sleep(0)

    def _observe(self, metrics: Metrics) -> None:
        store = self.store
        metrics.observe_fleet(
            up=self.link.up,
            waiting=len(store.outbox),
            events={
                "away": self.link.changes,
                "compared": self.compared,
                "gap": self.ear.gaps,
                "lease-lost": store.common.lost,
                "refused": store.outbox.refused + self.link.refusals,
                "sent": store.outbox.sent,
                "taken-in": store.taken_in,
            },
        )
