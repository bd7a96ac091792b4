"""The shared cache as one object. All entrances call `Service.answer`."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from feedproxy.access.origin_credentials import OriginCredentials
from feedproxy.clock import Clock, Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Request
from feedproxy.memory_max_shares import MemoryLimits
from feedproxy.proxy.cache_admin import CacheAdmin
from feedproxy.proxy.context_builder import ContextBuilder
from feedproxy.proxy.cors import with_cors_for_failure
from feedproxy.proxy.equivalent_targets import EquivalentTargets, with_ignored_query
from feedproxy.proxy.error_responses import ErrorResponses
from feedproxy.proxy.moved_and_gone_responses import RelocationResponses
from feedproxy.proxy.page_to_feed_redirect import Autodiscovery
from feedproxy.proxy.peer_copies import NoPeers, PeerCopies
from feedproxy.proxy.representations.coding_variants import CodingVariants
from feedproxy.proxy.representations.conversion_cache import ConversionCache
from feedproxy.proxy.representations.conversions import Conversions
from feedproxy.proxy.representations.dcz_to_clients import Dictionaries
from feedproxy.proxy.representations.decoded_bodies import DECODED_BODIES
from feedproxy.proxy.representations.delta_responses import Deltas
from feedproxy.proxy.representations.representation_choice import Renderer, Representation
from feedproxy.proxy.resource_lookup import ResourceLookup
from feedproxy.proxy.response_selection import ResponseSelector
from feedproxy.proxy.scheduled_refreshes import CountDemand, ScheduledRefreshes
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.reader_tracking import ReaderTracker
from feedproxy.refresh.redirect_following import OriginClient
from feedproxy.refresh.refresh_coordinator import RefreshCoordinator
from feedproxy.refresh.refresh_events import Events
from feedproxy.request.context import ClientContext, PassThrough, ProxyResponse
from feedproxy.settings import Settings
from feedproxy.store.interface import Store

__all__ = ["PassThrough", "ProxyResponse", "Service"]


class Service:
    """The shared cache."""

    def __init__(
        self,
        *,
        settings_for: Callable[[str], Settings],
        store: Store,
        fetcher: OriginClient,
        clock: Clock,
        audience: ReaderTracker,
        events: Events,
        credentials: OriginCredentials | None = None,
        peers: PeerCopies | None = None,
        owns: Callable[[str], bool] | None = None,
        count_demand: CountDemand = lambda *_: 0,
        limits: MemoryLimits | None = None,
        helper_pool: HelperPool | None = None,
    ) -> None:
        limits = limits or Settings().memory
        credentials = credentials or OriginCredentials("", clock, b"")
        helper_pool = helper_pool or HelperPool()
        self.store = store
        self._settings_for = settings_for
        self._clock = clock
        self._with_cache_key = credentials.with_cache_key
        self.audience, self.counts = audience, audience.counts
        self.pseudonym = audience.installation
        self.via = f"1.1 {self.pseudonym}"
        self.events = events
        self._errors = ErrorResponses(clock, self.via, settings_for)
        coordinator = RefreshCoordinator(
            settings_for=settings_for,
            store=store,
            fetcher=fetcher,
            clock=clock,
            events=events,
            via=self.via,
            readers=audience,
            helper_pool=helper_pool,
        )
        self._coordinator = coordinator
        self.helper_pool = helper_pool
        lookup, peers = ResourceLookup(store, clock), peers or NoPeers()
        self._equivalents = EquivalentTargets(store, clock, settings_for)
        self._codings = CodingVariants(store, helper_pool)
        self._deltas = Deltas(helper_pool, limits)
        self._dictionaries = Dictionaries(helper_pool, limits)
        self._conversion_cache = ConversionCache(helper_pool, limits)
        self.conversions = Conversions(self.answer_original, self._conversion_cache, settings_for, clock)
        self._autodiscovery = Autodiscovery(helper_pool, limits, events)
        self._renderer = Renderer(
            codings=self._codings,
            deltas=self._deltas,
            dictionaries=self._dictionaries,
            conversions=self.conversions,
            clock=clock,
            via=self.via,
        )
        self._selector = ResponseSelector(
            contexts=ContextBuilder(lookup, audience),
            coordinator=coordinator,
            errors=self._errors,
            relocations=RelocationResponses(store, self._errors),
            peers=peers,
            store=store,
            clock=clock,
        )
        self.schedule = ScheduledRefreshes(
            settings_for=settings_for,
            store=store,
            lookup=lookup,
            clock=clock,
            coordinator=coordinator,
            counts=self.counts,
            events=events,
            peers=peers,
            owns=owns or (lambda _: True),
            count_demand=count_demand,
        )
        self.admin = CacheAdmin(
            settings_for=settings_for,
            store=store,
            lookup=lookup,
            clock=clock,
            coordinator=coordinator,
            autodiscovery=self._autodiscovery,
            peers=peers,
            schedule=self.schedule,
            equivalents=self._equivalents,
            keys_for=credentials.keys_for,
        )
        DECODED_BODIES.resize(limits.decoded)

    async def answer(self, request: Request, client: ClientContext) -> ProxyResponse | PassThrough:
        """Return the response to a GET or HEAD, or the decision to stream the request. Errors become responses."""
        await self._equivalents.load(request.target)
        request = self.resolve_target(request)
        settings = self._settings_for(request.target)
        representation = self._renderer.choose(request, settings, lambda: self._stored_media_type(request.target))
        response = await self._respond(request, client, settings, representation)
        self._equivalents.record(response)
        response = with_ignored_query(response, settings)
        return await self._autodiscovery.redirect_to_feed(response, request, client, settings)

    def resolve_target(self, request: Request) -> Request:
        """Return the request with the target under which its response is stored (equivalent_targets.py)."""
        return self._equivalents.resolve(request)

    async def answer_original(self, request: Request, client: ClientContext) -> ProxyResponse | PassThrough:
        """Return the response to a GET or HEAD in the origin's format, which will be converted. Errors become
        responses. A move or end is announced by 301 or 410: a redirect document would name the unconverted feed."""
        await self._equivalents.load(request.target)
        request = self.resolve_target(request)
        settings = self._settings_for(request.target)
        if settings.announce_as != "http":
            settings = replace(settings, announce_as="http")
        return await self._respond(request, client, settings, Representation.ORIGINAL)

    async def _respond(
        self, request: Request, client: ClientContext, settings: Settings, representation: Representation
    ) -> ProxyResponse | PassThrough:
        try:
            selected = await self._selector.select(self._with_cache_key(request, client.user), client, settings)
        except FeedproxyError as error:
            selected = self._errors.error_response(request, client, error)
        if isinstance(selected, PassThrough):
            return selected
        response = await self._renderer.render(selected, representation, request, client, settings)
        return with_cors_for_failure(response, request, client, settings, self.admin.is_feed)

    def _stored_media_type(self, target: str) -> str | None:
        resource = self.store.get(target)
        feeds = (variant for variant in resource.variants if variant.content.feed) if resource is not None else ()
        return next((feed.content.media_type or feed.fields.get("content-type") for feed in feeds), None)

    async def close(self, timeout: Seconds) -> None:
        """Wait up to `timeout` seconds for work in progress, cancel the rest, and close all parts."""
        until = asyncio.get_running_loop().time() + timeout
        await self.schedule.scheduler.close()
        bodies, feeds = (self._deltas.bodies, self._dictionaries.bodies), self._autodiscovery.feeds
        derived = (self._codings, *bodies, self._conversion_cache, feeds)
        for drain in (*(part.in_progress.drain for part in derived), self._coordinator.close):
            await drain(max(0.0, until - asyncio.get_running_loop().time()))
