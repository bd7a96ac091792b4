"""Selection of the response to a request: lookup, decision (cache/reuse_decision.py), and a refresh if necessary."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.cache import reuse_decision, serving_stale
from feedproxy.cache.cache_status import CacheStatus, Detail, Fwd
from feedproxy.cache.freshness import Freshness
from feedproxy.cache.reuse_decision import Forward, NotInCache, Reuse, ReuseAndRevalidate, Validate
from feedproxy.cache.serving_stale import Occasion
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import Forbidden
from feedproxy.http.message import NO_FIELDS, Fields, Request, Response
from feedproxy.http.retry_after_and_rate_limit import retry_after
from feedproxy.proxy.context_builder import ContextBuilder
from feedproxy.proxy.error_responses import ErrorResponses
from feedproxy.proxy.moved_and_gone_responses import RelocationResponses
from feedproxy.proxy.peer_copies import PeerCopies
from feedproxy.refresh import client_keyed_responses, missing_ranges
from feedproxy.refresh.policy import stale_max_after_failure
from feedproxy.refresh.policy.freshness_by_hints_and_history import assess
from feedproxy.refresh.policy.min_interval_and_back_off import Deferred
from feedproxy.refresh.policy.paused_and_blocked import PAUSED_RETRY
from feedproxy.refresh.policy.stale_while_refreshing import rests_until, stale_while_refreshing
from feedproxy.refresh.refresh_coordinator import RefreshCoordinator
from feedproxy.refresh.refresh_result import RefreshResult
from feedproxy.request.context import ClientContext, PassThrough, ProxyResponse, RequestContext
from feedproxy.request.reload_policy import apply_reload_policy
from feedproxy.settings import Settings
from feedproxy.store.interface import Store
from feedproxy.store.resource import Resource
from feedproxy.upstream.upstream_errors import FetchError, FetchTimeout

OVERSIZED_RECHECK_INTERVAL: Seconds = 86_400
"""The size of content above `buffer_max` is checked again after this many seconds. Until then, the content is streamed.
"""


class SelectedResponse(Struct, frozen=True):
    """A stored or fetched response that answers a request, with its freshness and Cache-Status.

    `resource` is the stored resource of the target. `unshared_fields` and `interim` are only for the client that caused
    the request to the origin.
    """

    context: RequestContext
    stored: StoredResponse
    freshness: Freshness
    status: CacheStatus
    reason: str
    resource: Resource | None
    unshared_fields: Fields = NO_FIELDS
    interim: tuple[Response, ...] = ()


type Selection = SelectedResponse | ProxyResponse | PassThrough
"""A response to render, a response that the proxy generated, or the decision to stream the request."""


@dataclass(eq=False)
class ResponseSelector:
    """Selector of the response to each request."""

    contexts: ContextBuilder
    coordinator: RefreshCoordinator
    errors: ErrorResponses
    relocations: RelocationResponses
    peers: PeerCopies
    store: Store
    clock: Clock

    async def select(
        self,
        request: Request,
        client: ClientContext,
        settings: Settings,
        *,
        is_synced: bool = False,
        is_retry: bool = False,
    ) -> Selection:
        """Return the response to a GET or HEAD. Raises FeedproxyError if the origin cannot be reached and no stored
        response may answer.

        `is_synced` is true if newer copies of the other machines of a fleet were already fetched. `is_retry` is true
        for a second request to the origin, after the first response varied by a field that the first request lacked.
        """
        await self.store.load(request.target)
        context = self.contexts.build(request, client, settings)
        if context.resource is not None and context.resource.relocation is not None:
            await self.store.load(context.resource.relocation.location)
        resource, now = context.resource, self.clock.now()
        if response := self.relocations.announce(context, resource, now, None):
            return response
        if resource is not None and _is_known_oversized(resource, now):
            return PassThrough(CacheStatus(fwd=Fwd.BYPASS, detail=Detail.OVERSIZED))
        context, has_credentials = self._with_effective_directives(context, now), context.upstream.has_credentials
        variant, freshness = self._select_variant(context, resource, now)
        if variant is None and (part := missing_ranges.serve_from_part(context, resource, now)) is not None:
            return self._hit(context, *part, None)
        if variant is None or variant.content.feed:
            context = _with_get(context)
        decision = reuse_decision.decide(
            variant,
            context.directives,
            freshness,
            now,
            known_uri=bool(resource and resource.variants),
            stale_limit=settings.stale_max,
            stale_while_refreshing=_stale_while_refreshing(context, variant, freshness, now),
        )
        match decision:
            case Reuse(stored, stored_freshness, detail):
                return self._hit(context, stored, stored_freshness, detail)
            case ReuseAndRevalidate(stored) if stored.authorized or (has_credentials and len(stored.key)):
                # Only a request of the client itself can refresh this response.
                return await self._validate_or_fetch(context, stored, freshness, Fwd.STALE, is_retry=is_retry)
            case ReuseAndRevalidate(stored, stored_freshness):
                return self._hit_and_refresh(context, stored, stored_freshness, now)
            case NotInCache(reason):
                status = CacheStatus(detail=Detail.ONLY_IF_CACHED)
                return self.errors.problem_response(request, client, 504, Detail.ONLY_IF_CACHED, reason, status)
            case Validate(stored, fwd) | Forward(fwd, _, stored):
                if not is_synced and await self.peers.sync(request.target):
                    # A peer had a newer copy: decide again with it.
                    return await self.select(request, client, settings, is_synced=True)
                return await self._validate_or_fetch(context, stored, freshness, fwd, is_retry=is_retry)
            case _:
                assert_never(decision)

    def _with_effective_directives(self, context: RequestContext, now: Instant) -> RequestContext:
        directives = apply_reload_policy(
            context.directives, context.request.fields, context.resource, context.settings, now
        )
        if self.relocations.is_in_doubt(context, context.resource):
            directives = replace(directives, no_cache=True)
        return context if directives is context.directives else replace(context, directives=directives)

    def _select_variant(
        self, context: RequestContext, resource: Resource | None, now: Instant
    ) -> tuple[StoredResponse | None, Freshness | None]:
        if resource is None:
            return None, None
        variant = client_keyed_responses.choose(resource, context.upstream)
        if variant is None:
            return None, None
        return variant, assess(resource, variant, context.settings, now)

    # -- one method for each decision

    def _hit(
        self,
        context: RequestContext,
        stored: StoredResponse,
        freshness: Freshness,
        detail: str | None,
        reason: str = "",
    ) -> SelectedResponse:
        status = CacheStatus(hit=True, ttl=int(freshness.ttl), detail=detail)
        return SelectedResponse(context, stored, freshness, status, reason or freshness.description, context.resource)

    def _hit_and_refresh(
        self, context: RequestContext, stored: StoredResponse, freshness: Freshness, now: Instant
    ) -> SelectedResponse:
        def is_resting() -> bool:
            return now < rests_until(self.store.get(context.request.target), stored, freshness, context.settings)

        if not is_resting():
            self._refresh_stale(context, stored, is_resting)
        return self._hit(context, stored, freshness, Detail.STALE_WHILE_REVALIDATE)

    def _refresh_stale(self, context: RequestContext, stored: StoredResponse, is_resting: Callable[[], bool]) -> None:
        target = context.request.target
        permission = self.coordinator.permissions.check(context.resource, target, context.settings)
        if isinstance(permission, Deferred):
            self._refresh_later(permission, context, stored)
        elif _is_of_some_clients(context, stored) and not context.upstream.has_credentials:
            self.coordinator.refresh_variant(_with_get(context), stored)
        else:
            self.coordinator.refresh_stale(target, is_resting)

    def _refresh_later(self, deferred: Deferred, context: RequestContext, stored: StoredResponse) -> None:
        """If only `site_interval` defers the refresh of a stale shared copy, refresh the copy when its site is free."""
        if deferred.detail is Detail.SITE_INTERVAL and not _is_of_some_clients(context, stored):
            self.coordinator.refresh_when_site_is_free(context.request.target)

    async def _validate_or_fetch(
        self,
        context: RequestContext,
        variant: StoredResponse | None,
        freshness: Freshness | None,
        fwd: Fwd,
        *,
        is_retry: bool,
    ) -> Selection:
        if response := self._without_fetch(context, variant, freshness):
            return response
        result, is_collapsed = await self.coordinator.refresh_for_request(context, context.resource, variant)
        await self.store.load(context.request.target)
        if isinstance(result, Deferred):
            return await self.select(
                context.request, context.client, context.settings, is_synced=True, is_retry=is_retry
            )
        if result is None:
            if variant and freshness and self._may_serve_stale(context, variant, freshness, Occasion.DISCONNECTED):
                context = replace(context, resource=self.store.get(context.request.target))
                return self._hit(context, variant, freshness, Detail.TIMEOUT, "the origin takes too long")
            raise FetchTimeout("the origin takes too long")
        self.coordinator.refresh_shared_copy(context, result)
        unstored_names = client_keyed_responses.unstored_varying_names(result)
        if not is_retry and client_keyed_responses.needs_second_fetch(context, result, unstored_names):
            if unstored_names:
                self.contexts.remember_unstored_names(context.request.target, unstored_names)
            return await self.select(context.request, context.client, context.settings, is_synced=True, is_retry=True)
        return self._after_refresh(context, result, fwd, is_collapsed=is_collapsed)

    def _without_fetch(
        self, context: RequestContext, variant: StoredResponse | None, freshness: Freshness | None
    ) -> SelectedResponse | ProxyResponse | None:
        """Return the response to send if the origin must not be asked now. Return None if the origin may be asked, or
        if a refresh is running that this request can join.

        If no stored response is usable, the origin may be asked in spite of a minimum interval, and during a back-off
        once in each minimum interval. For a paused feed, the origin is not asked.
        """
        resource, now = context.resource, self.clock.now()
        match self.coordinator.permissions.check_for_request(context, resource):
            case Deferred() if self.coordinator.can_join(context):
                return None  # the throttle already counts the refresh in progress, and this request can join it
            case Deferred(until, detail, reason) as deferred:
                if response := self.relocations.announce(context, resource, now, CacheStatus()):
                    return response
                if resource and variant and freshness and self._may_spare_origin(context, resource, variant, freshness):
                    if freshness.is_fresh(now):
                        return self._hit(context, variant, freshness, None, reason)
                    self._refresh_later(deferred, context, variant)
                    return self._hit(context, variant, freshness, detail, reason)
                if response := self.relocations.announce(context, resource, now, CacheStatus(), allow_doubt=True):
                    return response
                if detail is Detail.PAUSED:
                    tomorrow = now + PAUSED_RETRY
                    return self.errors.service_unavailable(context.request, context.client, tomorrow, detail, reason)
                # Without a usable copy, try one fetch per minimum interval: the origin may be available again.
                if deferred.forbids_request(now):
                    return self.errors.service_unavailable(context.request, context.client, until, detail, reason)
                # feed_min_interval and site_interval must not keep a client from getting what HTTP entitles it to
                # (docs/decisions/minimum-fetch-interval.md).
        return None

    # -- after a refresh

    def _after_refresh(
        self, context: RequestContext, result: RefreshResult, fwd: Fwd, *, is_collapsed: bool
    ) -> SelectedResponse | ProxyResponse | PassThrough:
        request, client, now = context.request, context.client, self.clock.now()
        self.relocations.record_result(result)
        fwd = Fwd.PARTIAL if result.from_partial else fwd
        status = CacheStatus(fwd=fwd, fwd_status=result.fwd_status, stored=result.stored, collapsed=is_collapsed)
        if isinstance(result.error, Forbidden):
            status = CacheStatus()  # the address policy refused the target: no request was sent to the origin
        # The origin's 410, and its response to client-specific fields, are passed on.
        is_final = result.response is not None and (result.response.status == 410 or len(result.response.key) > 0)
        if not is_final and (response := self.relocations.announce(context, result.resource, now, status)):
            return response
        if result.oversized:
            return PassThrough(replace(status, detail=Detail.OVERSIZED))
        if fallback := self._stale_fallback(context, result, status, now):
            return fallback
        if not is_final and (
            response := self.relocations.announce(context, result.resource, now, status, allow_doubt=True)
        ):
            return response
        if result.response is None:
            return self.errors.error_response(request, client, result.error or FetchError(result.reason), status)
        if result.response.status == 429:
            # A 429 limits this proxy, and is never passed on to a client.
            # The failures of a request with client-specific fields are not in the resource.
            by_origin = retry_after(result.response.fields, now) or now
            until = max(by_origin, result.resource.failures.next_try, now + context.settings.feed_min_interval)
            reason = "The origin has had too many requests."
            return self.errors.service_unavailable(request, client, until, Detail.RATE_LIMITED, reason, status)
        if result.response.content.feed:
            # Before the refresh, the target may not have been known as a feed.
            self.contexts.count_reader(request.target, request, client)
        return self._select_after_fetch(context, result, status, now)

    def _select_after_fetch(
        self, context: RequestContext, result: RefreshResult, status: CacheStatus, now: Instant
    ) -> SelectedResponse:
        assert result.response is not None
        freshness = assess(result.resource, result.response, context.settings, now)
        detail: str | None = result.detail
        if detail is None and result.stored and freshness.limit is not None:
            detail = freshness.limit.detail
        reason = result.reason if result.detail is not None else freshness.description
        if result.detail is None and result.not_stored_reason:
            reason = f"not stored: {result.not_stored_reason}"
        # Set-Cookie and 1xx responses are only for the client that caused the request.
        is_own = not status.collapsed
        return SelectedResponse(
            context,
            result.response,
            freshness,
            replace(status, ttl=int(freshness.ttl) if result.stored else None, detail=detail),
            reason,
            self.store.get(context.request.target),
            unshared_fields=result.unshared_fields if is_own else NO_FIELDS,
            interim=result.interim if is_own else (),
        )

    def _stale_fallback(
        self, context: RequestContext, result: RefreshResult, status: CacheStatus, now: Instant
    ) -> SelectedResponse | None:
        """Return the stored response to send after a refresh that failed, or that asks for the use of the stored
        response (`fallback`). Return None for any other refresh, and if no stored response may be served stale. The
        client then gets the result of the refresh."""
        has_failed = result.error is not None or (
            result.response is not None and (result.response.status >= 500 or result.response.status == 429)
        )
        if result.stored or (result.fallback is None and not has_failed):
            return None  # the client gets a stored result, even if it is a cacheable error response
        variant, freshness = self._select_variant(context, result.resource, now)
        if variant is None or freshness is None or (result.fallback is not None and now >= result.fallback.until):
            return None
        occasion = Occasion.ERROR
        if result.fwd_status is None:
            occasion = Occasion.DISCONNECTED
        elif result.fwd_status < 500:
            occasion = Occasion.REFUSED
        if not self._may_serve_stale(context, variant, freshness, occasion):
            return None
        detail = result.detail or (result.error.detail if result.error is not None else Detail.STALE_IF_ERROR)
        status = replace(status, hit=status.fwd is None, stored=False, ttl=int(freshness.ttl), detail=detail)
        resource = self.store.get(context.request.target)
        return SelectedResponse(context, variant, freshness, status, result.reason, resource)

    def _may_serve_stale(
        self, context: RequestContext, stored: StoredResponse, freshness: Freshness, occasion: Occasion
    ) -> bool:
        # "A cache MUST NOT generate a stale response unless it is disconnected or doing so is explicitly permitted"
        # (RFC 9111, section 4.2.4). The operator's stale_max is such a permission for feeds.
        is_permitted = stored.content.feed or occasion is Occasion.DISCONNECTED
        limit = context.settings.stale_max if is_permitted else 0
        return serving_stale.may_serve_stale(
            stored, freshness, self.clock.now(), occasion=occasion, request=context.directives, limit=limit
        )

    def _may_spare_origin(
        self, context: RequestContext, resource: Resource, stored: StoredResponse, freshness: Freshness
    ) -> bool:
        """Return True if `stored` may answer in place of a fetch that is not permitted now. `stored` may be as stale as
        after a failed fetch."""
        patience = stale_max_after_failure.stale_limit_after_failure(resource.failures, context.settings)
        validated = stored.response_time if len(stored.key) else stale_max_after_failure.last_validated(resource)
        if self.clock.now() >= validated + patience:
            return False
        return self._may_serve_stale(context, stored, freshness, Occasion.ERROR)


def _is_known_oversized(resource: Resource, now: Instant) -> bool:
    """Return True if the content is known to exceed `buffer_max`, and its next check is not due."""
    return resource.oversized and not resource.variants and now - resource.fetched < OVERSIZED_RECHECK_INTERVAL


def _with_get(context: RequestContext) -> RequestContext:
    """Return the context with GET as the method for the origin, because the response to a HEAD has no content to
    parse."""
    request = context.upstream.request
    if request.method == "GET":
        return context
    return replace(context, upstream=replace(context.upstream, request=replace(request, method="GET")))


def _is_of_some_clients(context: RequestContext, stored: StoredResponse) -> bool:
    """Return True if only some clients may get the stored response: those with equal client-specific fields, or with
    equal fields that Vary nominates. A page that the explicit proxy fetches with its client's User-Agent is such a
    response, too."""
    upstream = context.upstream
    return len(stored.key) > 0 or len(upstream.varying_fields) > 0 or not upstream.own_agent


def _stale_while_refreshing(
    context: RequestContext, variant: StoredResponse | None, freshness: Freshness | None, now: Instant
) -> Seconds:
    """Return the seconds beyond its lifetime for which a stale feed may answer during a refresh, or 0."""
    if variant is None or freshness is None or freshness.is_fresh(now):
        return 0
    return stale_while_refreshing(context.resource, variant, freshness, context.settings)
