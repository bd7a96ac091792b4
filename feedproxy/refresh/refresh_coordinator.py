"""Coordination of all refreshes: for clients, for the refresh schedule and for the operator.

Requests that can use the same response share one refresh of their target. The fetch lease of a target prevents two
processes from fetching the same response.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.client_network import client_network
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.feed_rules import may_serve_under
from feedproxy.http import uri
from feedproxy.http.credential_fields import is_credential
from feedproxy.http.message import NO_FIELDS, Request
from feedproxy.refresh import client_keyed_responses, missing_ranges, peer_result
from feedproxy.refresh.fetch_lease import FetchLease
from feedproxy.refresh.fetch_permission import FetchPermissions
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.pipeline import RefreshPipeline
from feedproxy.refresh.policy import moved_and_gone
from feedproxy.refresh.policy.min_interval_and_back_off import Allowed, Deferred
from feedproxy.refresh.policy.origin_rate_limits import LimitRecordingClient, SiteLimits
from feedproxy.refresh.policy.pushed_content import PushedContent
from feedproxy.refresh.policy.refresh_ahead import own_jitter
from feedproxy.refresh.publication_backfill import PublicationBackfill
from feedproxy.refresh.reader_tracking import ReaderTracker
from feedproxy.refresh.redirect_following import NonFeedRedirects, OriginClient
from feedproxy.refresh.refresh_events import Events, FeedChanged, RefreshEnded
from feedproxy.refresh.refresh_job import RefreshJob, background_job, push_job
from feedproxy.refresh.refresh_result import RefreshRecord, RefreshResult
from feedproxy.refresh.request_collapsing import RunningRefreshes, collapse_keys, may_share
from feedproxy.request.context import RequestContext
from feedproxy.request.upstream_and_public_urls import is_upstream_target, to_public
from feedproxy.request.upstream_request import background_request
from feedproxy.settings import Settings
from feedproxy.store.interface import Store
from feedproxy.store.resource import Relocation, Resource
from feedproxy.upstream.origin_connection_limits import PROXY, Requester, charge_current_task, requesting

SITE_WAITING_MAX = 256
"""A refresh that `site_interval` defers is scheduled only while fewer than this many refreshes are scheduled. Each
scheduled refresh is checked again after each request to its site."""


class RefreshCoordinator:
    """Coordinator that starts refreshes, joins requests to running refreshes, and owns their tasks."""

    def __init__(
        self,
        *,
        settings_for: Callable[[str], Settings],
        store: Store,
        fetcher: OriginClient,
        clock: Clock,
        events: Events,
        via: str,
        readers: ReaderTracker,
        helper_pool: HelperPool,
    ) -> None:
        self._settings_for = settings_for
        self._store = store
        self._clock = clock
        self._events = events
        self._via = via
        self._agent = readers.upstream_user_agent
        self.helper_pool = helper_pool
        self.site_limits = SiteLimits(store.coordination.sites, clock)
        self.permissions = FetchPermissions(store.coordination.sites, clock)
        self._pipeline = RefreshPipeline(
            LimitRecordingClient(fetcher, self.site_limits, self._is_for_shared_feed),
            store,
            clock,
            self.helper_pool,
            may_serve_under=lambda start, end: may_serve_under(settings_for(start), settings_for(end)),
            has_expected_readers=readers.has_expected_readers,
        )
        self._refreshes = RunningRefreshes(store.coordination)
        self._backfill = PublicationBackfill(
            store,
            self.helper_pool,
            is_refreshing=lambda target: bool(self._refreshes.joinable_keys(target)),
            has_expected_readers=readers.has_expected_readers,
        )
        self._initiators: dict[asyncio.Task[RefreshResult], Requester] = {}
        self._coordination = store.coordination
        self._non_feed_redirects = NonFeedRedirects(store.coordination)
        self._scheduled: dict[str, asyncio.Task[None]] = {}
        self._storable_jobs: dict[str, set[object]] = {}
        self._backfills: dict[str, asyncio.Task[None]] = {}
        self._backfills_in_progress = 0

    def _is_for_shared_feed(self, request: Request) -> bool:
        """Return whether the request is for a known feed of another origin than `upstream`, and has no credentials.
        Only a response to such a request may pause its site for all clients."""
        target = request.target
        return (
            _is_known_feed(self._store.peek(target))
            and uri.without_fragment(target) == target  # the operator's credential has a limit of its own
            and not is_upstream_target(target, self._settings_for(target))
            and not any(is_credential(name) for name, _ in request.fields)
        )

    def __len__(self) -> int:
        return len(self._refreshes) + len(self._backfills) + self._backfills_in_progress

    def refresh_shared_copy(self, context: RequestContext, result: RefreshResult) -> None:
        """Refresh the shared copy after a request with client-specific fields, if the copy is stale or missing. Nothing
        happens if the fetch is deferred now. `result` is the result of the client's request."""
        if not client_keyed_responses.is_client_specific(context, result):
            return
        target, settings = context.request.target, context.settings
        resource = self._store.get(target)
        if client_keyed_responses.needs_shared_copy(context, result, resource, self._clock.now()) and isinstance(
            self.permissions.check(resource, target, settings), Allowed
        ):
            self.refresh(target)

    def can_join(self, context: RequestContext) -> bool:
        """Return whether a refresh is running that this request may join."""
        return any(key in self._refreshes for key in collapse_keys(context, context.resource))

    async def refresh_for_request(
        self, context: RequestContext, resource: Resource | None, variant: StoredResponse | None
    ) -> tuple[RefreshResult | Deferred | None, bool]:
        """Start or join a refresh. Return its result, and whether the request was collapsed with another (RFC 9211).

        The result is None if the refresh takes longer than `answer_timeout` seconds. The result is Deferred if the
        request must not share the response of the joined refresh, and the origin must not be asked now.
        """
        target, client = context.request.target, client_network(context.client.address)
        solo = object()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + context.settings.answer_timeout
        for key in (*collapse_keys(context, resource), solo):
            initiator = Requester(client, is_known=_is_known_feed(resource))
            with requesting(initiator):
                if key is not solo:
                    task, joined = self._refreshes.join_or_start_refresh(
                        target, key, lambda: self._run_shared(context, resource, variant)
                    )
                else:
                    task, joined = self._refreshes.join_or_start(
                        key, lambda: self._run_for_request(context, resource, variant)
                    )
            if not joined:
                self._initiators[task] = initiator
                task.add_done_callback(self._initiators.pop)
            initiator = self._initiators.get(task, PROXY)
            initiator.charge(client)
            try:
                result = await self._refreshes.wait_for(task, deadline - loop.time(), initiator.abandon)
            except TimeoutError:
                return None, joined
            if not joined or may_share(context, result):
                return result, joined or result.from_peer
            # This request does not select the shared response (RFC 9111, section 4), so that it needs another fetch.
            permission = self.permissions.check_for_request(context, self._store.get(target))
            if isinstance(permission, Deferred) and permission.forbids_request(self._clock.now()):
                return permission, joined
        raise AssertionError("unreachable: a solo refresh is never joined")

    async def apply_push(self, target: str, push: PushedContent, stored: StoredResponse) -> RefreshResult:
        """Store pushed content in place of the variant `stored`, and return the result."""
        job = push_job(target, push, stored, self._settings_for(target), self._clock.now(), via=self._via)
        return await self._run_job(job, self._store.get(target))

    def refresh(self, target: str) -> asyncio.Task[RefreshResult]:
        """Return the task of the running refresh of a target, or of a new background refresh. Several callers may await
        the task. A caller must shield the task from cancellation (`asyncio.shield`)."""
        task, _ = self._refreshes.join_or_start_refresh(target, target, lambda: self._run_in_background(target))
        return task

    async def backfill_publications(self, target: str) -> bool:
        """Add the publication dates in the stored document to the recorded changes of a feed that was fetched once.
        Return True if the call had to wait: the resource can have changed in the meantime."""
        self._backfills_in_progress += 1
        try:
            return await self._backfill.read(target)
        finally:
            self._backfills_in_progress -= 1

    def refresh_stale(self, target: str, is_resting: Callable[[], bool]) -> None:
        """Refresh a target in the background.

        If the feed was fetched only once, its publication dates are read first. After this reading, the refresh is
        omitted if the resource was fetched or deleted in the meantime, or if a limit defers the refresh. It is also
        omitted if `is_resting` returns True, because the dates show that the copy may still answer.
        """
        resource = self._store.get(target)
        if resource is None or not resource.backfill_pending or target in self._refreshes:
            self.refresh(target)
        else:
            work = partial(self._refresh_after_backfill, target, resource.fetched, is_resting)
            self._start_once(self._backfills, target, work)

    def refresh_variant(self, context: RequestContext, variant: StoredResponse) -> None:
        """Refresh a variant in the background, with the client's fields that select it and without credentials."""
        resource, target = context.resource, context.request.target
        key = collapse_keys(context, resource)[-1]
        with requesting(Requester(client_network(context.client.address), is_known=_is_known_feed(resource))):
            self._refreshes.join_or_start_refresh(target, key, lambda: self._run_shared(context, resource, variant))

    async def _refresh_after_backfill(self, target: str, fetched: Instant, is_resting: Callable[[], bool]) -> None:
        await self._backfill.read(target)
        resource = self._store.get(target)
        if resource is None or resource.fetched != fetched or is_resting():
            return
        if isinstance(self.permissions.check(resource, target, self._settings_for(target)), Allowed):
            self.refresh(target)

    def schedule_refresh(self, target: str) -> None:
        """Refresh a target in the background as soon as the limits allow.

        Unlike `wait_for_site_slot`, the wait reserves no slot of the site, and holds no fetch lease. If the target is
        purged, paused or fetched before the refresh starts, the refresh is omitted. A call replaces an earlier call for
        the target.
        """
        fetched = _fetched_at(self._store.get(target))

        async def refresh_when_allowed() -> None:
            while True:
                resource = await self._load(target)
                if _fetched_at(resource) != fetched:
                    return
                match self.permissions.check(resource, target, self._settings_for(target)):
                    case Deferred(_, Detail.PAUSED):
                        return
                    case Deferred(until, detail):
                        # No fetch lease is held during the wait. With its own jitter, one feed at a time finds the
                        # site free.
                        jitter = own_jitter(target) if detail is Detail.SITE_INTERVAL else 0.0
                        await self._clock.sleep(until - self._clock.now() + jitter)
                    case Allowed():
                        break
            await asyncio.shield(self.refresh(target))

        if (earlier := self._scheduled.pop(target, None)) is not None:
            earlier.cancel()
        self._start_once(self._scheduled, target, refresh_when_allowed)

    def refresh_when_site_is_free(self, target: str) -> None:
        """Schedule the refresh of a stale copy that `site_interval` prevents from being refreshed now. Nothing is
        scheduled if the target already waits or is being refreshed, or if SITE_WAITING_MAX refreshes are scheduled."""
        if not (target in self._refreshes or target in self._scheduled or len(self._scheduled) >= SITE_WAITING_MAX):
            self.schedule_refresh(target)

    def _start_once(
        self, tasks: dict[str, asyncio.Task[None]], target: str, work: Callable[[], Awaitable[None]]
    ) -> None:
        if target in tasks:
            return

        async def run() -> None:
            try:
                await work()
            finally:
                if tasks.get(target) is asyncio.current_task():
                    del tasks[target]

        tasks[target] = asyncio.ensure_future(run())

    def discard(self, matches: Callable[[str], bool]) -> None:
        """Cancel the scheduled refreshes and the backfills of all matching targets, and invalidate their running
        refreshes."""
        for tasks in (self._scheduled, self._backfills):
            for target in [scheduled for scheduled in tasks if matches(scheduled)]:
                tasks.pop(target).cancel()
        self.invalidate(matches)

    def invalidate(self, matches: Callable[[str], bool]) -> None:
        """Prevent the running refreshes of all matching targets from storing their results. Requests no longer join
        these refreshes."""
        for target in [storable for storable in self._storable_jobs if matches(storable)]:
            self._storable_jobs[target].clear()
            self._refreshes.stop_joining_target(target)
        self._non_feed_redirects.forget(matches)

    async def close(self, timeout: Seconds) -> None:
        """Cancel scheduled refreshes. Wait up to `timeout` seconds for running refreshes, cancel the rest, and end the
        helpers."""
        for task in [*self._scheduled.values(), *self._backfills.values()]:
            task.cancel()
        await self._refreshes.drain(timeout)
        await self.helper_pool.close()

    async def _run_shared(
        self, context: RequestContext, resource: Resource | None, variant: StoredResponse | None
    ) -> RefreshResult:
        """Run a refresh that other requests may share, under the fetch lease of its target. Return its result."""
        target, settings, upstream = context.request.target, context.settings, context.upstream
        before = self._store.get(target)
        async with FetchLease(self._coordination, target, timeout=settings.fetch_timeout) as lease:
            result = await self._find_peer_result(
                lease, before, upstream.request, settings, own_agent=upstream.own_agent
            )
            return await self._run_for_request(context, resource, variant) if result is None else result

    async def _find_peer_result(
        self,
        lease: FetchLease,
        before: Resource | None,
        request: Request,
        settings: Settings,
        *,
        own_agent: bool,
    ) -> RefreshResult | None:
        """Return the result of a refresh that another process made after `before` was read.

        Return None if no other process completed a refresh while this one waited for the lease.

        If the request does not select the response of the other process, release the lease and return None: all waiting
        processes then fetch in parallel. `own_agent` is true if the request has feedproxy's own User-Agent.
        """
        if not lease.completed_by_peer:
            return None
        stored = await self._load(request.target)
        result = peer_result.find(before, stored, request.fields, self._clock.now(), settings, own_agent=own_agent)
        if result is None:
            lease.release()
        return result

    async def _run_for_request(
        self, context: RequestContext, resource: Resource | None, variant: StoredResponse | None
    ) -> RefreshResult:
        target, settings = context.request.target, context.settings
        is_known_feed = _is_known_feed(resource)
        if is_known_feed and not (resource is not None and resource.failures.detail == Detail.REFUSED):
            await self.permissions.wait_for_site_slot(target, settings, client_waits=True)
        # A HEAD is sent only for targets that are not feeds. Its client gets the redirect itself.
        follow = context.upstream.request.method == "GET" and (
            is_known_feed or self._non_feed_redirects.may_follow(context)
        )
        result = await self._run_job(
            RefreshJob(
                context.upstream.request,
                settings,
                self._clock.now(),
                self_href=to_public(target, settings),
                validate=variant,
                own_agent=context.upstream.own_agent,
                occasion="reader",
                follow_redirects=follow,
                skip_address_check=is_upstream_target(target, settings),
                missing_range=missing_ranges.missing_range(context, resource, self._clock.now())
                if variant is None
                else None,
                accept_encoding=context.request.fields.combined("accept-encoding"),
                client_fields=context.request.fields if variant is None and _is_never_stored(resource) else NO_FIELDS,
                key=context.upstream.key,
                keyed_record=self.permissions.keyed_record(context.upstream),
                varying_fields=context.upstream.varying_fields,
            ),
            self._store.get(target),
        )
        response = result.response
        if follow and response is not None and 300 <= response.status < 400 and not len(response.key):
            self._non_feed_redirects.record(target)
        return missing_ranges.cut_to_range(context, result)

    async def _run_in_background(self, target: str) -> RefreshResult:
        before, settings = await self._load(target), self._settings_for(target)
        charge_current_task(Requester(is_known=_is_known_feed(before)))
        async with FetchLease(self._coordination, target, timeout=settings.fetch_timeout) as lease:
            if lease.completed_by_peer:
                request = background_request(target, via=self._via, agent="")
                result = await self._find_peer_result(lease, before, request, settings, own_agent=True)
                if result is not None:
                    return result
            if _is_known_feed(before):
                await self.permissions.wait_for_site_slot(target, settings, client_waits=False)
            stored = await self._load(target)  # another process or task may have changed it during the waits
            job = background_job(target, stored, settings, self._clock.now(), via=self._via, agent=self._agent(target))
            job = replace(job, keyed_record=self.permissions.keyed_record(job))
            return await self._run_job(job, stored)

    async def _load(self, target: str) -> Resource | None:
        await self._store.load(target)
        return self._store.get(target)

    async def _run_job(self, job: RefreshJob, stored: Resource | None) -> RefreshResult:
        """Run the job and return its result. Report the changes of the stored resource, which was `stored` before the
        job."""
        target, token = job.request.target, object()
        epoch = self._coordination.invalidation_epoch(target)
        is_first = stored is None or stored.channel is None
        storable_jobs = self._storable_jobs.setdefault(target, set())
        storable_jobs.add(token)

        def is_current() -> bool:
            return token in storable_jobs and self._coordination.invalidation_epoch(target) == epoch

        record: RefreshRecord | None = None
        try:
            result, record = await self._pipeline.run(job, stored, is_current)
            self.permissions.record(job, result)
            if result.changed and result.stored and is_current():
                self._events.feed_changed.emit(FeedChanged(result.resource, is_first))
            elif _availability_changed(stored, result.resource):
                self.announce_invalidation([target])
            self._recheck_former_address(target, result.resource.relocation)
            return result
        finally:
            storable_jobs.discard(token)
            if not storable_jobs:
                self._storable_jobs.pop(target, None)
            self._events.refresh_ended.emit(RefreshEnded(target, record))

    def _recheck_former_address(self, target: str, sighting: Relocation | None) -> None:
        """If a feed has moved back from `target` to its former address, refresh the former address as soon as the
        limits allow."""
        if sighting is None or (former := self._store.get(sighting.location)) is None:
            return
        if moved_and_gone.leads_back(sighting, target, former.relocation):
            self.schedule_refresh(sighting.location)

    def announce_invalidation(self, targets: list[str]) -> None:
        """Report that the copies of these targets in other caches are invalid."""
        self._events.copies_invalidated.emit(tuple(targets))


def _availability_changed(stored: Resource | None, now: Resource) -> bool:
    """Return whether a known feed has moved, ended or been invalidated. `stored` is the earlier resource, and `now` the
    later resource."""
    if stored is None or stored.channel is None:
        return False
    is_invalidated = any(variant.invalid for variant in now.variants) and not any(
        variant.invalid for variant in stored.variants
    )
    return is_invalidated or _relocation_state(stored) != _relocation_state(now)


def _relocation_state(resource: Resource) -> object:
    sighting = resource.relocation
    return None if sighting is None else (sighting.kind, sighting.location, sighting.confirmed)


def _is_known_feed(resource: Resource | None) -> bool:
    return resource is not None and resource.channel is not None


def _fetched_at(resource: Resource | None) -> Instant:
    return resource.fetched if resource is not None else 0.0


def _is_never_stored(resource: Resource | None) -> bool:
    """Return True if the resource is a known feed that has no variant: HTTP forbids storing its responses."""
    return resource is not None and resource.channel is not None and not resource.variants
