"""service.answer(request): the one call in which all three entrances end.

A decision is made from what is stored (cache/reuse.py); when the origin must be asked, the request waits for the one
update of that target that is under way (coordinator.py). Whoever waits may go away without ending it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from feedproxy.cache import reuse, serving_stale
from feedproxy.cache.cache_status import CacheStatus, Detail, Fwd
from feedproxy.cache.freshness import Freshness
from feedproxy.cache.reuse import Forward, Reuse, ReuseAndRevalidate, Unsatisfiable, Validate
from feedproxy.cache.serving_stale import Occasion
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.vary import nominated
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import FeedproxyError, FetchError, FetchTimeout, Forbidden, LoopDetected
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields, Request
from feedproxy.memory_limits import MemoryLimits
from feedproxy.proxy.autodiscovery import Autodiscovery
from feedproxy.proxy.cache_admin import CacheAdmin
from feedproxy.proxy.interfaces import Demand, FeedOwnership, NoDemand, NoPeers, OwnsAll, PeerCopies
from feedproxy.proxy.local_responses import LocalResponses, is_oversized
from feedproxy.proxy.representations.coding_variants import CodingVariants
from feedproxy.proxy.representations.conversion_cache import ConversionCache
from feedproxy.proxy.representations.conversions import Conversions
from feedproxy.proxy.representations.decoded_bodies import DECODED_BODIES
from feedproxy.proxy.representations.deltas import Deltas
from feedproxy.proxy.resource_lookup import ResourceLookup
from feedproxy.proxy.response_builder import build_response
from feedproxy.refresh import personal_responses, range_requests
from feedproxy.refresh.coordinator import RefreshCoordinator
from feedproxy.refresh.policy import content_guard, relocation, throttle
from feedproxy.refresh.policy.feed_freshness import assess, rests_until
from feedproxy.refresh.reader_tracking import ReaderTracker
from feedproxy.refresh.redirects import OriginClient
from feedproxy.refresh.resource_update import earlier_versions_interval
from feedproxy.refresh.result import RefreshObserver, RefreshResult
from feedproxy.request.context import PassThrough, ProxyResponse, RequestContext
from feedproxy.request.entrance import ClientContext, Entrance, apply_entrance_rules, make_private
from feedproxy.request.reload_policy import apply_reload_policy
from feedproxy.request.upstream_request import build_upstream_request, is_loop, shared_names, surrogate_key
from feedproxy.settings import Settings
from feedproxy.store.interface import Store
from feedproxy.store.resource import Ending, Failures, Resource
from feedproxy.subscribers.counts import SubscriberCounts
from feedproxy.subscribers.pseudonyms import Identifier

__all__ = ["PassThrough", "ProxyResponse", "Service"]

DEAD_TARGETS_MAX = 1024
"""Addresses without a feed that are remembered for moves that lead there; the oldest is forgotten first."""


class Service:
    """The shared cache as one object: it is given its clock, store and client, and owns its tasks."""

    def __init__(
        self,
        *,
        settings_for: Callable[[str], Settings],
        store: Store,
        fetcher: OriginClient,
        clock: Clock,
        counts: SubscriberCounts,
        identifier: Identifier,
        pseudonym: str,
        version: str,
        observer: RefreshObserver,
        key_for: Callable[[str, str], str] = lambda target, _: target,
        peers: PeerCopies | None = None,
        ownership: FeedOwnership | None = None,
        demand: Demand | None = None,
        limits: MemoryLimits | None = None,
    ) -> None:
        limits = limits or Settings().memory
        self.store = store
        self._settings_for = settings_for
        self._clock = clock
        self._peers = peers or NoPeers()
        self._lookup = ResourceLookup(store, clock)
        self._key_for = key_for
        self.counts = counts
        self.pseudonym = pseudonym
        self.via = f"1.1 {pseudonym}"
        self.audience = ReaderTracker(
            counts=counts,
            identifier=identifier,
            clock=clock,
            settings_for=settings_for,
            installation=pseudonym,
            version=version,
        )
        self._local = LocalResponses(clock, self.via, settings_for)
        dispatch = RefreshCoordinator(
            settings_for=settings_for,
            store=store,
            fetcher=fetcher,
            clock=clock,
            observer=observer,
            via=self.via,
            agent=self.audience.upstream_user_agent,
        )
        self._dispatch = dispatch
        self.listeners = dispatch.listeners
        self.on_outdated = dispatch.on_outdated
        self.landings = dispatch.landings
        self.worker_pool = dispatch.worker_pool
        self._codings = CodingVariants(store, dispatch.worker_pool)
        self._dead_targets: OrderedDict[str, Resource] = OrderedDict()
        self._deltas = Deltas(dispatch.worker_pool, limits)
        self._conversions = ConversionCache(dispatch.worker_pool, limits)
        self.conversions = Conversions(self.as_it_is, self._conversions, settings_for, clock)
        self._autodiscovery = Autodiscovery(dispatch.worker_pool, limits)
        self.admin = CacheAdmin(
            settings_for=settings_for,
            store=store,
            lookup=self._lookup,
            clock=clock,
            dispatch=dispatch,
            autodiscovery=self._autodiscovery,
            counts=counts,
            observer=observer,
            peers=self._peers,
            ownership=ownership or OwnsAll(),
            demand=demand or NoDemand(),
        )
        DECODED_BODIES.resize(limits.decoded)

    # -- readers

    async def answer(self, request: Request, visit: ClientContext) -> ProxyResponse | PassThrough:
        """Answer a reader's GET or HEAD. A failure is an answer, too: FeedproxyError never leaves this call."""
        if "accept" in request.fields and self._settings_for(request.target).negotiate:
            answer = await self.conversions.by_accept(request, visit, self._media_type(request.target))
        else:
            answer = await self.as_it_is(request, visit)
        return await self._autodiscovery.instead_of(answer, request, visit, self._settings_for(request.target))

    async def as_it_is(self, request: Request, visit: ClientContext) -> ProxyResponse | PassThrough:
        """The same, in the format that the origin gave."""
        target = request.target
        request = self._with_key(request, visit)
        try:
            answer = await self._answer(request, visit)
        except FeedproxyError as error:
            answer = self._local.error_response(replace(request, target=target), visit, error)
        if isinstance(answer, ProxyResponse):
            answer = await self._codings.instead_of(answer, request, self._settings_for(request.target))
            answer = await self._shortened(answer, request)
            settings = self._settings_for(target)
            fields = apply_entrance_rules(answer.response.fields, visit, target=target, upstream=settings.upstream)
            if settings.readers or visit.user:
                fields = make_private(fields)
            if fields is not answer.response.fields:
                answer = replace(answer, response=answer.response.with_fields(fields))
        return answer

    def _media_type(self, target: str) -> str | None:
        """That of the feed, where one is stored."""
        resource = self.store.get(target)
        feeds = (each for each in resource.variants if each.content.feed) if resource is not None else ()
        return next((each.content.media_type or each.fields.get("content-type") for each in feeds), None)

    def _with_key(self, request: Request, visit: ClientContext) -> Request:
        """The request for this reader's copy: what a credential of the wallet brings is a resource apart."""
        key = self._key_for(request.target, visit.user)
        if key == request.target:
            return request
        return replace(request, target=key, fields=request.fields.without("authorization", "cookie"))

    async def _shortened(self, answer: ProxyResponse, request: Request) -> ProxyResponse:
        """The answer, or instead of it what is new to a reader that asked for no more."""
        if answer.stored is None or "a-im" not in request.fields:
            return answer
        resource, settings = self.store.get(request.target), self._settings_for(request.target)
        response = await self._deltas.instead_of(answer.response, answer.stored, request, resource, settings)
        return replace(answer, response=response)

    async def _answer(
        self, request: Request, visit: ClientContext, *, looked: bool = False, again: bool = False
    ) -> ProxyResponse | PassThrough:
        if is_loop(request.fields, self.pseudonym):
            raise LoopDetected("this request has passed this proxy already")
        now = self._clock.now()
        resource = self._lookup.get(request.target)
        ask = self._ask(request, visit, resource)
        if ending := self._ending(ask, resource, now):
            return ending
        in_doubt = self._in_doubt(ask, resource)
        if resource is not None and is_oversized(resource, now):
            return PassThrough(CacheStatus(fwd=Fwd.BYPASS, detail=Detail.OVERSIZED))
        ask = replace(ask, directives=apply_reload_policy(ask.directives, request.fields, resource, ask.settings, now))
        if in_doubt:
            ask = replace(ask, directives=replace(ask.directives, no_cache=True))
        variant, freshness = self._select(ask, resource, now)
        if variant is None and (piece := range_requests.serve_from_part(ask, resource, now)) is not None:
            return self._hit(ask, *piece, None)
        if variant is None or variant.content.feed:
            # HEAD says what GET would, own tags and all, and only what is fetched can be read (and renewed).
            upstream = ask.upstream_request
            ask = ask if upstream.method == "GET" else replace(ask, upstream_request=replace(upstream, method="GET"))
        decision = reuse.decide(
            variant,
            ask.directives,
            freshness,
            now,
            known_uri=bool(resource and resource.variants),
            stale_limit=ask.settings.stale_max,
            meanwhile=self._meanwhile(ask, variant, freshness),
        )
        match decision:
            case Reuse(stored, how_fresh, detail):
                return self._hit(ask, stored, how_fresh, detail)
            case ReuseAndRevalidate(stored, how_fresh, detail):
                permission = self._dispatch.check_fetch_allowed(resource, request.target, ask.settings)
                rests = now < rests_until(resource, stored, how_fresh, ask.settings)
                if isinstance(permission, throttle.Allowed) and not stored.authorized and not rests:
                    self._dispatch.start_refresh(request.target)
                return self._hit(ask, stored, how_fresh, detail)
            case Unsatisfiable(words):
                status = CacheStatus(detail=Detail.ONLY_IF_CACHED)
                return self._local.problem_response(request, visit, 504, Detail.ONLY_IF_CACHED, words, status)
            case Validate() | Forward() if not looked and await self._peers.sync(request.target):
                return await self._answer(request, visit, looked=True)  # another machine has something newer
            case Validate(stored, fwd):
                return await self._forward(ask, resource, stored, freshness, fwd, again=again)
            case Forward(fwd, _, selected):
                return await self._forward(ask, resource, selected, freshness, fwd, again=again)
            case _:
                assert_never(decision)

    def _meanwhile(self, ask: RequestContext, variant: StoredResponse | None, freshness: Freshness | None) -> Seconds:
        """For how long a stale copy answers while it is refreshed: a feed's, and not where the copy itself is bad."""
        if variant is None or not variant.content.feed or (freshness is not None and freshness.limit is not None):
            return 0
        return ask.settings.stale_while_refreshing

    def _ask(self, request: Request, visit: ClientContext, resource: Resource | None) -> RequestContext:
        settings = self._settings_for(request.target)
        known = resource is not None and resource.channel is not None
        is_new = resource is None or not resource.variants
        own_agent = known or visit.entrance is not Entrance.PROXY
        newcomer = None
        if known or (own_agent and is_new and self.counts.knows(request.target)):
            self._count(request, visit)
        elif own_agent and is_new and visit.is_counted:
            # He is told of, but counted only once it has turned out to be a feed (`_landed`): made-up addresses
            # take no place from feeds. What is known for no feed has no subscribers.
            newcomer = request.fields.get("user-agent") or ""
        keep_range = request.method == "GET" and "range" in request.fields and is_new and not known
        out = build_upstream_request(
            request,
            visit,
            resource,
            via=self.via,
            own_agent=(lambda: self.audience.upstream_user_agent(request.target, newcomer)) if own_agent else None,
            keep_range=keep_range,
            shared_fields=shared_names(settings.shared_fields),
        )
        return RequestContext(
            request,
            visit,
            settings,
            CacheControl.from_request(request.fields),
            out.request,
            own_agent,
            key=out.key,
            varying_fields=out.varying_fields,
            withheld_names=out.withheld_names,
            has_credentials=out.has_credentials,
            sends_range=keep_range,
        )

    def _count(self, request: Request, visit: ClientContext) -> None:
        if visit.is_counted:
            self.audience.record_read(request.target, visit, request.fields.get("user-agent") or "")

    def _select(
        self, ask: RequestContext, resource: Resource | None, now: Instant
    ) -> tuple[StoredResponse | None, Freshness | None]:
        if resource is None:
            return None, None
        variant = personal_responses.choose(
            resource, ask.upstream_request.fields, ask.key, own_agent=ask.own_agent, credentials=ask.has_credentials
        )
        if variant is None:
            return None, None
        return variant, assess(resource, variant, ask.settings, now)

    async def _forward(
        self,
        ask: RequestContext,
        resource: Resource | None,
        variant: StoredResponse | None,
        freshness: Freshness | None,
        fwd: Fwd,
        *,
        again: bool,
    ) -> ProxyResponse | PassThrough:
        now = self._clock.now()
        match self._dispatch.check_request_allowed(ask, resource):
            case throttle.Deferred() if self._dispatch.can_join(ask):
                pass  # it is this very update that the floor and the spacing speak of
            case throttle.Deferred(until, detail, words):
                if ending := self._ending(ask, resource, now, CacheStatus()):
                    return ending  # due for another look, which nobody may take now
                if resource and variant and freshness and self._may_stand_in(ask, resource, variant, freshness):
                    return self._hit(ask, variant, freshness, None if freshness.fresh(now) else detail, words)
                if ending := self._ending(ask, resource, now, CacheStatus(), at_last=True):
                    return ending
                is_worth_a_try = detail is Detail.BACK_OFF and throttle.is_past_min_interval(
                    resource, now, ask.settings
                )
                if detail in (Detail.RETRY_AFTER, Detail.BACK_OFF) and not is_worth_a_try:
                    return self._local.service_unavailable(ask.request, ask.client, until, detail, words)
                # With no copy to stand in, a request is worth one try in a floor's time: the origin may be back.
                # Neither the floor nor the spacing may keep from readers what HTTP wants them to get from the
                # origin (docs/decisions/what-the-floor-binds.md).
            case throttle.Allowed():
                pass
        landed, collapsed = await self._dispatch.refresh_for_request(ask, resource, variant)
        if landed is None:
            if variant and freshness and self._allowed(ask, variant, freshness, Occasion.DISCONNECTED):
                return self._hit(ask, variant, freshness, Detail.TIMEOUT, "the origin takes too long")
            raise FetchTimeout("the origin takes too long")
        self._dispatch.refresh_shared_copy(ask, landed)
        told_apart = nominated(landed.response.fields) if landed.response is not None and landed.stored else ()
        if not again and not ask.withheld_names.isdisjoint(told_apart):
            # The origin tells apart what the request for all lacked: this client is to have what it asked for.
            return await self._answer(ask.request, ask.client, looked=True, again=True)
        return self._landed(ask, landed, fwd, collapsed=collapsed)

    # -- what is made of what the origin said

    def _landed(
        self, ask: RequestContext, landed: RefreshResult, fwd: Fwd, *, collapsed: bool
    ) -> ProxyResponse | PassThrough:
        now = self._clock.now()
        self._record_dead_target(landed)
        fwd = Fwd.PARTIAL if landed.from_partial else fwd
        status = CacheStatus(fwd=fwd, fwd_status=landed.fwd_status, stored=landed.stored, collapsed=collapsed)
        if isinstance(landed.error, Forbidden):
            status = CacheStatus()  # by our own veto nothing went to the origin
        told = landed.response is not None and landed.response.status == 410  # in the origin's own words
        if not told and (ending := self._ending(ask, landed.resource, now, status)):
            return ending
        if landed.oversized:
            return PassThrough(replace(status, detail=Detail.OVERSIZED))
        if standing_in := self._standing_in(ask, landed, status, now):
            return standing_in
        if not told and (ending := self._ending(ask, landed.resource, now, status, at_last=True)):
            return ending
        if landed.response is None:
            return self._local.error_response(
                ask.request, ask.client, landed.error or FetchError(landed.reason), status
            )
        if landed.response.status == 429:
            # DESIGN, 11: a reader never sees the origin's 429, that was for us.
            until = max(landed.resource.failures.next_try, now + ask.settings.feed_min_interval)
            words = "The origin has had too many requests."
            return self._local.service_unavailable(ask.request, ask.client, until, Detail.RATE_LIMITED, words, status)
        if landed.response.content.feed:
            self._count(ask.request, ask.client)  # perhaps it was not known for a feed before; nobody counts twice
        freshness = assess(landed.resource, landed.response, ask.settings, now)
        ttl = int(freshness.ttl) if landed.stored else None
        detail: str | None = landed.detail
        if detail is None and landed.stored and freshness.limit is not None:
            detail = freshness.limit.detail
        words = landed.reason if landed.detail is not None else freshness.reason
        if landed.detail is None and landed.not_stored_reason:
            words = f"not stored: {landed.not_stored_reason}"
        answer = self._made(ask, landed.response, freshness, replace(status, ttl=ttl, detail=detail), words)
        if collapsed:
            return answer
        # A cookie is for the one whose request brought it, and for nobody after; so are responses on the way.
        shared = answer.response.fields
        if not len(landed.unshared_fields) and not landed.interim:
            return answer
        fields = Fields((*shared, *(line for line in landed.unshared_fields if line[0] not in shared)))
        return replace(answer, response=answer.response.with_fields(fields), interim=landed.interim)

    def _standing_in(
        self, ask: RequestContext, landed: RefreshResult, status: CacheStatus, now: Instant
    ) -> ProxyResponse | None:
        """The copy, where it may stand in for what came; None where what came is the answer."""
        failed = landed.error is not None or (landed.response is not None and landed.response.status >= 500)
        if landed.stored or (landed.fallback is None and not failed):
            return None  # an error that the origin wants kept stands in for nothing: it is what was fetched
        variant, freshness = self._select(ask, landed.resource, now)
        if variant is None or freshness is None or (landed.fallback is not None and now >= landed.fallback.until):
            return None
        occasion = Occasion.ERROR
        if landed.fwd_status is None:
            occasion = Occasion.DISCONNECTED
        elif landed.fwd_status < 500:
            occasion = Occasion.REFUSED
        if not self._allowed(ask, variant, freshness, occasion):
            return None
        detail = landed.detail or (landed.error.detail if landed.error is not None else Detail.STALE_IF_ERROR)
        hit = status.fwd is None
        status = replace(status, hit=hit, stored=False, ttl=int(freshness.ttl), detail=detail)
        return self._made(ask, variant, freshness, status, landed.reason)

    def _hit(
        self, ask: RequestContext, stored: StoredResponse, freshness: Freshness, detail: str | None, words: str = ""
    ) -> ProxyResponse:
        status = CacheStatus(hit=True, ttl=int(freshness.ttl), detail=detail)
        return self._made(ask, stored, freshness, status, words or freshness.words)

    def _made(
        self, ask: RequestContext, stored: StoredResponse, freshness: Freshness, status: CacheStatus, words: str
    ) -> ProxyResponse:
        settings = ask.settings
        states = settings.state_freshness and ask.client.entrance is Entrance.REVERSE
        dated = "if-modified-since" in ask.request.fields
        others = earlier_versions_interval(self.store.get(ask.request.target), stored.content) if dated else None
        response = build_response(
            stored,
            ask.request,
            freshness,
            status,
            via=self.via,
            now=self._clock.now(),
            decoded_max=settings.decoded_max,
            state_freshness=states,
            surrogate_key=surrogate_key(stored.target) if states else None,
            others=others,
        )
        return ProxyResponse(response, status, words, feed=stored.content.feed, stored=stored)

    def _ending(
        self,
        ask: RequestContext,
        resource: Resource | None,
        now: Instant,
        landed: CacheStatus | None = None,
        *,
        at_last: bool = False,
    ) -> ProxyResponse | None:
        """301 or 410 where the address has moved or ended; None where the feed itself is to be served.

        Before the origin was asked (`landed` is None) a remembered one that is due for another look is no answer yet.
        One that is in doubt is an answer only `at_last`, where not even a copy can be served.
        """
        sighting = resource.sighting if resource is not None else None
        # No stored response answers, and nothing was asked: RFC 9211, section 2, has no word for what is ours.
        status = landed or CacheStatus()
        if not at_last and self._in_doubt(ask, resource):
            return None
        match relocation.active_relocation(sighting, now, ask.settings, target=ask.request.target):
            case relocation.RespondMoved(location, recheck) if landed or not recheck:
                return self._local.relocation_response(ask, location, replace(status, detail=Detail.MOVED))
            case relocation.RespondGone(recheck) if landed or not recheck:
                return self._local.gone_response(ask, replace(status, detail=Detail.GONE), believed=not recheck)
        return None

    def _in_doubt(self, ask: RequestContext, resource: Resource | None) -> bool:
        """Whether the feed's believed move leads to an address that has been seen to lead nowhere."""
        sighting = resource.sighting if resource is not None else None
        if sighting is None or sighting.ending is not Ending.MOVED:
            return False
        there = self.store.get(sighting.location) or self._dead_targets.get(sighting.location)
        return relocation.is_in_doubt(sighting, there, ask.settings)

    def _record_dead_target(self, landed: RefreshResult) -> None:
        """Remember that an address of which nothing is stored leads nowhere: a move there is in doubt."""
        resource, answer = landed.resource, landed.response
        if resource.channel is None and answer is not None and answer.status in relocation.DOUBTFUL_STATUSES:
            self._dead_targets[resource.target] = Resource(resource.target, failures=Failures(1, detail=Detail.REFUSED))
            if len(self._dead_targets) > DEAD_TARGETS_MAX:
                self._dead_targets.popitem(last=False)
        elif len(self._dead_targets):
            self._dead_targets.pop(resource.target, None)

    def _allowed(self, ask: RequestContext, stored: StoredResponse, freshness: Freshness, occasion: Occasion) -> bool:
        # What is no feed is used stale only where HTTP has it so: "A cache MUST NOT generate a stale response unless it
        # is disconnected or doing so is explicitly permitted" (RFC 9111, 4.2.4).
        patient = stored.content.feed or occasion is Occasion.DISCONNECTED
        limit = ask.settings.stale_max if patient else 0
        return serving_stale.allowed(
            stored, freshness, self._clock.now(), occasion=occasion, request=ask.directives, limit=limit
        )

    def _may_stand_in(
        self, ask: RequestContext, resource: Resource, stored: StoredResponse, freshness: Freshness
    ) -> bool:
        """May the copy answer while the origin is left in peace? As for an origin that fails."""
        if self._clock.now() >= content_guard.last_validated(resource) + content_guard.stale_limit_after_failure(
            resource.failures, ask.settings
        ):
            return False
        return self._allowed(ask, stored, freshness, Occasion.ERROR)

    async def close(self, timeout: Seconds) -> None:
        """Let what is under way land, `timeout` seconds at most, and end."""
        until = asyncio.get_running_loop().time() + timeout
        await self.admin.agenda.close()
        for part in (self._codings, self._deltas, self._conversions, self._dispatch):
            await part.close(max(0.0, until - asyncio.get_running_loop().time()))
