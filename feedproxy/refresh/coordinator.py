"""Who wants something of an origin comes here, reader, schedule and operator alike: one flight a target.

It waits for the site's turn, joins what is under way, and knows which targets redirect in vain.
"""

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from feedproxy.cache import vary
from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.http import negotiation, uri
from feedproxy.http.memoize import memoised
from feedproxy.http.message import Fields
from feedproxy.refresh import peer_result, personal_responses, range_requests
from feedproxy.refresh.ingest.worker_pool import Workshop
from feedproxy.refresh.pipeline import Updates
from feedproxy.refresh.policy import relocation, throttle
from feedproxy.refresh.policy.feed_freshness import assess
from feedproxy.refresh.policy.push import Push
from feedproxy.refresh.redirects import Fetching
from feedproxy.refresh.resource_update import Errand
from feedproxy.refresh.result import Landed, Observer
from feedproxy.refresh.singleflight import Flights
from feedproxy.request.context import RequestContext
from feedproxy.request.upstream_request import background_request
from feedproxy.request.url_mapping import is_upstream_target, to_public
from feedproxy.rules import may_serve_under
from feedproxy.settings import Settings
from feedproxy.store.interface import Store
from feedproxy.store.resource import Failures, Resource, Sighting
from feedproxy.upstream.fair_limits import ITSELF, Asker, asking, client_of

LOOK_FIRST: Seconds = 0.002
LOOK_LAST: Seconds = 0.02
"""How often one looks whether another process's flight has landed: a look is a microsecond."""

PLAIN_MAX = 10_000
"""Targets remembered as redirecting to something that is no feed, so that these are not walked again."""

FEED_TYPES = (
    "application/rss+xml",
    "application/atom+xml",
    "application/xml",
    "text/xml",
    "application/json",
)


_SAID_ANYWAY = frozenset({"user-agent", "accept-encoding", "accept", "cache-control", "pragma", "via"})

_OF_THE_ORIGIN = frozenset({Detail.RATE_LIMITED, Detail.ERROR_STATUS, Detail.UNREACHABLE, Detail.TIMEOUT})
"""Failures that concern whoever asks."""


class Dispatch:
    """Owns the updates under way."""

    def __init__(
        self,
        *,
        settings_for: Callable[[str], Settings],
        store: Store,
        fetcher: Fetching,
        clock: Clock,
        observer: Observer,
        via: str,
        agent: Callable[[str], str],
    ) -> None:
        self._settings_for = settings_for
        self._store = store
        self._clock = clock
        self._via = via
        self._agent = agent
        self.workers = ThreadPoolExecutor(2, thread_name_prefix="feedproxy-prepare")
        self.workshop = Workshop(self.workers)
        self._updates = Updates(
            fetcher,
            store,
            clock,
            observer,
            self.workshop,
            may_lead=lambda start, end: may_serve_under(settings_for(start), settings_for(end)),
        )
        self._flights: Flights[object, Landed] = Flights()
        self._alone = itertools.count()
        self._askers: dict[asyncio.Task[Landed], Asker] = {}
        self._common = store.common
        self._epochs: dict[object, int] = {}
        self._plain: OrderedDict[str, int] = OrderedDict()
        self._scheduled: dict[str, asyncio.Task[None]] = {}
        self._wanted: dict[str, set[object]] = {}
        self.listeners: list[Callable[[Resource, bool], None]] = []
        """Are told of every feed whose content is new, once the store has it, and whether none was known before."""
        self.on_outdated: list[Callable[[list[str]], None]] = []
        """Are told of targets whose copies elsewhere are outdated although no content changed: moved, ended, purged."""
        self.landings: list[Callable[[str], None]] = []
        """Are told the target of every update that is over."""

    def __len__(self) -> int:
        return len(self._flights)

    def permission(self, resource: Resource | None, target: str, settings: Settings) -> throttle.Permission:
        """May the target be asked for now?"""
        # A publisher's own origin is no stranger's site: nothing is spaced there.
        free, now = 0.0, self._clock.now()
        if not is_upstream_target(target, settings):
            free = self._common.sites.free(uri.site_of(target), settings.site_interval, now)
        return throttle.may_fetch(resource, now, settings, site_free=free)

    def permission_for(self, ask: RequestContext, resource: Resource | None) -> throttle.Permission:
        """May the target be asked for this request now?

        Credentials are a question of their own: neither the floor of the copy that others share binds them, nor what
        the origin refused to others; but an origin that answers nobody is left in peace.
        """
        if not ask.has_credentials or resource is None:
            return self.permission(resource, ask.request.target, ask.settings)
        failures = resource.failures
        failures = failures if failures.detail in _OF_THE_ORIGIN else Failures()
        return throttle.may_fetch(
            Resource(resource.target, failures=failures), self._clock.now(), ask.settings, site_free=0.0
        )

    def refresh_for_all(self, ask: RequestContext, landed: Landed) -> None:
        """After a request of one client's own: renew the copy of all, where it is due, or where there is none yet."""
        is_shared = landed.response is None or not len(landed.response.key)
        if is_shared and not len(ask.key) and not len(ask.varying_fields):
            return
        resource, now = self._store.get(ask.request.target), self._clock.now()
        if resource is None or resource.channel is None:
            if ask.has_credentials or landed.response is None or not landed.response.content.feed:
                return
        else:
            newest = resource.variants[-1] if resource.variants else None
            if newest is None or (landed.stored and len(ask.varying_fields)):
                return
            if assess(resource, newest, ask.settings, now).fresh(now):
                return
        if isinstance(self.permission(resource, ask.request.target, ask.settings), throttle.Go):
            self.begin(ask.request.target)

    def is_under_way(self, ask: RequestContext) -> bool:
        """Whether this request would join an update that others wait for already."""
        return (key := _flight_of(ask)) is not None and key in self._flights

    async def for_reader(
        self, ask: RequestContext, resource: Resource | None, variant: StoredResponse | None
    ) -> tuple[Landed | None, bool]:
        """What the update brought, and whether it was shared with others; None after `answer_timeout`."""
        target, client = ask.request.target, client_of(ask.client.address)
        key: object = _flight_of(ask) or next(self._alone)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ask.settings.answer_timeout
        for _ in range(2):
            asker = Asker(client, is_known=_is_known(resource))
            with asking(asker):
                if not isinstance(key, int):
                    task, joined = self._join(target, key, lambda: self._shared_flight(ask, resource, variant))
                else:
                    task, joined = self._flights.join(key, lambda: self._for_reader(ask, resource, variant))
            if not joined:
                self._askers[task] = asker
                task.add_done_callback(self._askers.pop)
            asker = self._askers.get(task, ITSELF)
            asker.charge(client)
            try:
                landed = await self._flights.landed(task, deadline - loop.time(), asker.abandon)
            except TimeoutError:
                return None, joined
            if not joined or _may_be_shared(ask, landed):
                return landed, joined or landed.elsewhere
            # What came is not for this request (RFC 9111, section 4): it goes alone.
            key = next(self._alone)
        raise AssertionError("unreachable: a flight of one's own is never joined")

    async def in_background(self, target: str) -> Landed:
        """Update a target that no reader waits for; joins what is under way."""
        return await asyncio.shield(self.begin(target))

    async def pushed(self, target: str, push: Push, held: StoredResponse) -> Landed:
        """Update a target with what somebody has sent, in place of the variant held."""
        settings = self._settings_for(target)
        request = background_request(target, via=self._via, agent="")
        errand = Errand(
            replace(request, fields=_as_stored(request.fields, held)),
            settings,
            self_href=to_public(target, settings),
            validate=held,
            own_agent=held.own_agent,
            push=push,
            occasion="push",
        )
        return await self._run(errand)

    def begin(self, target: str) -> asyncio.Task[Landed]:
        """Begin to update a target, or join; nobody has to wait."""
        with asking(Asker(is_known=_is_known(self._store.get(target)))):
            task, _ = self._join(target, target, lambda: self._in_background(target))
        return task

    def schedule(self, target: str, seconds: Seconds) -> None:
        """Update a target later; once, however often this is asked."""
        if target in self._scheduled:
            return

        epoch = self._common.epoch(target)

        async def wait() -> None:
            try:
                await self._clock.sleep(seconds)
                if self._common.epoch(target) == epoch:
                    await self.in_background(target)
            finally:
                if self._scheduled.get(target) is asyncio.current_task():
                    del self._scheduled[target]

        self._scheduled[target] = asyncio.ensure_future(wait())

    def forget(self, matches: Callable[[str], bool]) -> None:
        """Targets were purged: they are outdated, and what was to be done for them later is not done."""
        for target in [each for each in self._scheduled if matches(each)]:
            self._scheduled.pop(target).cancel()
        self.outdate(matches)

    def outdate(self, matches: Callable[[str], bool]) -> None:
        """Targets were purged or invalidated: what is under way for them was asked before.

        It is not stored, and is no answer for whoever comes from now on.
        """
        for target in [each for each in self._wanted if matches(each)]:
            self._wanted[target].clear()
            self._close(target)
        for target in [each for each in self._plain if matches(each)]:
            del self._plain[target]

    async def close(self, timeout: Seconds) -> None:
        """Let what is under way land, `timeout` seconds at most, and end."""
        for task in list(self._scheduled.values()):
            task.cancel()
        await self._flights.land_all(timeout)
        await self.workshop.close()
        self.workers.shutdown(wait=True, cancel_futures=True)

    def _join(
        self, target: str, key: object, start: Callable[[], Awaitable[Landed]]
    ) -> tuple[asyncio.Task[Landed], bool]:
        """The flight with this key that is under way, or a new one."""
        epoch = self._common.epoch(target)
        if self._epochs.get(key, epoch) != epoch:
            self._flights.close(key)  # another process has outdated it: it is no answer for whoever comes now
        task, joined = self._flights.join(key, start)
        if not joined:
            self._epochs[key] = epoch
            task.add_done_callback(lambda _: None if key in self._flights else self._epochs.pop(key, None))
        return task, joined

    def _close(self, target: str) -> None:
        """Nobody joins a flight of this target any more."""
        for key in [each for each in self._epochs if each == target or (type(each) is tuple and each[0] == target)]:
            self._flights.close(key)

    async def _one_of_all(
        self,
        target: str,
        settings: Settings,
        fly: Callable[[], Awaitable[Landed]],
        found: Callable[[Resource | None, Resource | None], Landed | None],
    ) -> Landed:
        """Fly, unless another process does: then wait, and take what it `found`, told by what it has left behind."""
        common, before = self._common, self._store.get(target)
        landings, pause = common.landings(target), LOOK_FIRST
        loop = asyncio.get_running_loop()
        give_up = loop.time() + settings.fetch_timeout
        while not (mine := await common.take(target)) and loop.time() < give_up:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LOOK_LAST)
        try:
            if common.landings(target) != landings:
                if (landed := found(before, self._store.get(target))) is not None:
                    return landed
                if mine:
                    # What came is not for this request. Who waits behind it need not wait for this one, too.
                    common.release(target)
                    mine = False
            return await fly()
        finally:
            if mine:
                common.release(target)

    async def _shared_flight(
        self, ask: RequestContext, resource: Resource | None, variant: StoredResponse | None
    ) -> Landed:
        """A flight for a reader, that others may join."""
        return await self._one_of_all(
            ask.request.target,
            ask.settings,
            lambda: self._for_reader(ask, resource, variant),
            lambda before, held: peer_result.landed(
                before, held, ask.upstream_request.fields, self._clock.now(), ask.settings, own_agent=ask.own_agent
            ),
        )

    async def _for_reader(
        self, ask: RequestContext, resource: Resource | None, variant: StoredResponse | None
    ) -> Landed:
        target, settings = ask.request.target, ask.settings
        known = _is_known(resource)
        if known and not (resource is not None and resource.failures.detail == Detail.REFUSED):
            await self._turn(target, settings)
        # A HEAD goes out for what is known to be no feed: it asks what stands there, not where that leads.
        follow = ask.upstream_request.method == "GET" and (known or self._may_lead_to_a_feed(ask))
        landed = await self._run(
            Errand(
                ask.upstream_request,
                settings,
                self_href=to_public(target, settings),
                validate=variant,
                own_agent=ask.own_agent,
                occasion="reader",
                follow=follow,
                exempt=is_upstream_target(target, settings),
                rest=range_requests.rest_of(ask, resource, self._clock.now()) if variant is None else None,
                accept_encoding=ask.request.fields.combined("accept-encoding"),
                key=ask.key,
                apart=ask.varying_fields,
            )
        )
        if follow and _is_redirect_for_all(landed):
            self._plain[target] = self._common.epoch(target)
            if len(self._plain) > PLAIN_MAX:
                self._plain.popitem(last=False)
        return range_requests.cut_out(ask, landed)

    async def _in_background(self, target: str) -> Landed:
        settings = self._settings_for(target)

        def found(before: Resource | None, held: Resource | None) -> Landed | None:
            fields = background_request(target, via=self._via, agent="").fields
            return peer_result.landed(before, held, fields, self._clock.now(), settings, own_agent=True)

        return await self._one_of_all(target, settings, lambda: self._renew(target, settings), found)

    async def _renew(self, target: str, settings: Settings) -> Landed:
        resource = self._store.get(target)
        request = background_request(target, via=self._via, agent=self._agent(target))
        variant = None
        if resource is not None and resource.variants:
            variant = vary.choose(resource.variants, request.fields, own_agent=True) or resource.variants[-1]
            request = replace(request, fields=_as_stored(request.fields, variant))
        apart = Fields() if variant is None else _told_apart(variant)
        if _is_known(resource):
            await self._turn(target, settings)
        own_agent = variant.own_agent if variant is not None else True
        return await self._run(
            Errand(
                request,
                settings,
                self_href=to_public(target, settings),
                validate=variant,
                own_agent=own_agent,
                exempt=is_upstream_target(target, settings),
                apart=apart,
            )
        )

    async def _run(self, errand: Errand) -> Landed:
        target, token = errand.request.target, object()
        epoch = self._common.epoch(target)
        held = self._store.get(target)
        is_first = held is None or held.channel is None
        wanted = self._wanted.setdefault(target, set())
        wanted.add(token)

        def is_wanted() -> bool:
            return token in wanted and self._common.epoch(target) == epoch

        try:
            landed = await self._updates.run(errand, is_wanted)
            if landed.changed and landed.stored and is_wanted():
                for listener in self.listeners:
                    listener(landed.resource, is_first)
            elif _is_otherwise(held, landed.resource):
                self.outdated([target])
            self._look_behind(target, landed.resource.sighting)
            return landed
        finally:
            wanted.discard(token)
            if not wanted:
                self._wanted.pop(target, None)
            for landing in self.landings:
                landing(target)

    def _look_behind(self, target: str, news: Sighting | None) -> None:
        """A feed that has moved back to where it came from: its first address is looked at again."""
        if news is None or (there := self._store.get(news.location)) is None:
            return
        if relocation.contradicts(news, target, there.sighting):
            match self.permission(there, news.location, self._settings_for(news.location)):
                case throttle.Wait(until):
                    self.schedule(news.location, until - self._clock.now())
                case throttle.Go():
                    self.begin(news.location)

    def outdated(self, targets: list[str]) -> None:
        """Copies of these elsewhere are worth nothing any more."""
        for listener in self.on_outdated:
            listener(targets)

    async def _turn(self, target: str, settings: Settings) -> None:
        """Wait for the site's next turn, `answer_timeout` at most."""
        if is_upstream_target(target, settings):
            return
        now = self._clock.now()
        turn: Instant = self._common.sites.book(uri.site_of(target), now, settings.site_interval)
        if turn > now:
            await self._clock.sleep(min(turn - now, settings.answer_timeout))

    def _may_lead_to_a_feed(self, ask: RequestContext) -> bool:
        """Are the redirects of an unknown target worth following? Not for one who browses; not twice in vain."""
        accept = ask.request.fields.combined("accept")
        browsing = accept is not None and _is_a_browsers(accept)
        in_vain = self._plain.get(ask.request.target) == self._common.epoch(ask.request.target)
        return not browsing and not in_vain and "range" not in ask.upstream_request.fields


@memoised()
def _is_a_browsers(accept: str) -> bool:
    """Whether this Accept would rather have a page than a feed."""
    return bool(accept) and negotiation.best_type(accept, (*FEED_TYPES, "text/html")) == "text/html"


def _is_otherwise(held: Resource | None, now: Resource) -> bool:
    """Whether it was seen to move or to end, or to be withdrawn, as it was not before."""
    if held is None or held.channel is None:
        return False
    withdrawn = any(each.invalid for each in now.variants) and not any(each.invalid for each in held.variants)
    return withdrawn or _whereabouts(held) != _whereabouts(now)


def _whereabouts(resource: Resource) -> object:
    sighting = resource.sighting
    return None if sighting is None else (sighting.ending, sighting.location, sighting.confirmed)


def _is_known(resource: Resource | None) -> bool:
    """Whether a feed is stored."""
    return resource is not None and resource.channel is not None


def _is_redirect_for_all(landed: Landed) -> bool:
    response = landed.response
    return response is not None and 300 <= response.status < 400 and not len(response.key)


def _flight_of(ask: RequestContext) -> object:
    """The key of the flight that this request may share with others; None where it goes alone."""
    if ask.sends_range or ask.has_credentials or ask.upstream_request.method != "GET":
        return None
    target = ask.request.target
    own = (*ask.key, *ask.varying_fields)
    return (target, own) if own else target


def _may_be_shared(ask: RequestContext, landed: Landed) -> bool:
    """May one who waited have what another's request brought?"""
    if landed.response is None or landed.kept is not None:
        return True  # a failure, a move or an end is the same for all
    stored, fields, own = landed.response, ask.upstream_request.fields, ask.own_agent
    if len(stored.key):
        return landed.stored and personal_responses.selects(stored, fields, ask.key, own_agent=own)
    return landed.stored and vary.selects(stored, fields, own_agent=own)


def _told_apart(variant: StoredResponse) -> Fields:
    """The fields of one client that a background request asks for this variant with."""
    return Fields(line for line in variant.vary_request if line[0].lower() not in _SAID_ANYWAY)


def _as_stored(fields: Fields, variant: StoredResponse) -> Fields:
    """A background request asks for the variant that is held."""
    for name, value in variant.vary_request:
        if name.lower() not in _SAID_ANYWAY:
            fields = fields.with_field(name, value)
    return fields
