"""Scheduled refreshes of the feeds that this process owns: their plans, and the start of each refresh.

refresh/policy/refresh_ahead.py contains the rules of a plan. refresh/refresh_scheduler.py waits for the due plans.
"""

import asyncio
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.http.target_uri.registrable_domain import site_of
from feedproxy.proxy.peer_copies import PeerCopies
from feedproxy.proxy.resource_lookup import ResourceLookup
from feedproxy.refresh.policy import expected_polls_and_price, refresh_ahead
from feedproxy.refresh.policy.freshness_by_hints_and_history import assess
from feedproxy.refresh.refresh_coordinator import RefreshCoordinator
from feedproxy.refresh.refresh_events import Events, RefreshEnded
from feedproxy.refresh.refresh_scheduler import RefreshScheduler
from feedproxy.request.upstream_and_public_urls import is_upstream_target
from feedproxy.settings import Settings
from feedproxy.store.interface import Store
from feedproxy.store.resource import Resource
from feedproxy.subscribers.poll_rhythms import READERS_MAX, ExpectedPoll
from feedproxy.subscribers.subscriber_counts import SubscriberCounts

type CountDemand = Callable[[str, Instant], int]
"""A function of a target and an instant. It returns how many readers the target has gained since the instant by other
means than requests, such as the import of a list of feeds."""


def is_owner(index: int, workers: int, target: str) -> bool:
    """Return True if the worker with number `index` makes the scheduled refreshes of `target`. The CRC-32 of the target
    determines the worker."""
    return zlib.crc32(target.encode("utf-8", "surrogatepass")) % workers == index


class FeedAudience(Struct, frozen=True):
    """The readers of one feed, as the refresh schedule counts them at the instant `now`."""

    target: str
    now: Instant
    counts: SubscriberCounts
    count_demand: CountDemand

    def recent(self, window: Seconds) -> int:
        """Return the number of readers in the last `window` seconds: readers that requested the feed, except those that
        poll regularly, and readers that were gained by other means (`count_demand`).

        If the sample of polling rhythms is full, only the readers of `count_demand` count, because `expected_polls`
        then scales the sample up to all readers.
        """
        since, rhythms = self.now - window, self.counts.rhythms
        direct = 0
        if rhythms.count_sampled(self.target) < READERS_MAX:
            # A full sample already represents all readers, including readers without a rhythm.
            direct = max(0, self.counts.count_recent(self.target, since) - rhythms.count_regular(self.target, since))
        return direct + self.count_demand(self.target, since)

    def expected_polls(self, until: Instant) -> Sequence[ExpectedPoll]:
        """Return the polls expected before the instant `until`, the earliest first."""
        rhythms, readers = self.counts.rhythms, 0
        if rhythms.count_sampled(self.target) == READERS_MAX:
            readers = self.counts.count_with_peers(self.target, self.now)
        return rhythms.expected_polls(self.target, self.now, until, readers=readers)


@dataclass(eq=False)
class ScheduledRefreshes:
    """The refreshes that no request causes. `owns` returns True for a target that this process refreshes."""

    settings_for: Callable[[str], Settings]
    store: Store
    lookup: ResourceLookup
    clock: Clock
    coordinator: RefreshCoordinator
    counts: SubscriberCounts
    events: Events
    peers: PeerCopies
    owns: Callable[[str], bool]
    count_demand: CountDemand

    def __post_init__(self) -> None:
        self.scheduler = RefreshScheduler(
            self.clock,
            self._own_planned_refresh,
            self._refresh_ahead,
            plan_due=self._planned_refresh_of_due_feed,
            load_due=self._load_due_feed,
            lane_of=self._lane_of,
            surprises=self.counts.rhythms.take_surprises,
        )
        self.events.refresh_ended.subscribe(self._on_refresh_ended)
        self.events.updated_by_peer.subscribe(self.reschedule)

    def reschedule(self, target: str) -> None:
        """Recompute the next scheduled refresh of a target after a change by another process."""
        if self.owns(target):
            self.scheduler.reschedule(target)

    def _on_refresh_ended(self, event: RefreshEnded) -> None:
        # A plan takes as long as the last step of a refresh. In a callback of its own, it delays hits less.
        asyncio.get_running_loop().call_soon(self.scheduler.reschedule, event.target)

    def resume(self) -> None:
        """Fill the schedule from the stored subscriber counts, beginning with the most recently requested feeds."""
        feeds = dict.fromkeys([*reversed(self.counts.targets()), *self.counts.rhythms.targets()])
        self.scheduler.start(feeds, self._earliest_refresh)

    def _earliest_refresh(self, target: str) -> Instant | None:
        """Return the earliest instant at which a refresh of a feed can be useful: shortly before a reader's expected
        poll (refresh/policy/expected_polls_and_price.py). Return None if no poll is expected, if the feed has readers
        without requests (`count_demand`), or if another process owns the feed."""
        now = self.clock.now()
        if not self.owns(target) or self.count_demand(target, 0.0):
            return None
        next_poll = self.counts.rhythms.next_poll(target, now)
        return None if next_poll is None else max(now, next_poll - expected_polls_and_price.LEAD)

    def plan(self, resource: Resource) -> refresh_ahead.Plan:
        """Return the next scheduled refresh of a resource, with its reason."""
        target, now = resource.target, self.clock.now()
        settings = self.settings_for(target)
        return refresh_ahead.plan(
            resource,
            assess(resource, resource.variants[-1], settings, now) if resource.variants else None,
            FeedAudience(target, now, self.counts, self.count_demand),
            now,
            settings,
            permission=lambda: self.coordinator.permissions.check(resource, target, settings),
            price_factor=self.coordinator.site_limits.price_factor(site_of(target)),
            jitter=refresh_ahead.own_jitter(target),
        )

    def _lane_of(self, target: str) -> str:
        """Return the lane in which the scheduler spaces the refreshes of a target: its site. A feed of the upstream has
        a lane of its own, because it needs no spacing."""
        return target if is_upstream_target(target, self.settings_for(target)) else site_of(target)

    def _own_planned_refresh(self, target: str) -> refresh_ahead.Plan:
        return self._plan_if_owned(target, self.lookup.peek)

    async def _load_due_feed(self, target: str) -> None:
        """Load the resource of a feed with a due refresh, for planning. Do nothing if another process owns the feed."""
        if self.owns(target):
            await self.store.load(target)

    def _planned_refresh_of_due_feed(self, target: str) -> refresh_ahead.Plan:
        # A resource in memory is unpacked once, for the plan and the refresh. A resource on the disk enters the memory
        # only if it is refreshed: after a start, most feeds are first planned for a later instant.
        is_in_memory = self.store.version(target) is not None
        plan = self._plan_if_owned(target, self.lookup.get if is_in_memory else self.lookup.peek)
        if not is_in_memory and isinstance(plan, refresh_ahead.Refresh):
            self.lookup.get(target)  # the store remembers the last resources that `load` has read
        return plan

    def _plan_if_owned(self, target: str, look_up: Callable[[str], Resource | None]) -> refresh_ahead.Plan:
        resource = look_up(target) if self.owns(target) else None
        if resource is None:
            return refresh_ahead.Rest("this process does not schedule it")
        return self.plan(resource)

    async def _refresh_ahead(self, target: str) -> None:
        if await self.peers.sync(target) and not isinstance(self._own_planned_refresh(target), refresh_ahead.Refresh):
            self.scheduler.reschedule(target)  # a peer has already refreshed the target
            return
        if await self.coordinator.backfill_publications(target) and not isinstance(
            self._own_planned_refresh(target), refresh_ahead.Refresh
        ):
            self.scheduler.reschedule(target)  # the feed changes rarely, or was fetched while its history was read
            return
        await asyncio.sleep(0)  # the start of a refresh takes as long as the plan: hits are served in between
        self.events.scheduled_refresh_started.emit(target)
        await asyncio.shield(self.coordinator.refresh(target))
