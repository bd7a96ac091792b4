"""What is done to the cache by others than readers: the operator, a ping, a request that streamed past it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import batched
from operator import eq

from feedproxy.aio import yielding
from feedproxy.cache import invalidation
from feedproxy.cache.cache_status import Detail
from feedproxy.cache.freshness import Freshness
from feedproxy.clock import Clock, Instant
from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Request, Response
from feedproxy.http.url_pattern import anywhere
from feedproxy.proxy.autodiscovery import Autodiscovery
from feedproxy.proxy.interfaces import Demand, FeedOwnership, PeerCopies
from feedproxy.proxy.resource_lookup import ResourceLookup
from feedproxy.refresh.coordinator import RefreshCoordinator
from feedproxy.refresh.policy import prefetch, throttle
from feedproxy.refresh.policy import push as pushing
from feedproxy.refresh.policy.feed_freshness import assess
from feedproxy.refresh.prefetch_scheduler import Agenda
from feedproxy.refresh.resource_update import superseded
from feedproxy.refresh.result import RefreshObserver
from feedproxy.request.url_mapping import equivalent_urls, to_public, to_upstream
from feedproxy.settings import Settings
from feedproxy.store.interface import Store
from feedproxy.store.resource import Failures, Resource
from feedproxy.subscribers.counts import SubscriberCounts

INVALIDATION_BATCH = 64
"""Targets of a purge that caches elsewhere are told of at one go: half a millisecond."""


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """What an operator's or a ping's refresh came to.

    `outcome` is `updated`, `unchanged`, `confirmed` (304), `not-stored`, `failed`, or `later` when the target's floor
    or its site's turn has to come first (at `at`).
    """

    target: str
    outcome: str
    words: str = ""
    status: int | None = None
    at: Instant | None = None


class CacheAdmin:
    """Operations on the cache beside requests: refresh, purge, invalidate, apply pushes, and the refresh schedule."""

    def __init__(
        self,
        *,
        settings_for: Callable[[str], Settings],
        store: Store,
        lookup: ResourceLookup,
        clock: Clock,
        dispatch: RefreshCoordinator,
        autodiscovery: Autodiscovery,
        counts: SubscriberCounts,
        observer: RefreshObserver,
        peers: PeerCopies,
        ownership: FeedOwnership,
        demand: Demand,
    ) -> None:
        self._settings_for = settings_for
        self._store = store
        self._lookup = lookup
        self._clock = clock
        self._dispatch = dispatch
        self._autodiscovery = autodiscovery
        self._counts = counts
        self._observer = observer
        self._peers = peers
        self._ownership = ownership
        self._demand = demand
        self.agenda = Agenda(clock, self._own_prefetch_plan, self._prefetch)

    @property
    def active_refreshes(self) -> int:
        """Updates under way."""
        return len(self._dispatch)

    def to_upstream_url(self, address: str) -> str:
        """The target that an operator means by a normalised address, be it the public one."""
        return to_upstream(address, self._settings_for(address))

    def target_matcher(self, pattern: str) -> Callable[[str], bool]:
        """Whether a target matches an operator's glob, in its public form or its own."""
        glob = anywhere(pattern)
        # Where we stand is the same for all targets, whatever rules there are for each.
        settings = self._settings_for("")
        return lambda target: any(glob.fullmatch(form) is not None for form in equivalent_urls(target, settings))

    def is_feed(self, target: str) -> bool:
        """Whether this target is held, and is a feed."""
        resource = self._store.get(target)
        return resource is not None and resource.channel is not None

    async def feeds_named_by(self, target: str) -> list[str]:
        """The feeds that the page held of this target names; none where no page is held."""
        resource = self._store.get(target)
        if resource is None or resource.channel is not None or not resource.variants:
            return []
        found = await self._autodiscovery.find(resource.variants[-1], self._settings_for(target))
        return [each.address for each in found]

    def next_allowed_fetch(self, target: str) -> Instant | None:
        """When the origin of this target may be asked; None for now."""
        match self._dispatch.check_fetch_allowed(self._lookup.get(target), target, self._settings_for(target)):
            case throttle.Deferred(until):
                return until
        return None

    def site_turn(self, target: str) -> Instant | None:
        """When the site of this target may be asked, where nothing else has to be waited for; None for now, or else."""
        match self._dispatch.check_fetch_allowed(self._lookup.get(target), target, self._settings_for(target)):
            case throttle.Deferred(until, Detail.SITE_INTERVAL):
                return until
        return None

    async def refresh(self, target: str) -> RefreshReport:
        """Ask the origin of this target now, or as soon as its floor allows (then the outcome is `later`)."""
        target = self.to_upstream_url(target)
        await self._peers.sync(target)
        resource = self._lookup.get(target)
        match self._dispatch.check_fetch_allowed(resource, target, self._settings_for(target)):
            case throttle.Deferred(_, Detail.PAUSED, words):
                return RefreshReport(target, "paused", words)
            case throttle.Deferred(until, _, words):
                self._dispatch.schedule_refresh(target, until - self._clock.now())
                return RefreshReport(target, "later", words, at=until)
        landed = await self._dispatch.refresh_in_background(target)
        return RefreshReport(target, landed.outcome, landed.reason or str(landed.detail or ""), landed.fwd_status)

    async def flush(self, target: str) -> None:
        """Return when what is held of this target outlives the process."""
        await self._store.written(self.to_upstream_url(target))

    async def record_push(self, target: str, promised: Instant) -> None:
        """Somebody tells us that the target has changed, and promises to until then: it need not be asked so often."""
        if (resource := self._store.newest(target)) is not None:
            await self._store.put(replace(resource, heard=self._clock.now(), promised=promised))
            self.agenda.note(target)

    async def extend_push_lease(self, target: str, promised: Instant) -> None:
        """Who tells us of the target's changes promises it for longer; what was broken is not mended by that."""
        resource = self._store.newest(target)
        if resource is not None and resource.promised > self._clock.now():
            await self._store.put(replace(resource, promised=promised))

    async def end_push_lease(self, target: str) -> None:
        """Nobody tells us of the target's changes any more: it is asked as ever."""
        resource = self._store.newest(target)
        if resource is not None and resource.promised:
            await self._store.put(replace(resource, promised=0.0))
            self.agenda.note(target)

    async def apply_push(self, target: str, body: bytes, media_type: str | None) -> str:
        """Take content that was pushed for a copy, as if it had been fetched; why not, empty where it was done.

        Then it is on the disk: who pushed it is told that it came, and does not send it twice.

        `body` is not coded. It is judged as any update is, and more strictly (push.py).
        """
        resource, now, settings = self._store.newest(target), self._clock.now(), self._settings_for(target)
        held = next((each for each in reversed(resource.variants) if each.content.feed), None) if resource else None
        if resource is None or held is None or held.authorized:
            return "no copy is held"
        fetched = pushing.as_fetched(held, body, media_type, now)
        work = partial(
            pushing.examined,
            fetched,
            held,
            resource,
            now,
            settings,
            self_href=to_public(target, settings),
            leaving=superseded(resource),
        )
        try:
            push = await self._dispatch.worker_pool.submit(work)
        except FeedproxyError as error:
            return str(error)
        if isinstance(push, str):
            return push
        landed = await self._dispatch.apply_push(target, push, held)
        await self._store.written(target)
        return "" if landed.stored else landed.reason or "it may not be stored"

    async def purge(self, target: str = "", *, pattern: str = "") -> list[str]:
        """Forget this target, or all that match the glob: those that were held. What is under way is not stored."""
        # Outdated first: what another process is about to write comes before the delete, or not at all.
        if target:
            target = self.to_upstream_url(target)
            await self._peers.sync(target)  # it counts as purged also where another machine alone has it
            self._store.common.outdate(target)
            self._dispatch.discard(partial(eq, target))
            held = self._store.get(target) is not None
            await self._store.delete(target)
            await self._store.flush()
            self._dispatch.announce_invalidation([target])
            return [target] if held else []
        matches = self.target_matcher(pattern)
        self._store.common.outdate(None)
        self._dispatch.discard(matches)
        here = [each async for each in yielding(self._store.targets()) if matches(each)]
        there = [each async for each in self._peers.targets() if matches(each)]
        targets = list(dict.fromkeys([*here, *there]))
        async for each in yielding(targets):
            await self._store.delete(each)
        await self._store.flush()
        async for some in yielding(batched(targets, INVALIDATION_BATCH)):
            self._dispatch.announce_invalidation(list(some))
        return targets

    async def on_peer_purge(self, target: str) -> None:
        """Another machine has purged a target, or all may have been (""): what is under way here is not stored."""
        self._dispatch.discard(partial(eq, target)) if target else self._dispatch.invalidate(lambda _: True)

    async def clear_relocation(self, target: str) -> bool:
        """Forget a remembered move or end of this target, and the pause it brought; whether there was one."""
        target = self.to_upstream_url(target)
        resource = self._store.newest(target)
        if resource is None or resource.sighting is None:
            return False
        failures = Failures() if resource.failures.detail == Detail.GONE else resource.failures
        await self._store.put(replace(resource, sighting=None, failures=failures))
        self._dispatch.announce_invalidation([target])
        return True

    async def invalidate_after_write(self, request: Request, response: Response) -> None:
        """A request that streamed through was answered: invalidate what RFC 9111, 4.4, wants invalidated."""
        for target in invalidation.invalidated_by(request, response):
            self._store.common.outdate(target)
            self._dispatch.invalidate(partial(eq, target))
            resource = self._store.newest(target)
            if resource is not None and resource.responses:
                variants = tuple(replace(each, invalid=True) for each in resource.variants)
                keyed = tuple(replace(each, invalid=True) for each in resource.keyed if each.status != 206)
                await self._store.put(replace(resource, variants=variants, parts=(), keyed=keyed))

    def resources(self) -> Iterable[Resource]:
        """Everything that is held, for those who look after it."""
        for target in self._store.targets():
            if (resource := self._store.peek(target)) is not None:
                yield resource

    def freshness_of(self, resource: Resource) -> Freshness | None:
        """How fresh the newest stored response of a resource is, with the reason in words."""
        if not resource.variants:
            return None
        return assess(resource, resource.variants[-1], self._settings_for(resource.target), self._clock.now())

    # -- the schedule

    def owns(self, target: str) -> bool:
        """Return whether this process refreshes a feed ahead of requests."""
        return self._ownership.owns(target)

    def reschedule(self, target: str) -> None:
        """Compute the next scheduled refresh anew after another process has changed what is stored."""
        if self.owns(target):
            self.agenda.note(target)

    def resume(self) -> None:
        """Take the schedule up again, from what is stored and who read it: those asked for last come first."""
        self.agenda.start(reversed(self._counts.targets()))

    def prefetch_plan(self, resource: Resource) -> prefetch.Plan:
        """What the schedule has in mind for a resource, with the reason in words."""
        target, now = resource.target, self._clock.now()
        settings = self._settings_for(target)
        return prefetch.plan(
            resource,
            self.freshness_of(resource),
            lambda seconds: (
                self._counts.recent(target, now - seconds) + self._demand.count_since(target, now - seconds)
            ),
            now,
            settings,
            permission=self._dispatch.check_fetch_allowed(resource, target, settings),
            jitter=prefetch.own_jitter(target),
        )

    def _own_prefetch_plan(self, target: str) -> prefetch.Plan:
        resource = self._lookup.peek(target) if self.owns(target) else None
        return prefetch.Rest("nothing of it is looked after here") if resource is None else self.prefetch_plan(resource)

    async def _prefetch(self, target: str) -> None:
        if await self._peers.sync(target) and not isinstance(self._own_prefetch_plan(target), prefetch.Refresh):
            self.agenda.note(target)  # another machine was quicker
            return
        self._observer.scheduled(target)
        await self._dispatch.refresh_in_background(target)
