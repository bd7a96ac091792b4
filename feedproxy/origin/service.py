"""service.answer(request): the one call in which all three entrances end.

A decision is made from what is stored; when the origin must be asked, the request waits for the one update of
that target that is under way. Whoever waits may go away without ending it: the service owns its tasks.
"""

import asyncio
import itertools
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import assert_never

from feedproxy.cache import invalidation, reuse, stale, variation
from feedproxy.cache.freshness import Freshness
from feedproxy.cache.reuse import Forward, Reuse, ReuseAndRevalidate, Unsatisfiable, Validate
from feedproxy.cache.stale import Occasion
from feedproxy.cache.status import CacheStatus, Detail, Fwd, append
from feedproxy.cache.stored import StoredResponse
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import FeedproxyError, FetchError, FetchTimeout, Loop
from feedproxy.feed import relocation
from feedproxy.http import negotiation, uri, user_agent
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response
from feedproxy.origin import guard, moves, planner
from feedproxy.origin.assess import assess
from feedproxy.origin.entrance import Entrance, Visit, dress, location_inside
from feedproxy.origin.flight import Flights
from feedproxy.origin.problem import problem
from feedproxy.origin.reply import reply
from feedproxy.origin.trail import Fetching
from feedproxy.origin.update import Errand, Landed, Observer, Updates
from feedproxy.origin.upstream import background_request, feed_id, passed_here_before, upstream_request, with_via
from feedproxy.readers.count import SubscriberCounts
from feedproxy.readers.identify import Identifier
from feedproxy.settings import Settings
from feedproxy.store.base import Store
from feedproxy.store.resource import Resource

PLAIN_MAX = 10_000
"""Targets remembered as redirecting to something that is no feed, so that these are not walked again."""

FEED_TYPES = ("application/rss+xml", "application/atom+xml", "application/xml", "text/xml", "application/json")


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer for one reader, and what became of the request."""

    response: Response
    status: CacheStatus
    words: str = ""
    feed: bool = False


@dataclass(frozen=True, slots=True)
class PassThrough:
    """The request streams through mitmproxy's own upstream; `status` is what is said of it."""

    status: CacheStatus


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What an operator's or a ping's refresh came to."""

    target: str
    outcome: str
    """`updated`, `confirmed`, `unchanged`, `failed`, `later` (it waits for its turn)."""
    words: str = ""
    status: int | None = None
    at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """One reader's request, with everything that is looked up for it once."""

    request: Request
    visit: Visit
    settings: Settings
    directives: CacheControl
    upstream: Request
    own_agent: bool
    shareable: bool
    """Others may wait for the same answer: nothing in the request makes it this reader's own."""


class Service:
    """The shared cache as one object: it is given its clock, store and client, and owns its tasks."""

    def __init__(
        self,
        *,
        settings_for: Callable[[str], Settings],
        store: Store,
        fetcher: Fetching,
        clock: Clock,
        counts: SubscriberCounts,
        identifier: Identifier,
        pseudonym: str,
        version: str,
        observer: Observer,
    ) -> None:
        self._settings_for = settings_for
        self.store = store
        self._clock = clock
        self.counts = counts
        self._identifier = identifier
        self.pseudonym = pseudonym
        self.via = f"1.1 {pseudonym}"
        self._version = version
        self._workers = ThreadPoolExecutor(2, thread_name_prefix="feedproxy-prepare")
        self._updates = Updates(fetcher, store, clock, observer, self._workers)
        self._flights: Flights[object, Landed] = Flights()
        self._own_flight = itertools.count()
        self._sites = planner.SiteTimes()
        self._plain: OrderedDict[str, None] = OrderedDict()
        self._purges = 0
        self._later: dict[str, asyncio.Task[None]] = {}

    # -- readers

    async def answer(self, request: Request, visit: Visit) -> Answer | PassThrough:
        """Answer a reader's GET or HEAD. Never raises: a failure is an answer, too."""
        try:
            answer = await self._answer(request, visit)
        except FeedproxyError as error:
            answer = self._refusal(request, visit, error)
        if isinstance(answer, Answer):
            upstream = self._settings_for(request.target).upstream
            fields = dress(answer.response.fields, visit, target=request.target, upstream=upstream)
            answer = replace(answer, response=answer.response.with_fields(fields))
        return answer

    async def _answer(self, request: Request, visit: Visit) -> Answer | PassThrough:
        if passed_here_before(request.fields, self.pseudonym):
            raise Loop("this request has passed this proxy already")
        ask = self._ask(request, visit)
        now = self._clock.now()
        resource = self.store.get(request.target)
        if ending := self._ending(ask, resource, now, final=False):
            return ending
        if resource is not None and resource.oversized and not resource.variants:
            return PassThrough(CacheStatus(fwd=Fwd.BYPASS, detail=Detail.OVERSIZED))
        variant, freshness = self._select(ask, resource, now)
        decision = reuse.decide(
            variant,
            ask.directives,
            freshness,
            now,
            known_uri=bool(resource and resource.variants),
            stale_limit=ask.settings.stale_max,
        )
        match decision:
            case Reuse(stored, how_fresh, detail):
                return self._hit(ask, resource, stored, how_fresh, detail)
            case ReuseAndRevalidate(stored, how_fresh, detail):
                self._in_background(request.target)
                return self._hit(ask, resource, stored, how_fresh, detail)
            case Unsatisfiable():
                detail = Detail.ONLY_IF_CACHED
                return self._own(ask, 504, detail, "The reader asked for a stored response only, and none can be used.")
            case Validate(stored, fwd):
                return await self._forward(ask, resource, stored, freshness, fwd)
            case Forward(fwd, _, selected):
                return await self._forward(ask, resource, selected, freshness, fwd)
            case _:
                assert_never(decision)

    def _ask(self, request: Request, visit: Visit) -> Ask:
        settings = self._settings_for(request.target)
        resource = self.store.get(request.target)
        known = resource is not None and resource.channel is not None
        if known or visit.entrance is Entrance.GATEWAY:
            self._seen(request, visit)
        own_agent = known or visit.entrance is not Entrance.PROXY
        keep_range = "range" in request.fields and not (resource is not None and resource.variants)
        upstream = upstream_request(
            request,
            visit,
            via=self.via,
            own_agent=(lambda: self._agent(request.target, settings)) if own_agent else None,
            keep_range=keep_range,
        )
        personal = any(name in upstream.fields for name in ("authorization", "cookie"))
        return Ask(
            request,
            visit,
            settings,
            CacheControl.from_request(request.fields),
            upstream,
            own_agent,
            shareable=request.method == "GET" and not personal and not keep_range,
        )

    def _seen(self, request: Request, visit: Visit) -> None:
        agent = request.fields.get("user-agent") or ""
        now = self._clock.now()
        pseudonym = self._identifier.pseudonym(visit.address, agent, visit.user, now)
        self.counts.seen(request.target, pseudonym, agent, now)

    def speaks_as(self, target: str, address: str, agent: str) -> str:
        """Count this reader of the target, and give the User-Agent that speaks for all of them."""
        self._seen(Request("GET", target, Fields([("User-Agent", agent)])), Visit(Entrance.PROXY, "", address))
        return self._agent(target, self._settings_for(target))

    def _agent(self, target: str, settings: Settings) -> str:
        subscribers = self.counts.total(target, self._clock.now())
        name = feed_id(target, self.pseudonym)
        return user_agent.compose(self._version, settings.contact_url, subscribers, name)

    def _select(
        self, ask: Ask, resource: Resource | None, now: Instant
    ) -> tuple[StoredResponse | None, Freshness | None]:
        if resource is None:
            return None, None
        variant = variation.choose(resource.variants, ask.upstream.fields, own_agent=ask.own_agent)
        if variant is None:
            return None, None
        return variant, assess(resource, variant, ask.settings, now)

    # -- asking the origin

    async def _forward(
        self,
        ask: Ask,
        resource: Resource | None,
        variant: StoredResponse | None,
        freshness: Freshness | None,
        fwd: Fwd,
    ) -> Answer | PassThrough:
        now = self._clock.now()
        target, settings = ask.request.target, ask.settings
        match planner.may_fetch(resource, now, settings, site_free=self._site_free(target, settings)):
            case planner.Wait(until, detail, words):
                if resource and variant and freshness and self._may_stand_in(ask, resource, variant, freshness):
                    return self._hit(ask, resource, variant, freshness, None if freshness.fresh(now) else detail, words)
                if detail in (Detail.RETRY_AFTER, Detail.BACK_OFF):
                    return self._later_please(ask, until, detail, words)
                # Neither the floor nor the spacing may keep from readers what HTTP wants them to get from the
                # origin (docs/decisions/what-the-floor-binds.md).
            case planner.Go():
                pass
        if resource is not None and resource.channel is not None:
            await self._turn(target, settings)
        landed, collapsed = await self._land(ask, resource, variant)
        if landed is None:
            if variant and freshness and self._allowed(ask, variant, freshness, Occasion.DISCONNECTED):
                return self._hit(ask, resource, variant, freshness, Detail.TIMEOUT, "the origin takes too long")
            raise FetchTimeout("the origin takes too long")
        return self._landed(ask, landed, fwd, collapsed=collapsed)

    async def _turn(self, target: str, settings: Settings) -> None:
        """Wait for the site's next turn, `answer_timeout` at most."""
        if _is_upstream(target, settings) or target in self._flights:
            return
        now = self._clock.now()
        turn = self._sites.book(uri.site_of(target), now, settings.site_interval)
        if turn > now:
            await self._clock.sleep(min(turn - now, settings.answer_timeout))

    async def _land(
        self, ask: Ask, resource: Resource | None, variant: StoredResponse | None
    ) -> tuple[Landed | None, bool]:
        """Wait for the update of this target, a shared one where possible; None after `answer_timeout`."""
        key: object = ask.request.target if ask.shareable else next(self._own_flight)
        for _ in range(2):
            task, joined = self._flights.join(key, lambda: self._update(ask, resource, variant))
            try:
                landed = await asyncio.wait_for(asyncio.shield(task), ask.settings.answer_timeout)
            except TimeoutError:
                return None, joined
            if not joined or self._shared(ask, landed):
                return landed, joined
            # "a cache can only share what it may store and what this request selects": so this one goes alone.
            key = next(self._own_flight)
        raise AssertionError("unreachable: a flight of one's own is never joined")

    def _shared(self, ask: Ask, landed: Landed) -> bool:
        """May one who waited have what another's request brought?"""
        if landed.response is None or landed.kept is not None:
            return True  # a failure, a move or an end is the same for all
        return landed.stored and variation.selects(landed.response, ask.upstream.fields, own_agent=ask.own_agent)

    async def _update(self, ask: Ask, resource: Resource | None, variant: StoredResponse | None) -> Landed:
        target, settings = ask.request.target, ask.settings
        known = resource is not None and resource.channel is not None
        upstream = ask.upstream
        if known and upstream.method == "HEAD":
            upstream = replace(upstream, method="GET")  # the copy of a feed is renewed, whoever asks
        follow = known or self._may_lead_to_a_feed(ask)
        purges = self._purges
        errand = Errand(
            upstream,
            settings,
            self_href=self._self_href(target, settings),
            validate=variant,
            own_agent=ask.own_agent,
            follow=follow,
            exempt=_is_upstream(target, settings),
        )
        landed = await self._updates.run(errand, lambda: self._purges == purges)
        if follow and landed.response is not None and 300 <= landed.response.status < 400:
            self._remember_plain(target)
        if landed.response is not None and landed.response.content.feed and not known and not ask.own_agent:
            self._seen(ask.request, ask.visit)  # the nature of the target was not known before
        return landed

    def _may_lead_to_a_feed(self, ask: Ask) -> bool:
        """Are the redirects of an unknown target worth following? Not for one who browses; not twice in vain."""
        accept = ask.request.fields.combined("accept")
        browsing = negotiation.best_type(accept, (*FEED_TYPES, "text/html")) == "text/html" if accept else False
        return not browsing and ask.request.target not in self._plain and "range" not in ask.upstream.fields

    def _remember_plain(self, target: str) -> None:
        self._plain[target] = None
        if len(self._plain) > PLAIN_MAX:
            self._plain.popitem(last=False)

    def _self_href(self, target: str, settings: Settings) -> str:
        if settings.upstream and settings.public_url and _is_upstream(target, settings):
            return settings.public_url.rstrip("/") + target[len(uri.origin_of(target)) :]
        return target

    def _site_free(self, target: str, settings: Settings) -> Instant:
        if _is_upstream(target, settings):
            return 0.0  # a publisher's own origin is no stranger's site
        return self._sites.free(uri.site_of(target), settings.site_interval)

    # -- what is made of it

    def _landed(self, ask: Ask, landed: Landed, fwd: Fwd, *, collapsed: bool) -> Answer | PassThrough:
        now = self._clock.now()
        if ending := self._ending(ask, landed.resource, now, final=True, landed=landed):
            return ending
        if landed.oversized:
            return PassThrough(CacheStatus(fwd=fwd, fwd_status=landed.fwd_status, detail=Detail.OVERSIZED))
        if landed.kept is not None:
            variant, freshness = self._select(ask, landed.resource, now)
            if variant and freshness and now < landed.kept.until:
                occasion = Occasion.DISCONNECTED if landed.fwd_status is None else Occasion.ERROR
                if self._allowed(ask, variant, freshness, occasion):
                    status = self._status(fwd, landed, freshness, collapsed, landed.kept.detail)
                    return self._made(ask, landed.resource, variant, freshness, status, landed.kept.words)
        elif landed.error is not None or (landed.response is not None and landed.response.status >= 500):
            # What is no feed: RFC 9111, 4.2.4 and RFC 5861 alone say whether a copy may stand in.
            variant, freshness = self._select(ask, landed.resource, now)
            occasion = Occasion.DISCONNECTED if landed.response is None else Occasion.ERROR
            if variant and freshness and self._allowed(ask, variant, freshness, occasion):
                detail = landed.detail or Detail.STALE_IF_ERROR
                status = self._status(fwd, landed, freshness, collapsed, detail)
                return self._made(ask, landed.resource, variant, freshness, status, landed.words)
        if landed.response is None:
            error = landed.error or FetchError(landed.words)
            return self._refusal(ask.request, ask.visit, error, landed, fwd)
        if landed.response.status == 429:
            # DESIGN, 11: a reader never sees the origin's 429, that was for us.
            until = max(landed.resource.failures.next_try, now + ask.settings.feed_min_interval)
            return self._later_please(ask, until, Detail.RATE_LIMITED, "The origin has had too many requests.")
        freshness = assess(landed.resource, landed.response, ask.settings, now)
        status = self._status(fwd, landed, freshness, collapsed, landed.detail)
        answer = self._made(ask, landed.resource, landed.response, freshness, status, landed.words or freshness.words)
        if collapsed or not landed.set_cookie:
            return answer
        # A cookie is for the one whose request brought it, and for nobody after.
        fields = Fields((*answer.response.fields, *(("Set-Cookie", value) for value in landed.set_cookie)))
        return replace(answer, response=answer.response.with_fields(fields))

    def _status(
        self, fwd: Fwd, landed: Landed, freshness: Freshness, collapsed: bool, detail: str | None
    ) -> CacheStatus:
        ttl = int(freshness.ttl) if landed.stored or landed.kept else None
        return CacheStatus(
            fwd=fwd, fwd_status=landed.fwd_status, stored=landed.stored, collapsed=collapsed, ttl=ttl, detail=detail
        )

    def _hit(
        self,
        ask: Ask,
        resource: Resource | None,
        stored: StoredResponse,
        freshness: Freshness,
        detail: str | None,
        words: str = "",
    ) -> Answer:
        status = CacheStatus(hit=True, ttl=int(freshness.ttl), detail=detail)
        return self._made(ask, resource, stored, freshness, status, words or freshness.words)

    def _made(
        self,
        ask: Ask,
        resource: Resource | None,
        stored: StoredResponse,
        freshness: Freshness,
        status: CacheStatus,
        words: str,
    ) -> Answer:
        settings = ask.settings
        reverse = ask.visit.entrance is Entrance.REVERSE
        response = reply(
            stored,
            ask.request,
            freshness,
            status,
            via=self.via,
            now=self._clock.now(),
            decoded_max=settings.decoded_max,
            state_freshness=reverse and settings.state_freshness,
            surrogate_key=feed_id(stored.target) if reverse and settings.state_freshness else None,
        )
        return Answer(response, status, words, feed=stored.content.feed)

    def _allowed(self, ask: Ask, stored: StoredResponse, freshness: Freshness, occasion: Occasion) -> bool:
        limit = ask.settings.stale_max if stored.content.feed else 0
        return stale.allowed(
            stored, freshness, self._clock.now(), occasion=occasion, request=ask.directives, limit=limit
        )

    def _may_stand_in(self, ask: Ask, resource: Resource, stored: StoredResponse, freshness: Freshness) -> bool:
        """May the copy answer while the origin is left in peace? As for an origin that cannot be asked."""
        patience = guard.patience_after(resource.failures, ask.settings)
        if self._clock.now() >= guard.last_good(resource) + patience:
            return False
        return self._allowed(ask, stored, freshness, Occasion.DISCONNECTED)

    # -- moves, endings, refusals

    def _ending(
        self, ask: Ask, resource: Resource | None, now: Instant, *, final: bool, landed: Landed | None = None
    ) -> Answer | None:
        """301 or 410 where the address has moved or ended; None where the feed itself is to be served.

        Before the origin is asked (`final` is False) a remembered one that is due for another look is no answer yet.
        """
        sighting = resource.sighting if resource is not None else None
        standing = moves.standing(sighting, now, ask.settings, target=ask.request.target)
        status = CacheStatus(hit=True)
        if landed is not None:
            status = CacheStatus(fwd=Fwd.STALE, fwd_status=landed.fwd_status)
        match standing:
            case None:
                return None
            case moves.Redirect(location, recheck) if final or not recheck:
                status = replace(status, detail=Detail.MOVED)
                return self._moved(ask, location, status)
            case moves.Gone(recheck) if final or not recheck:
                status = replace(status, detail=Detail.GONE)
                return self._gone(ask, status)
        return None

    def _moved(self, ask: Ask, location: str, status: CacheStatus) -> Answer:
        if ask.settings.moved_to and ask.settings.announce_as == "xml":
            inside = location_inside(
                location, ask.visit, target=ask.request.target, upstream=ask.settings.upstream
            )
            return self._document(ask, relocation.document(inside), status, f"the feed has moved to {location}")
        words = f"The feed has moved to {location}."
        answer = self._own(ask, 301, Detail.MOVED, words, extra=(("Location", location),), status=status)
        return replace(answer, response=_cacheable(answer.response, ask.settings.relocation_spacing))

    def _gone(self, ask: Ask, status: CacheStatus) -> Answer:
        if ask.settings.gone and ask.settings.announce_as == "xml":
            return self._document(ask, relocation.document(None), status, "the feed has ended")
        answer = self._own(ask, 410, Detail.GONE, "This feed has ended; please unsubscribe.", status=status)
        return replace(answer, response=_cacheable(answer.response, ask.settings.relocation_spacing))

    def _document(self, ask: Ask, body: bytes, status: CacheStatus, words: str) -> Answer:
        lines = [
            ("Content-Type", "application/xml"),
            ("Cache-Control", f"max-age={ask.settings.relocation_spacing}"),
            ("Date", format_http_date(self._clock.now())),
            ("Content-Length", str(len(body))),
        ]
        fields = append(with_via(Fields(lines), self.via), status)
        return Answer(Response(200, fields, body), status, words)

    def _later_please(self, ask: Ask, until: Instant, detail: Detail, words: str) -> Answer:
        seconds = max(1, round(until - self._clock.now()))
        return self._own(ask, 503, detail, words, extra=(("Retry-After", str(seconds)),))

    def _refusal(
        self,
        request: Request,
        visit: Visit,
        error: FeedproxyError,
        landed: Landed | None = None,
        fwd: Fwd | None = None,
    ) -> Answer:
        ask_words = str(error) or "feedproxy refused this request."
        status = CacheStatus(
            fwd=fwd, fwd_status=landed.fwd_status if landed and fwd else None, detail=error.detail
        )
        return self._problem(request, error.status_hint, error.detail, ask_words, status)

    def _own(
        self,
        ask: Ask,
        code: int,
        detail: Detail,
        words: str,
        *,
        extra: tuple[tuple[str, str], ...] = (),
        status: CacheStatus | None = None,
    ) -> Answer:
        return self._problem(ask.request, code, detail, words, status or CacheStatus(detail=detail), extra)

    def _problem(
        self,
        request: Request,
        code: int,
        detail: str,
        words: str,
        status: CacheStatus,
        extra: tuple[tuple[str, str], ...] = (),
    ) -> Answer:
        response = problem(code, detail, words, request=request, extra=extra)
        fields = response.fields.with_added("Date", format_http_date(self._clock.now()))
        fields = append(with_via(fields, self.via), status)
        return Answer(response.with_fields(fields), status, words)

    # -- pings, schedule, operator

    async def refresh(self, target: str) -> Refreshed:
        """Ask the origin of this target now, or as soon as its floor allows (then the outcome is `later`)."""
        settings = self._settings_for(target)
        resource = self.store.get(target)
        now = self._clock.now()
        match planner.may_fetch(resource, now, settings, site_free=self._site_free(target, settings)):
            case planner.Wait(until, _, words):
                self._schedule(target, until - now)
                return Refreshed(target, "later", words, at=until)
        landed = await self._background_update(target)
        if landed.stored and landed.fwd_status == 304:
            outcome = "confirmed"
        elif landed.stored:
            outcome = "updated" if landed.changed else "unchanged"
        else:
            outcome = "failed" if landed.detail or landed.error else "not-stored"
        return Refreshed(target, outcome, landed.words or str(landed.detail or ""), landed.fwd_status)

    def _in_background(self, target: str) -> None:
        self._flights.join(target, lambda: self._run_background(target))

    async def _background_update(self, target: str) -> Landed:
        task, _ = self._flights.join(target, lambda: self._run_background(target))
        return await asyncio.shield(task)

    async def _run_background(self, target: str) -> Landed:
        settings = self._settings_for(target)
        resource = self.store.get(target)
        request = background_request(target, via=self.via, agent=self._agent(target, settings))
        variant = None
        if resource is not None and resource.variants:
            variant = variation.choose(resource.variants, request.fields, own_agent=True) or resource.variants[-1]
            request = replace(request, fields=_as_stored(request.fields, variant))
        if resource is not None and resource.channel is not None:
            await self._turn(target, settings)
        purges = self._purges
        errand = Errand(
            request,
            settings,
            self_href=self._self_href(target, settings),
            validate=variant,
            own_agent=variant.own_agent if variant is not None else True,
            exempt=_is_upstream(target, settings),
        )
        return await self._updates.run(errand, lambda: self._purges == purges)

    def _schedule(self, target: str, seconds: Seconds) -> None:
        if target in self._later:
            return

        async def wait_and_refresh() -> None:
            try:
                await self._clock.sleep(seconds)
                await self._background_update(target)
            finally:
                self._later.pop(target, None)

        self._later[target] = asyncio.ensure_future(wait_and_refresh())

    async def purge(self, target: str = "", *, pattern: str = "") -> list[str]:
        """Forget this target, or all that match the glob; those that were held. What is under way is not stored."""
        if target:
            targets = [target] if self.store.get(target) is not None else []
        else:
            # In addresses `?` and `[` are ordinary characters: only `*` stands for anything.
            glob = re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)
            targets = [each for each in self.store.targets() if glob.fullmatch(each)]
        self._purges += 1
        for each in targets:
            await self.store.delete(each)
            self._plain.pop(each, None)
        return targets

    async def undo(self, target: str) -> bool:
        """Forget a remembered move or end of this target; whether there was one."""
        resource = self.store.get(target)
        if resource is None or resource.sighting is None:
            return False
        await self.store.put(replace(resource, sighting=None))
        return True

    async def passed(self, request: Request, response: Response) -> None:
        """A request that streamed through was answered: invalidate what RFC 9111, 4.4, wants invalidated."""
        for target in invalidation.invalidated_by(request, response):
            resource = self.store.get(target)
            if resource is not None and resource.variants:
                variants = tuple(replace(each, invalid=True) for each in resource.variants)
                await self.store.put(replace(resource, variants=variants))
                self._purges += 1

    def resources(self) -> Iterable[Resource]:
        """Everything that is held, for those who look after it."""
        for target in self.store.targets():
            if (resource := self.store.get(target)) is not None:
                yield resource

    def freshness_of(self, resource: Resource) -> Freshness | None:
        """How fresh the newest stored response of a resource is, with the reason in words."""
        if not resource.variants:
            return None
        return assess(resource, resource.variants[-1], self._settings_for(resource.target), self._clock.now())

    def pseudonym_of(self, visit: Visit, agent: str) -> str:
        """What the log calls a reader."""
        return f"{self._identifier.pseudonym(visit.address, agent, visit.user, self._clock.now()).current:015x}"

    @property
    def under_way(self) -> int:
        """Updates under way."""
        return len(self._flights)

    async def close(self, timeout: Seconds) -> None:
        """Let what is under way land, `timeout` seconds at most, and end."""
        for task in list(self._later.values()):
            task.cancel()
        await self._flights.land_all(timeout)
        self._workers.shutdown(wait=True, cancel_futures=True)


def _is_upstream(target: str, settings: Settings) -> bool:
    """The operator's own word: the configured upstream is exempt from the address check."""
    return bool(settings.upstream) and uri.origin_of(target) == uri.origin_of(uri.normalise(settings.upstream))


def _as_stored(fields: Fields, variant: StoredResponse) -> Fields:
    """A background request asks for the variant that is held."""
    for name, value in variant.vary_request:
        if name.lower() not in ("user-agent", "accept-encoding"):
            fields = fields.with_field(name, value)
    return fields


def _cacheable(response: Response, seconds: Seconds) -> Response:
    return response.with_fields(response.fields.with_field("Cache-Control", f"max-age={int(seconds)}"))
