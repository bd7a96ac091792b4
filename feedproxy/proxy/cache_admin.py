"""Cache operations outside client requests: commands, pings, pushes, invalidation."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import batched
from operator import eq

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.cache import cache_groups, invalidation
from feedproxy.cache.cache_status import Detail
from feedproxy.cache.freshness import Freshness
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Clock, Instant
from feedproxy.cooperative_iteration import iterate_cooperatively
from feedproxy.errors import FeedproxyError
from feedproxy.http import uri
from feedproxy.http.message import Request, Response
from feedproxy.http.target_uri.target_pattern import compile_glob
from feedproxy.proxy.equivalent_targets import EquivalentTargets, without_ignored_query
from feedproxy.proxy.page_to_feed_redirect import Autodiscovery
from feedproxy.proxy.peer_copies import PeerCopies
from feedproxy.proxy.resource_lookup import ResourceLookup
from feedproxy.proxy.scheduled_refreshes import ScheduledRefreshes
from feedproxy.refresh.policy import pushed_content
from feedproxy.refresh.policy.freshness_by_hints_and_history import assess
from feedproxy.refresh.policy.min_interval_and_back_off import Deferred
from feedproxy.refresh.policy.versions_for_deltas import superseded_feeds
from feedproxy.refresh.refresh_coordinator import RefreshCoordinator
from feedproxy.refresh.resource_after_refresh import default_copy, is_worth_storing
from feedproxy.request.upstream_and_public_urls import equivalent_urls, is_upstream_target, to_public, to_upstream
from feedproxy.settings import Settings
from feedproxy.store.interface import Store
from feedproxy.store.resource import NO_FAILURES, Resource

INVALIDATION_BATCH = 64
"""This many purged targets are announced to downstream caches before other tasks run."""


class RefreshReport(Struct, frozen=True):
    """The outcome of a refresh that an operator or a ping requested.

    `outcome` is `updated`, `unchanged`, `confirmed` (304), `not-stored`, `failed`, `paused` or `later`. If it is
    `later`, `at` is the instant from which the target may be fetched, and for which a refresh is scheduled.
    """

    target: str
    outcome: str
    reason: str = ""
    status: int | None = None
    at: Instant | None = None


@dataclass(eq=False)
class CacheAdmin:
    """Cache operations outside client requests: refresh, purge, invalidation, and pushes. `keys_for` returns the keys
    of a target's copies that are fetched with credentials of the operator."""

    settings_for: Callable[[str], Settings]
    store: Store
    lookup: ResourceLookup
    clock: Clock
    coordinator: RefreshCoordinator
    autodiscovery: Autodiscovery
    peers: PeerCopies
    schedule: ScheduledRefreshes
    equivalents: EquivalentTargets
    keys_for: Callable[[str], Sequence[str]]

    @property
    def active_refreshes(self) -> int:
        """Return the number of refreshes in progress."""
        return len(self.coordinator)

    def to_upstream_url(self, address: str) -> str:
        """Return the target of `address` (a normalised target or public address), without query parameters that its
        rule ignores."""
        return without_ignored_query(to_upstream(address, self.settings_for(address)), self.settings_for)

    async def matching_targets(self, pattern: str) -> list[str]:
        """Return the stored targets that match a glob, or have a public address that matches it."""
        matches = self.target_matcher(pattern)
        return [target async for target in iterate_cooperatively(self.store.targets()) if matches(target)]

    def target_matcher(self, pattern: str) -> Callable[[str], bool]:
        """Return a predicate that is true for a target if the target or its public address matches a glob. For a key (a
        target with the name of a credential), its target counts."""
        glob = compile_glob(pattern)
        # The options that map URLs are global: rules cannot override them.
        settings = self.settings_for("")
        return lambda key: any(map(glob.fullmatch, equivalent_urls(uri.without_fragment(key), settings)))

    def is_feed(self, target: str) -> bool:
        """Return True if a feed is stored for this target."""
        resource = self.store.get(target)
        return resource is not None and resource.channel is not None

    async def feeds_named_by(self, target: str) -> list[str]:
        """Return the feeds to which the page stored for `target` links, or an empty list if no page is stored."""
        await self.store.load(target)
        resource = self.store.get(target)
        if resource is None or resource.channel is not None or not resource.variants:
            return []
        feeds = await self.autodiscovery.find(resource.variants[-1], self.settings_for(target))
        return [feed.address for feed in feeds]

    def deferral(self, target: str) -> Deferred | None:
        """Return the reason and end of a deferral of the target's next fetch, or None if the target may be fetched
        now."""
        permission = self.coordinator.permissions.check(self.lookup.get(target), target, self.settings_for(target))
        return permission if isinstance(permission, Deferred) else None

    async def refresh(self, target: str) -> RefreshReport:
        """Refresh a target and return the result. If it must not be fetched now, the outcome is `later`, or `paused`
        for a paused feed."""
        target = self.to_upstream_url(target)
        stored_keys = [key for key in self.keys_for(target) if self.store.holds(key)] if "#" not in target else []
        if stored_keys and not self.store.holds(target):
            # Only copies that are fetched with credentials are stored, so that no request without credentials is sent.
            reports = [await self._refresh_key(key) for key in stored_keys]
            return replace(reports[0], target=target)
        for key in stored_keys:
            await self._refresh_key(key)
        return await self._refresh_key(target)

    async def _refresh_key(self, target: str) -> RefreshReport:
        await self.peers.sync(target)
        match self.deferral(target):
            case Deferred(_, Detail.PAUSED, reason):
                return RefreshReport(target, "paused", reason)
            case Deferred(until, _, reason):
                self.coordinator.schedule_refresh(target)
                return RefreshReport(target, "later", reason, at=until)
        result = await asyncio.shield(self.coordinator.refresh(target))
        return RefreshReport(target, result.outcome, result.reason or str(result.detail or ""), result.fwd_status)

    async def flush(self, target: str) -> None:
        """Wait until everything stored for this target is on disk."""
        await self.store.wait_written(self.to_upstream_url(target))

    async def record_push(self, target: str, promised: Instant) -> None:
        """Record that a push was received, and that further pushes are promised until the instant `promised`. Until
        then, the schedule fetches the target only every `push_interval` seconds. Do nothing if the target is not
        stored."""
        await self.store.load(target)
        if (resource := self.store.get_latest(target)) is not None:
            await self.store.put(replace(resource, last_push=self.clock.now(), push_lease_expires=promised))
            self.schedule.scheduler.reschedule(target)

    async def extend_push_lease(self, target: str, promised: Instant) -> None:
        """Extend a push lease of a target until the instant `promised`. An ended lease stays ended."""
        await self.store.load(target)
        resource = self.store.get_latest(target)
        if resource is not None and resource.push_lease_expires > self.clock.now():
            await self.store.put(replace(resource, push_lease_expires=promised))

    async def end_push_lease(self, target: str) -> None:
        """End the push lease of a target. The feed's own schedule then applies again."""
        await self.store.load(target)
        resource = self.store.get_latest(target)
        if resource is not None and resource.push_lease_expires:
            await self.store.put(replace(resource, push_lease_expires=0.0))
            self.schedule.scheduler.reschedule(target)

    async def apply_push(self, target: str, body: bytes, media_type: str | None) -> str:
        """Store pushed content like fetched content. Return the reason for a refusal, or "" if the content is accepted.

        `body` has no content coding. Accepted content is on disk when the call returns, because the publisher does not
        send it again. pushed_content.py checks the content.
        """
        await self.store.load(target)
        resource, now, settings = self.store.get_latest(target), self.clock.now(), self.settings_for(target)
        copy = default_copy(resource) if resource is not None else None
        if resource is None or copy is None or copy.authorized:
            return "no copy of the feed is stored"
        fetched = pushed_content.as_fetched(copy, body, media_type, now)
        work = partial(
            pushed_content.ingest_push,
            fetched,
            copy,
            resource,
            now,
            settings,
            self_href=to_public(target, settings),
            superseded=superseded_feeds(resource),
        )
        try:
            push = await self.coordinator.helper_pool.submit(work)
        except FeedproxyError as error:
            return str(error)
        if isinstance(push, str):
            return push
        result = await self.coordinator.apply_push(target, push, copy)
        await self.store.wait_written(target)
        return "" if result.stored else result.reason or "it may not be stored"

    async def purge(self, target: str = "", *, pattern: str = "") -> list[str]:
        """Delete a target, or all targets that match the glob `pattern`. Return the deleted targets. Refreshes in
        progress of these targets do not store their results."""
        # Invalidate first: a write of another process then either precedes the delete or is refused.
        if target:
            forms = self._stored_forms(target)
            purged = [form for form in forms if await self._delete(form)]
            await self.store.flush()
            self.coordinator.announce_invalidation(_targets_of(forms))
            return _targets_of(purged)
        matches = self.target_matcher(pattern)
        self.store.coordination.invalidate(None)
        self.coordinator.discard(matches)
        stored_here, at_peers = await self._find_keys(matches)
        keys = [*stored_here, *at_peers]
        async for stored in iterate_cooperatively(keys):
            await self.store.delete(stored)
        await self.store.flush()
        targets = _targets_of(keys)
        async for batch in iterate_cooperatively(batched(targets, INVALIDATION_BATCH)):
            self.coordinator.announce_invalidation(list(batch))
        return targets

    def _stored_forms(self, address: str) -> Sequence[str]:
        """Return the keys under which a response for an address can be stored: the target with and without ignored
        query parameters, each also with the names of credentials. A response that is older than the rule's
        `ignore_query` is stored with these parameters."""
        forms = dict.fromkeys((self.to_upstream_url(address), to_upstream(address, self.settings_for(address))))
        return (*forms, *(key for form in forms if "#" not in form for key in self.keys_for(form)))

    async def _delete(self, target: str) -> bool:
        """Delete a target. Return True if it was stored on this machine or by a peer."""
        await self.peers.sync(target)  # a target that only a peer has stored also counts as purged
        await self.store.load(target)
        self.store.coordination.invalidate(target)
        self.coordinator.discard(partial(eq, target))
        is_stored = self.store.holds(target)  # also a copy that clients no longer get (PermittedStore)
        await self.store.delete(target)
        return is_stored

    async def on_peer_purge(self, target: str) -> None:
        """After a peer has purged a target, prevent refreshes in progress of the target from storing their results. An
        empty `target` stands for all targets."""
        self.coordinator.discard(partial(eq, target)) if target else self.coordinator.invalidate(lambda _: True)

    async def clear_relocation(self, target: str) -> bool:
        """Delete the record that a feed has moved or has ended (Relocation), so that the feed can be fetched again even
        after a 410. Return True if there was a record."""
        resources = map(self.store.get_latest, self._stored_forms(target))
        relocated = [resource for resource in resources if resource is not None and resource.relocation is not None]
        for resource in relocated:
            failures = NO_FAILURES if resource.failures.detail == Detail.GONE else resource.failures
            await self.store.put(replace(resource, relocation=None, failures=failures))
            self.coordinator.announce_invalidation([resource.target])
        return bool(relocated)

    async def recheck_size(self, key: str) -> None:
        """Forget that the content under `key` exceeds `buffer_max`. The next request then fetches the content instead
        of streaming it."""
        await self.store.load(key)
        resource = self.store.get_latest(key)
        if resource is None or not resource.oversized:
            return
        resource = replace(resource, oversized=False)
        if is_worth_storing(resource):
            await self.store.put(resource)
        else:
            await self.store.delete(key)

    async def invalidate_after_write(self, request: Request, response: Response) -> None:
        """Invalidate the stored responses that a successful write changes (RFC 9111, section 4.4; RFC 9875)."""
        # An origin may name itself by its public address.
        to_target = partial(to_upstream, settings=self.settings_for(request.target))
        for written in invalidation.invalidated_by(request, response, to_target):
            for target in dict.fromkeys(
                [*self._stored_forms(written), *self.equivalents.recorded_equivalents(written)]
            ):
                await self._invalidate(target, lambda _: True)
        groups = cache_groups.groups_invalidated_by(request, response)
        # The search reads every stored target. Only writes to the operator's own upstream may cause this cost.
        if groups and is_upstream_target(request.target, self.settings_for(request.target)):
            await self._invalidate_groups(uri.origin_of(request.target), groups)

    async def _invalidate_groups(self, origin: str, groups: frozenset[str]) -> None:
        """Invalidate the stored responses of an origin that belong to one of these groups. Responses that share only
        another group with an invalidated response stay valid (RFC 9875, section 2.2.1)."""

        def belongs(stored: StoredResponse) -> bool:
            return not groups.isdisjoint(cache_groups.groups_of(stored.fields))

        def is_below_origin(target: str) -> bool:
            return target.startswith(f"{origin}/")

        # A response that is still being fetched may belong to a group, too.
        self.coordinator.invalidate(is_below_origin)
        stored_here, at_peers = await self._find_keys(is_below_origin)
        for target in at_peers:
            await self.peers.sync(target)
        async for target in iterate_cooperatively([*stored_here, *at_peers]):
            await self.store.load(target)
            resource = self.store.peek(target)
            if resource is not None and any(map(belongs, resource.responses)):
                await self._invalidate(target, belongs)

    async def _find_keys(self, matches: Callable[[str], bool]) -> tuple[list[str], list[str]]:
        """Return the matching keys that are stored on this machine, and those that only peers have stored."""
        stored_here = [key async for key in iterate_cooperatively(self.store.targets()) if matches(key)]
        known = frozenset(stored_here)
        return stored_here, [key async for key in self.peers.targets() if matches(key) and key not in known]

    async def _invalidate(self, target: str, selects: Callable[[StoredResponse], bool]) -> None:
        """Invalidate the selected stored responses of a target, and delete the selected partial responses."""
        await self.store.load(target)
        self.store.coordination.invalidate(target)
        self.coordinator.invalidate(partial(eq, target))
        resource = self.store.get_latest(target)
        if resource is None or not resource.responses:
            return

        def mark_invalid(responses: tuple[StoredResponse, ...]) -> tuple[StoredResponse, ...]:
            return tuple(replace(stored, invalid=True) if selects(stored) else stored for stored in responses)

        keyed = tuple(stored for stored in resource.keyed if stored.status != 206 or not selects(stored))
        parts = tuple(stored for stored in resource.parts if not selects(stored))
        await self.store.put(
            replace(resource, variants=mark_invalid(resource.variants), parts=parts, keyed=mark_invalid(keyed))
        )

    def freshness_of(self, resource: Resource) -> Freshness | None:
        """Return the freshness of the newest variant of a resource, or None if the resource has no variant."""
        if not resource.variants:
            return None
        return assess(resource, resource.variants[-1], self.settings_for(resource.target), self.clock.now())


def _targets_of(keys: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(uri.without_fragment, keys)))
