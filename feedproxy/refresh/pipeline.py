"""One update of one resource: fetch, judge, prepare, keep. The only place that writes what is stored of a target."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from feedproxy.cache import freshness, set_cookie, storing, validation, vary
from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Clock, Instant
from feedproxy.errors import FeedproxyError, MalformedResponse, Overload, TooLarge
from feedproxy.feed.xml_redirect import Gone, Moved
from feedproxy.http import uri
from feedproxy.http.message import Fields, Response
from feedproxy.refresh import personal_responses, range_requests, redirects
from feedproxy.refresh.ingest.edit_settings import is_outdated
from feedproxy.refresh.ingest.ingest import UNPREPARED, Prepared
from feedproxy.refresh.ingest.link_injection import with_links
from feedproxy.refresh.ingest.offload import made_ready
from feedproxy.refresh.ingest.worker_pool import Workshop
from feedproxy.refresh.policy import content_guard, push, relocation, throttle
from feedproxy.refresh.policy.content_guard import Accept, Keep, Outcome, Pass
from feedproxy.refresh.resource_update import (
    CHANGES_MAX,
    Errand,
    dated,
    editions_with,
    final_target,
    received,
    sighted,
    unstored,
    untouched,
    with_past,
    with_variant,
    with_versions,
    without_variant,
    worth_keeping,
)
from feedproxy.refresh.result import Landed, Observer, Update
from feedproxy.request.url_mapping import to_upstream
from feedproxy.store.interface import Store
from feedproxy.store.resource import Ending, Failures, Resource, set_right
from feedproxy.upstream import local_failure
from feedproxy.upstream.client import Fetched, Oversized

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Came:
    """What a walk brought, made ready."""

    walked: redirects.Trail
    prepared: Prepared


def _is_missing(errand: Errand, landed: Landed) -> bool:
    """Whether a feed was wanted, for which we ask in our own name, and an error or a page came while none is held."""
    if landed.resource.channel is not None or not errand.own_agent or landed.oversized:
        return False
    if (response := landed.response) is None or response.status >= 400:
        return True
    label = (response.fields.get("content-type") or "").partition(";")[0].strip().lower()
    return response.status == 200 and label in ("text/html", "application/xhtml+xml")


def _is_conditional(errand: Errand) -> bool:
    """Whether a 304 would do: not where other settings have edited the copy, for then the original is needed."""
    return errand.validate is not None and not is_outdated(errand.validate.content, errand.settings)


def _settled(errand: Errand, came: "_Came | FeedproxyError", held: Resource | None) -> Errand:
    """The errand with the key of what came for it."""
    if isinstance(came, FeedproxyError) or errand.push is not None or isinstance(came.walked.last, Oversized):
        return errand
    is_feed = came.prepared.channel is not None
    is_new = held is None or not (held.variants or held.channel)
    key = personal_responses.settled(errand, came.walked.last.response, is_feed=is_feed, is_new=is_new)
    return errand if key == errand.key else replace(errand, key=key)


class Updates:
    """Carries out errands. Errors of the origin come back as values in `Landed`, never as exceptions."""

    def __init__(
        self,
        fetcher: redirects.Fetching,
        store: Store,
        clock: Clock,
        observer: Observer,
        workshop: Workshop,
        jitter: Callable[[], float] = random.random,
        may_lead: Callable[[str, str], bool] = lambda start, end: True,
    ) -> None:
        self._fetcher = fetcher
        self._store = store
        self._clock = clock
        self._observer = observer
        self._workshop = workshop
        self._jitter = jitter
        self._may_lead = may_lead

    async def run(self, errand: Errand, still_wanted: Callable[[], bool] = lambda: True) -> Landed:
        """Carry one errand out. What is found is stored unless `still_wanted` says that it was purged meanwhile."""
        target = errand.request.target
        started = self._clock.now()
        came = await self._fetch(errand)
        # From here to the store nothing waits: what other errands have stored of the target meanwhile is not lost.
        settled = _settled(errand, came, self._store.newest(target))
        landed = self._made_of(came, settled, started)
        if landed is None:
            # RFC 9111, 4.3.4: the 304 speaks of another response, so nothing here can be freshened by it.
            errand = replace(errand, validate=None)
            came = await self._fetch(errand)
            settled = _settled(errand, came, self._store.newest(target))
            landed = self._made_of(came, settled, started)
            assert landed is not None
        errand = settled
        interim = came.walked.last.interim if isinstance(came, _Came) else ()
        held = self._store.newest(target)
        resource = landed.resource
        if len(errand.key):
            resource = personal_responses.merged(held or Resource(target, fetched=started), resource, errand.key)
            stored = any(each is landed.response for each in resource.keyed)
            landed = replace(landed, stored=stored, changed=False)
        elif resource.fetched != started:
            resource = replace(resource, fetched=started)
        if errand.push is not None and held is not None:
            resource = push.only_content(resource, held)
        if interim or resource is not landed.resource:
            landed = replace(landed, resource=resource, interim=interim)
        learned = landed.resource
        if not len(errand.key) and not landed.stored:
            learned = unstored(errand, held, learned, is_good=landed.kept is None and landed.fwd_status in (200, 304))
        if still_wanted() and worth_keeping(learned):
            await self._store.put(learned, still_wanted)
        elif still_wanted() and held is not None:
            await self._store.delete(target)  # what was stored has been replaced by something that may not be
        self._observer.updated(
            Update(
                target,
                errand.occasion,
                landed.fwd_status,
                landed.outcome,
                landed.detail or "",
                landed.words or str(landed.error or ""),
                sent=landed.response.content.size() if landed.response is not None else 0,
                received=came.walked.size if isinstance(came, _Came) and errand.push is None else 0,
                seconds=self._clock.now() - started,
                is_feed=landed.resource.channel is not None,
                is_missing=_is_missing(errand, landed),
            )
        )
        return landed

    async def _fetch(self, errand: Errand) -> _Came | FeedproxyError:
        """Everything that waits: the network, and the making ready of what it brought."""
        if errand.push is not None:
            return _Came(redirects.Trail(errand.push.fetched, errand.push.fetched), errand.push.prepared)
        try:
            walked = await self._walk(errand)
            return await self._prepared(walked, errand)
        except FeedproxyError as error:
            return error
        except MemoryError:
            local_failure.complaints.say("no memory is left to make ready what an origin sent")
            return Overload("no memory is left for it")
        except Exception:
            # A fault of ours that some origin's answer brings to light: the copy stands in, and the next try is spaced.
            logger.exception("what the origin sent could not be made ready")
            return FeedproxyError("feedproxy failed at what the origin sent; its log says more")

    async def _prepared(self, walked: redirects.Trail, errand: Errand) -> _Came:
        if isinstance(walked.last, Oversized) or errand.request.method == "HEAD":
            return _Came(walked, UNPREPARED)
        before = self._store.get(errand.request.target)
        return _Came(walked, await made_ready(walked.last, errand, before, self._workshop, self._clock.now()))

    def _made_of(self, came: _Came | FeedproxyError, errand: Errand, started: Instant) -> Landed | None:
        """What the fetch comes to, against what is stored now; None for a 304 that confirms nothing we hold."""
        held = self._store.newest(errand.request.target)
        before = set_right(held, started) if held is not None else Resource(errand.request.target, fetched=started)
        before = personal_responses.alone(before, errand) if len(errand.key) else before
        if isinstance(came, FeedproxyError):
            return self._judged(errand, before, Outcome(error=came))
        walked, fetched = came.walked, came.walked.last
        if isinstance(fetched, Oversized):
            return self._oversized(errand, before, fetched)
        if fetched.response.status == 304:
            return self._not_modified(errand, before, came, fetched)
        if errand.request.method == "HEAD":
            return self._head(errand, before, fetched)
        return self._complete(errand, before, walked, fetched, came.prepared)

    async def _walk(self, errand: Errand) -> redirects.Trail:
        if errand.rest is not None and (whole := await range_requests.completed(self._fetcher, errand, errand.rest)):
            return whole
        request = errand.request
        if errand.validate is not None and _is_conditional(errand):
            conditions = validation.conditional_fields(errand.validate)
            request = replace(request, fields=Fields((*request.fields, *conditions)))
        limit = errand.settings.redirects_max
        if not errand.follow:
            answer = await self._fetcher.fetch(request, exempt=errand.exempt)
            return redirects.Trail(answer, answer)
        return await redirects.walk(
            self._fetcher,
            request,
            limit=limit,
            exempt=errand.exempt,
            may_lead=self._may_lead,
            meant=lambda address: to_upstream(address, errand.settings),
        )

    def _not_modified(self, errand: Errand, before: Resource, came: _Came, fetched: Fetched) -> Landed | None:
        if errand.validate is None or not _is_conditional(errand):
            # RFC 9110, 15.4.5: a 304 answers a conditional request; unasked it says nothing.
            error = MalformedResponse("the origin answered 304 to a request without conditions")
            return self._judged(errand, before, Outcome(error=error))
        targeted = errand.settings.is_targeted
        freshened = validation.freshen(
            errand.validate,
            fetched.response,
            fetched.request_time,
            fetched.response_time,
            request=errand.request.fields,
            targeted=targeted,
        )
        if freshened is None:
            return None
        freshened = replace(freshened, final_target=final_target(errand, came.walked.at))
        freshened = set_cookie.with_cookies(freshened, fetched.response.fields, errand.request, targeted=targeted)
        freshened = with_links(freshened, errand.settings, errand.self_href)
        now = self._clock.now()
        sighting = sighted(before, came.walked, Outcome(304, channel=before.channel), now, errand.settings)
        resource = replace(before, failures=Failures(), sighting=sighting)
        resource = with_past(resource, before, freshened, came.prepared.published, now)
        # The 304 may say that what it confirms is not to be stored any more. It is a GET's, whoever asked.
        got = replace(errand, request=replace(errand.request, method="GET"))
        unstored = self._forbids(got, freshened)
        resource = without_variant(resource, errand) if unstored else with_variant(resource, freshened, errand)
        words = "not modified (304): the cached copy is current"
        return Landed(resource, freshened, not unstored, fwd_status=304, words=words, unstored=unstored)

    def _forbids(self, errand: Errand, response: StoredResponse) -> str:
        """Why HTTP forbids to store this; empty where it does not."""
        plain, targeted = Response(response.status, response.fields), errand.settings.is_targeted
        verdict = storing.may_store(
            errand.request, plain, now=self._clock.now(), targeted=targeted, authorized=response.authorized
        )
        return verdict.reason if isinstance(verdict, storing.DoNotStore) else ""

    def _head(self, errand: Errand, before: Resource, fetched: Fetched) -> Landed:
        """A HEAD's answer is passed on, and tells whether the copy is still good (RFC 9111, 4.3.5)."""
        answer = received(errand, fetched, UNPREPARED)
        resource = before
        selected = vary.choose(before.variants, errand.request.fields, own_agent=errand.own_agent)
        if selected is not None and fetched.response.status == 200:
            updated = validation.apply_head(
                selected,
                fetched.response,
                fetched.request_time,
                fetched.response_time,
                request=errand.request.fields,
                targeted=errand.settings.is_targeted,
            )
            resource = with_variant(before, updated or replace(selected, invalid=True), errand)
        return Landed(resource, answer, fwd_status=fetched.response.status, unstored=self._forbids(errand, answer))

    def _oversized(self, errand: Errand, before: Resource, answer: Oversized) -> Landed:
        if before.channel is not None and errand.settings.on_bad_update == "keep":
            return self._judged(errand, before, Outcome(error=TooLarge("the body is above buffer_max")))
        return Landed(
            replace(before, oversized=True), fwd_status=answer.status, oversized=True, detail=Detail.OVERSIZED
        )

    def _complete(
        self, errand: Errand, before: Resource, walked: redirects.Trail, fetched: Fetched, prepared: Prepared
    ) -> Landed:
        now = self._clock.now()
        before = replace(before, oversized=False) if before.oversized else before
        if walked.broken is Detail.ACCESS and before.channel is not None and isinstance(walked.first, Fetched):
            return self._led_to_others(errand, before, walked.first)
        learns = not len(errand.key) and not len(errand.apart)
        relocated = self._relocated(errand, before, prepared, now) if learns else None
        if isinstance(relocated, Landed):
            return relocated
        before = relocated or before
        elsewhere = walked.followed > 0 or walked.broken is not None
        if elsewhere and prepared.channel is None and before.channel is None and isinstance(walked.first, Fetched):
            # It leads to no feed, and there is no copy: the redirect itself passes.
            fetched, prepared = walked.first, Prepared(untouched(walked.first.response))
            walked = replace(walked, at="")
        response = fetched.response
        outcome = Outcome(
            response.status,
            response.fields,
            prepared.error,
            prepared.channel,
            empty=prepared.empty,
            html=prepared.html,
            page=prepared.page,
            broken=walked.broken if before.channel is not None else None,
        )
        landed = self._judged(errand, before, outcome, received(errand, fetched, prepared, walked.at), prepared)
        resource = landed.resource
        if landed.stored and landed.response is not None:
            resource = with_versions(resource, prepared.left)
            resource = with_past(resource, before, landed.response, prepared.published, now)
        if landed.kept is None and learns and prepared.relocation is None:
            sighting = sighted(before, walked, outcome, now, errand.settings)
            resource = replace(resource, sighting=sighting) if sighting != resource.sighting else resource
        if walked.combined:
            landed = replace(landed, combined=True, fwd_status=206)
        kept = landed.response.fields if landed.response is not None else response.fields
        personal = Fields(line for line in response.fields.end_to_end() if line[0] not in kept)
        if resource is landed.resource and not len(personal):
            return landed
        return replace(landed, resource=resource, personal=personal)

    def _led_to_others(self, errand: Errand, before: Resource, first: Fetched) -> Landed:
        """A known feed that redirects to one for other readers: the redirect passes, and is no failure."""
        resource = replace(before, failures=Failures(), new_shape=None)
        prepared = Prepared(untouched(first.response))
        outcome = Outcome(first.response.status, first.response.fields)
        words = "the redirect leads to what a rule protects: the reader asks there"
        return self._kept(errand, resource, outcome, received(errand, first, prepared), prepared, None, words)

    def _relocated(
        self, errand: Errand, before: Resource, prepared: Prepared, now: Instant
    ) -> Landed | Resource | None:
        """XML redirects and XML gone documents act at once, unless they lead back here.

        Those are remembered, and not believed: perhaps it is the other address that has changed its mind.
        """
        settings = errand.settings
        match prepared.relocation:
            case Gone():
                ending, location = Ending.GONE, ""
            case Moved(reference):
                ending = Ending.MOVED
                try:
                    location = to_upstream(uri.resolve(errand.request.target, reference), settings)
                except FeedproxyError:
                    return None
            case _:
                return None
        sighting = relocation.seen(
            before.sighting,
            ending,
            location,
            now,
            confirmations=settings.relocation_confirmations,
            spacing=settings.relocation_spacing,
            at_once=True,
        )
        if location and self._leads_back(errand.request.target, location, settings.redirects_max):
            if location == errand.request.target:
                return None
            return replace(before, sighting=replace(sighting, confirmed=False))
        detail = Detail.MOVED if ending is Ending.MOVED else Detail.GONE
        resource = replace(before, sighting=sighting, failures=Failures())
        words = f"the document says that the feed has moved to {location}" if location else "the document says: ended"
        return Landed(resource, fwd_status=200, detail=detail, words=words)

    def _leads_back(self, target: str, location: str, limit: int) -> bool:
        visited = {target}
        for _ in range(limit):
            if location in visited:
                return True
            visited.add(location)
            there = self._store.get(location)
            if there is None or there.sighting is None or there.sighting.ending is not Ending.MOVED:
                return False
            location = there.sighting.location
        return True

    def _judged(
        self,
        errand: Errand,
        before: Resource,
        outcome: Outcome,
        response: StoredResponse | None = None,
        prepared: Prepared = UNPREPARED,
    ) -> Landed:
        """What becomes of the outcome, in one value."""
        now = self._clock.now()
        held = replace(before, channel=prepared.whole(before.channel)) if prepared.known and before.channel else before
        verdict = content_guard.judge(held, outcome, now, errand.settings)
        bad = outcome.status is not None and outcome.status >= 400
        not_before = throttle.retry_after(outcome.fields, now) if bad else None
        fwd_status = outcome.status
        match verdict:
            case Keep(detail, _, words, new_shape):
                failures = before.failures
                if not isinstance(outcome.error, Overload):
                    failures = throttle.after_failure(
                        before.failures, detail, now, not_before=not_before, jitter=self._jitter()
                    )
                resource = replace(before, failures=failures, new_shape=new_shape)
                return Landed(resource, response, False, fwd_status, verdict, detail, words, outcome.error)
            case Pass(words, fault, new_shape):
                resource = replace(before, new_shape=new_shape) if new_shape != before.new_shape else before
                if outcome.status in (401, 410, 451):
                    # Who may read has changed, or there is nothing to be read: no copy answers any more until the
                    # origin gives one again.
                    invalid = tuple(replace(each, invalid=True) for each in resource.variants)
                    resource = replace(resource, variants=invalid, parts=())
                blamed = fault is not None and not isinstance(outcome.error, Overload)
                if fault is not None and blamed and (not_before is not None or before.channel is not None):
                    failures = throttle.after_failure(
                        before.failures,
                        fault,
                        now,
                        not_before=not_before,
                        jitter=self._jitter(),
                        # The refusal itself is the answer: it asks for a password.
                        back_off=before.channel is not None and outcome.status != 401,
                    )
                    resource = replace(resource, failures=failures)
                elif fault is None and resource.failures != Failures():
                    resource = replace(resource, failures=Failures())
                # Of what is no known feed only a failure is worth a word: that it is none is no fault of its own.
                told = before.channel is not None or outcome.error is not None or outcome.status == 429
                detail_or_none = fault if told else None
            case Accept(words):
                resource = replace(before, failures=Failures(), new_shape=None)
                detail_or_none = None
        if response is None:
            return Landed(resource, None, False, fwd_status, None, detail_or_none, words, outcome.error)
        return self._kept(errand, resource, outcome, response, prepared, detail_or_none, words)

    def _kept(
        self,
        errand: Errand,
        resource: Resource,
        outcome: Outcome,
        response: StoredResponse,
        prepared: Prepared,
        detail: Detail | None,
        words: str,
    ) -> Landed:
        """Store what HTTP lets us store."""
        if (with_part := range_requests.kept(resource, response, errand)) is not None:
            return Landed(with_part, response, True, outcome.status, None, detail, words)
        unstored = self._forbids(errand, response)
        if not unstored and "range" in errand.request.fields and response.status != 200:
            unstored = f"a {response.status} that answers a range"
        if not unstored and not self._worth_storing(response, errand):
            unstored = f"a {response.status} with no lifetime and no validator"
        if detail is not None and resource.channel is not None:
            unstored = "the copy of the feed is kept"  # what came passes all the same
        stores = not unstored
        changed = False
        facts: dict[str, Any] = {}
        if outcome.channel is not None and detail is None:
            old, now = resource.channel, self._clock.now()
            changed = prepared.is_change(old)
            facts["channel"] = outcome.channel
            if changed and old is not None:
                facts["changes"] = (*resource.changes, now)[-CHANGES_MAX:]
            promised = push.promise_after(resource, now, changed=changed)
            if promised != resource.promised:
                facts["promised"] = promised
        if stores:
            content = dated(resource, response.content, self._clock.now())
            response = replace(response, content=content) if content is not response.content else response
            if changed and outcome.channel is not None:
                facts["editions"] = editions_with(resource, response, outcome.channel.items, self._clock.now())
            resource = with_variant(resource, response, errand, **facts)
        elif detail is None and response.status < 500:
            # The origin replaced what is stored by something that may not be: the old is nobody's any more. An error
            # of its own replaces nothing (RFC 9111, 4.3.3; RFC 5861, 4).
            resource = without_variant(replace(resource, **facts), errand)
        elif facts:
            resource = replace(resource, **facts)
        return Landed(
            resource, response, stores, outcome.status, None, detail, words, changed=changed, unstored=unstored
        )

    def _worth_storing(self, response: StoredResponse, errand: Errand) -> bool:
        """What is never fresh and cannot be validated would never be used; a feed may still stand in."""
        explicit = freshness.explicit_lifetime(response, targeted=errand.settings.is_targeted)
        return (
            response.content.feed
            or bool(validation.conditional_fields(response))
            or (explicit is not None and explicit[0] > 0)
        )
