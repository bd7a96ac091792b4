"""Interpretation of an origin's response: its effect on the stored resource."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.cache import freshness, set_cookie, storing, validation, vary
from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.targeted_directives import governing_directives
from feedproxy.clock import Clock, Instant
from feedproxy.errors import FeedproxyError, Overload, TooLarge
from feedproxy.feed.xml_redirect import Gone, Moved
from feedproxy.http import content_negotiation, origin_validator_in_etag, uri
from feedproxy.http.message import Response
from feedproxy.http.retry_after_and_rate_limit import retry_after
from feedproxy.refresh import client_keyed_responses, missing_ranges, redirect_following
from feedproxy.refresh.ingest.edit_settings import is_outdated
from feedproxy.refresh.ingest.hub_and_cloud_link_policy import with_links
from feedproxy.refresh.ingest.ingest import NOT_INGESTED, IngestedContent, unmodified_content
from feedproxy.refresh.policy import content_guard, moved_and_gone, polling_with_push
from feedproxy.refresh.policy.content_guard import KeepStored, PassThroughOnly, Replace
from feedproxy.refresh.policy.last_modified import with_last_modified
from feedproxy.refresh.policy.min_interval_and_back_off import causes_back_off, record_failure
from feedproxy.refresh.policy.stale_max_after_failure import FetchOutcome, classify
from feedproxy.refresh.policy.versions_for_deltas import with_versions
from feedproxy.refresh.refresh_job import RefreshJob
from feedproxy.refresh.refresh_result import RefreshResult
from feedproxy.refresh.resource_after_refresh import (
    CHANGES_MAX,
    client_fields_in_vary,
    final_target,
    is_further_variant,
    received_response,
    states_lifetime,
    update_relocation,
    with_history,
    with_previous_contents,
    with_variant,
    with_version_record,
    without_variant,
)
from feedproxy.request.upstream_and_public_urls import is_upstream_target, to_upstream
from feedproxy.request.upstream_request import ACCEPT
from feedproxy.store.interface import Store
from feedproxy.store.resource import NO_FAILURES, RelocationKind, Resource, correct_future_instants
from feedproxy.upstream.fetch_result import Fetched, Oversized
from feedproxy.upstream.upstream_errors import MalformedResponse

_REFUSALS_OF_FIELDS = frozenset({400, 403, 406, 412, 413, 431})
"""Status codes with which origins and their firewalls refuse the fields of a request."""

_REFUSALS_OF_CLIENT = frozenset({403, 429})
"""Status codes below 500 with which origins limit the requests of a client. Retry-After then counts for all content."""


class Received(Struct, frozen=True):
    """The responses that a job received, and the ingested content of the last one."""

    chain: redirect_following.RedirectChain
    ingested: IngestedContent


def is_conditional(job: RefreshJob) -> bool:
    """Return whether the job's request has conditions. If the copy was edited under other settings, the request has
    none, because it fetches the unedited document again."""
    return job.validate is not None and not is_outdated(job.validate.content, job.settings)


def _is_of_same_target(stored: StoredResponse, target: str | None) -> bool:
    """Return whether a stored response came from `target`, the address at which the redirects end now.

    Queries are not compared. The result is True if one of the addresses is unknown.
    """
    if stored.final_target is None or target is None:
        return True
    return stored.final_target.partition("?")[0] == target.partition("?")[0]


def _confirmed_for_client(job: RefreshJob, fetched: Fetched) -> StoredResponse | None:
    """Return the origin's 304 with the client's entity tag in place of its own, or None if the 304 does not answer the
    client's conditions."""
    response = received_response(job, fetched, NOT_INGESTED)
    fields = origin_validator_in_etag.fields_for_client(job.client_fields, response.fields)
    return None if fields is None else replace(response, fields=content_negotiation.vary_on(fields, "Accept-Encoding"))


def is_missing_feed(job: RefreshJob, result: RefreshResult) -> bool:
    """Return whether a request for a feed received an error or a page, and no feed is stored.

    In reverse mode, a page of the upstream counts only if Accept asks for a feed.
    """
    if result.resource.channel is not None or not job.own_agent or result.oversized:
        return False
    if (response := result.response) is None or response.status >= 400:
        return True
    label = (response.fields.get("content-type") or "").partition(";")[0].strip().lower()
    if response.status != 200 or label not in ("text/html", "application/xhtml+xml"):
        return False
    return job.request.fields.combined("accept") == ACCEPT or not is_upstream_target(job.request.target, job.settings)


class ResponseInterpreter:
    """Interpreter of received responses. It stores nothing."""

    def __init__(self, store: Store, clock: Clock, jitter: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._jitter = jitter

    def interpret(
        self, job: RefreshJob, received: Received | FeedproxyError, stored: Resource | None
    ) -> RefreshResult | None:
        """Return the result of the received response for the stored resource, or None if another request is needed.

        Another request, without conditions, is needed if a 304 cannot be used, or if the origin refuses a request with
        a client's conditions (_REFUSALS_OF_FIELDS).
        """
        before = (
            correct_future_instants(stored, self._clock.now())
            if stored is not None
            else Resource(job.request.target, fetched=job.started)
        )
        if len(job.key):
            before = client_keyed_responses.keyed_view(before, job)
        elif len(job.varying_fields):
            before = replace(before, failures=job.keyed_record.failures)
        if isinstance(received, FeedproxyError):
            return self._apply_verdict(job, before, FetchOutcome(error=received))
        chain, fetched = received.chain, received.chain.last
        if isinstance(fetched, Oversized):
            return self._apply_oversized(job, before, fetched)
        if fetched.response.status == 304:
            return self._apply_not_modified(job, before, received, fetched)
        if fetched.response.status in _REFUSALS_OF_FIELDS and len(
            origin_validator_in_etag.conditions_for_origin(job.client_fields)
        ):
            return None  # a client chose the conditions: their refusal is no failure of the feed
        if job.request.method == "HEAD":
            return self._apply_head(job, before, fetched)
        return self._apply_complete(job, before, chain, fetched, received.ingested)

    def _apply_not_modified(
        self, job: RefreshJob, before: Resource, received: Received, fetched: Fetched
    ) -> RefreshResult | None:
        if job.validate is None and len(origin_validator_in_etag.conditions_for_origin(job.client_fields)):
            confirmed = _confirmed_for_client(job, fetched)
            refusal = "" if confirmed is None else self._storing_refusal(job, replace(confirmed, status=200))
            if confirmed is not None and not refusal and not states_lifetime(confirmed.fields):
                refusal = "the 304 does not permit it"  # the directives that came with the content still apply
            if confirmed is None or not refusal:
                return None  # the content is needed: for the client, or for the copy that may be stored now
            resource = replace(before, failures=NO_FAILURES)
            reason = "not modified (304): the client's copy is current"
            return RefreshResult(resource, confirmed, fwd_status=304, reason=reason, not_stored_reason=refusal)
        if job.validate is None or not is_conditional(job):
            # RFC 9110, 15.4.5: a 304 answers a conditional request only.
            error = MalformedResponse("the origin answered 304 to a request without conditions")
            return self._apply_verdict(job, before, FetchOutcome(error=error))
        if not _is_of_same_target(job.validate, final_target(job, received.chain.final_target)):
            return None  # a redirect has another target now, where the validators may identify other content
        targeted = job.settings.is_targeted
        freshened = validation.freshen(
            job.validate,
            fetched.response,
            fetched.request_time,
            fetched.response_time,
            request=job.request.fields,
            targeted=targeted,
        )
        if freshened is None:
            return None
        end = final_target(job, received.chain.final_target)
        freshened = freshened if end == freshened.final_target else replace(freshened, final_target=end)
        freshened = set_cookie.with_cookies(freshened, fetched.response.fields, job.request, targeted=targeted)
        freshened = with_links(freshened, job.settings, job.self_href)
        now = self._clock.now()
        sighting = update_relocation(before, received.chain, FetchOutcome(304, channel=before.channel), now, job)
        resource = with_history(before, before, freshened, received.ingested.publication_dates, now)
        facts: dict[str, Any] = {"failures": NO_FAILURES, "relocation": sighting, "fetched": job.started}
        # The 304 may forbid storing the response any longer. A HEAD counts as a GET here, because the stored response
        # answers GET.
        is_get = job.request.method == "GET"
        get_job = job if is_get else replace(job, request=replace(job.request, method="GET"))
        not_stored_reason = self._storing_refusal(get_job, freshened)
        resource = (
            without_variant(replace(resource, **facts), job)
            if not_stored_reason
            else with_variant(resource, freshened, job, **facts)
        )
        reason = "not modified (304): the cached copy is current"
        return RefreshResult(
            resource,
            freshened,
            not not_stored_reason,
            fwd_status=304,
            reason=reason,
            not_stored_reason=not_stored_reason,
        )

    def _storing_refusal(self, job: RefreshJob, response: StoredResponse) -> str:
        """Return the reason why HTTP forbids storing this response, or an empty string."""
        plain, targeted = Response(response.status, response.fields), job.settings.is_targeted
        reason = storing.reason_not_to_store(job.request, plain, targeted=targeted, authorized=response.authorized)
        return reason or ""

    def _apply_head(self, job: RefreshJob, before: Resource, fetched: Fetched) -> RefreshResult:
        """Return the result of a HEAD, with the stored response validated or invalidated (RFC 9111, section 4.3.5)."""
        answer = received_response(job, fetched, NOT_INGESTED)
        resource = before
        selected = vary.choose(before.variants, job.request.fields, own_agent=job.own_agent)
        if selected is not None and fetched.response.status == 200:
            updated = validation.apply_head(
                selected,
                fetched.response,
                fetched.request_time,
                fetched.response_time,
                request=job.request.fields,
                targeted=job.settings.is_targeted,
            )
            resource = with_variant(before, updated or replace(selected, invalid=True), job)
        if fetched.response.status == 200 and before.relocation is not None and not before.relocation.confirmed:
            resource = replace(resource, relocation=None)
        return RefreshResult(
            resource, answer, fwd_status=fetched.response.status, not_stored_reason=self._storing_refusal(job, answer)
        )

    def _apply_oversized(self, job: RefreshJob, before: Resource, answer: Oversized) -> RefreshResult:
        if before.channel is not None and job.settings.on_bad_update == "keep":
            return self._apply_verdict(job, before, FetchOutcome(error=TooLarge("the content is above buffer_max")))
        return RefreshResult(
            replace(before, oversized=True), fwd_status=answer.status, oversized=True, detail=Detail.OVERSIZED
        )

    def _apply_complete(
        self,
        job: RefreshJob,
        before: Resource,
        chain: redirect_following.RedirectChain,
        fetched: Fetched,
        ingested: IngestedContent,
    ) -> RefreshResult:
        now = self._clock.now()
        before = replace(before, oversized=False) if before.oversized else before
        if chain.redirect_error is Detail.ACCESS and before.channel is not None and isinstance(chain.first, Fetched):
            return self._pass_protected_redirect(job, before, chain.first)
        is_shared_job = not len(job.key) and not len(job.varying_fields)
        relocated = self._apply_xml_relocation(job, before, ingested, now) if is_shared_job else None
        if isinstance(relocated, RefreshResult):
            return relocated
        before = relocated or before
        was_redirected = chain.hops > 0 or chain.redirect_error is not None
        if was_redirected and ingested.channel is None and before.channel is None and isinstance(chain.first, Fetched):
            # The redirect leads to something else than a feed, and no feed is stored: the redirect itself is the
            # response.
            fetched, ingested = chain.first, IngestedContent(unmodified_content(chain.first.response))
            chain = replace(chain, final_target="")
        response = fetched.response
        outcome = FetchOutcome(
            response.status,
            response.fields,
            ingested.error,
            ingested.channel,
            empty=ingested.empty,
            html=ingested.html,
            page=ingested.page,
            redirect_error=chain.redirect_error if before.channel is not None else None,
        )
        result = self._apply_verdict(
            job, before, outcome, received_response(job, fetched, ingested, chain.final_target), ingested
        )
        resource = result.resource
        if result.stored and result.response is not None:
            resource = with_versions(resource, ingested.retired_versions)
            resource = with_previous_contents(resource, result.response, ingested.previous_contents, job.settings)
            resource = with_history(resource, before, result.response, ingested.publication_dates, now)
        # Content in any language shows that the target has not ended. Other reports count for shared requests only.
        is_own_content = outcome.status == 200 and chain.hops == 0 and not len(job.key)
        if result.fallback is None and (is_shared_job or is_own_content) and ingested.relocation is None:
            sighting = update_relocation(before, chain, outcome, now, job)
            resource = replace(resource, relocation=sighting) if sighting != resource.relocation else resource
        if chain.from_partial:
            result = replace(result, from_partial=True, fwd_status=206)
        stored_fields = result.response.fields if result.response is not None else response.fields
        unshared_fields = response.fields.end_to_end().without_names_of(stored_fields)
        if resource is result.resource and not len(unshared_fields):
            return result
        return replace(result, resource=resource, unshared_fields=unshared_fields)

    def _pass_protected_redirect(self, job: RefreshJob, before: Resource, first: Fetched) -> RefreshResult:
        """Return the result of a redirect from a known feed to a protected feed: the redirect itself, without a
        failure."""
        resource = replace(before, failures=NO_FAILURES, pending_format_change=None)
        ingested = IngestedContent(unmodified_content(first.response))
        outcome = FetchOutcome(first.response.status, first.response.fields)
        reason = "the redirect leads to a feed that a rule protects: the client requests it there"
        return self._store_response(
            job, resource, outcome, received_response(job, first, ingested), ingested, None, reason
        )

    def _apply_xml_relocation(
        self, job: RefreshJob, before: Resource, ingested: IngestedContent, now: Instant
    ) -> RefreshResult | Resource | None:
        """Return the result of a document that declares a move or the end of the feed, or None for any other document.

        If the new address has itself moved back to this target, the move is recorded as unconfirmed, and only the
        resource is returned.
        """
        settings = job.settings
        match ingested.relocation:
            case Gone():
                ending, location = RelocationKind.GONE, ""
            case Moved(reference):
                ending = RelocationKind.MOVED
                try:
                    location = to_upstream(uri.resolve(job.request.target, reference), settings)
                except FeedproxyError:
                    return None
            case _:
                return None
        sighting = moved_and_gone.record_sighting(
            before.relocation,
            ending,
            location,
            now,
            confirmations=settings.relocation_confirmations,
            spacing=settings.relocation_spacing,
            at_once=True,
        )
        if location and self._leads_back(job.request.target, location, settings.redirects_max):
            if location == job.request.target:
                return None
            return replace(before, relocation=replace(sighting, confirmed=False))
        detail = Detail.MOVED if ending is RelocationKind.MOVED else Detail.GONE
        resource = replace(before, relocation=sighting, failures=NO_FAILURES)
        reason = f"the document says that the feed has {f'moved to {location}' if location else 'ended'}"
        return RefreshResult(resource, fwd_status=200, detail=detail, reason=reason)

    def _leads_back(self, target: str, location: str, limit: int) -> bool:
        visited = {target}
        for _ in range(limit):
            if location in visited:
                return True
            visited.add(location)
            resource_there = self._store.get(location)
            if (
                resource_there is None
                or resource_there.relocation is None
                or resource_there.relocation.kind is not RelocationKind.MOVED
            ):
                return False
            location = resource_there.relocation.location
        return True

    def _apply_verdict(
        self,
        job: RefreshJob,
        before: Resource,
        outcome: FetchOutcome,
        response: StoredResponse | None = None,
        ingested: IngestedContent = NOT_INGESTED,
    ) -> RefreshResult:
        """Return the result of the content guard's decision about an outcome."""
        now = self._clock.now()
        stored = (
            replace(before, channel=ingested.resolved_channel(before.channel))
            if ingested.previous_channel and before.channel
            else before
        )
        verdict = content_guard.decide_replacement(stored, outcome, now, job.settings)
        is_personal_feed = job.keyed_record.is_feed or any(variant.content.feed for variant in before.variants)
        is_feed = before.channel is not None or is_personal_feed
        if before.channel is None and is_personal_feed and outcome.status is None and (failure := classify(outcome)):
            # The guard protects shared copies only. A failure delays the client's next request nevertheless.
            verdict = PassThroughOnly(failure.reason, failure.detail)
        fwd_status = outcome.status
        back_off = causes_back_off(before.target, fwd_status, is_feed=is_feed)
        # Any other error of a page, such as 404, is the answer to its request, and not a limit for other requests.
        states_pause = fwd_status is not None and (
            fwd_status >= 500 or fwd_status in _REFUSALS_OF_CLIENT or (fwd_status >= 400 and back_off)
        )
        not_before = retry_after(outcome.fields, now) if states_pause else None
        match verdict:
            case KeepStored(detail, _, reason, pending_change):
                failures = before.failures
                if not isinstance(outcome.error, Overload):
                    failures = record_failure(
                        before.failures, detail, now, job.started, not_before=not_before, jitter=self._jitter()
                    )
                resource = replace(before, failures=failures, pending_format_change=pending_change)
                return RefreshResult(resource, response, False, fwd_status, verdict, detail, reason, outcome.error)
            case PassThroughOnly(reason, fault, pending_change):
                resource = (
                    replace(before, pending_format_change=pending_change)
                    if pending_change != before.pending_format_change
                    else before
                )
                if before.channel is not None and outcome.status in (401, 410, 451):
                    # Access has changed, or the resource is gone: no stored response is used until the origin sends
                    # a new one.
                    invalid = tuple(replace(variant, invalid=True) for variant in resource.variants)
                    resource = replace(resource, variants=invalid, parts=())
                is_origin_fault = fault is not None and not isinstance(outcome.error, Overload)
                is_counted = not_before is not None or is_feed or back_off
                if fault is not None and is_origin_fault and is_counted:
                    failures = record_failure(
                        before.failures,
                        fault,
                        now,
                        job.started,
                        not_before=not_before,
                        jitter=self._jitter(),
                        back_off=back_off,
                    )
                    resource = replace(resource, failures=failures)
                elif fault is None and resource.failures != NO_FAILURES:
                    resource = replace(resource, failures=NO_FAILURES)
                # For a target that is not a known feed, only errors and 429 are reported.
                is_reported = before.channel is not None or outcome.error is not None or outcome.status == 429
                detail_or_none = fault if is_reported else None
            case Replace(reason):
                resource = before
                if before.pending_format_change is not None or before.failures != NO_FAILURES:
                    resource = replace(before, failures=NO_FAILURES, pending_format_change=None)
                detail_or_none = None
        if response is None:
            return RefreshResult(resource, None, False, fwd_status, None, detail_or_none, reason, outcome.error)
        return self._store_response(job, resource, outcome, response, ingested, detail_or_none, reason)

    def _store_response(
        self,
        job: RefreshJob,
        resource: Resource,
        outcome: FetchOutcome,
        response: StoredResponse,
        ingested: IngestedContent,
        detail: Detail | None,
        reason: str,
    ) -> RefreshResult:
        """Return the result for a response that clients get.

        The resource in the result contains the response, unless HTTP forbids storing or the copy of a feed is kept.
        `detail` and `reason` describe the outcome.
        """
        if (with_part := missing_ranges.with_part(resource, response, job)) is not None:
            return RefreshResult(with_part, response, True, outcome.status, None, detail, reason)
        not_stored_reason = self._storing_refusal(job, response)
        if not not_stored_reason and "range" in job.request.fields and response.status != 200:
            not_stored_reason = f"a {response.status} that answers a range"
        if not not_stored_reason and not self._is_worth_storing(response, job):
            not_stored_reason = f"a {response.status} with no lifetime and no validator"
        if detail is not None and resource.channel is not None:
            not_stored_reason = (
                "the copy of the feed is kept"  # the received response is sent to the client nevertheless
            )
        stores = not not_stored_reason
        changed = False
        facts: dict[str, Any] = {}
        if outcome.channel is not None and detail is None:
            old, now, tag = resource.channel, self._clock.now(), response.content.tag
            # The channel may be that of another variant, such as another language.
            replaced = vary.choose(resource.variants, job.request.fields, own_agent=job.own_agent)
            is_same = replaced is not None and replaced.content.tag is not None and replaced.content.tag == tag
            is_other_variant = (
                is_further_variant(resource, replaced, response) if stores else len(job.varying_fields) > 0
            )
            # If the replaced content is in a client's language, the new content may differ by its language alone. Only
            # a push is a change in any case.
            was_in_client_language = replaced is not None and replaced.has_client_language and job.pushed is None
            is_comparable = not is_other_variant and not was_in_client_language
            changed = ingested.is_change(old) and is_comparable and not is_same
            facts["channel"] = outcome.channel
            if is_other_variant and old is not None:
                # The next refresh of a stored variant is compared with the content that was known before.
                digest = ingested.resolved_channel(old).content_digest
                facts["channel"] = replace(outcome.channel, content_digest=digest)
            if changed and old is not None:
                # A refresh may find several publications. If they have no dates, the change counts as made now.
                facts["changes"] = (*resource.changes, *(ingested.new_publications or (now,)))[-CHANGES_MAX:]
            lease_expires = polling_with_push.push_lease_after(resource, now, changed=changed)
            if lease_expires != resource.push_lease_expires:
                facts["push_lease_expires"] = lease_expires
            varies_by = () if stores else client_fields_in_vary(response.fields)
            if varies_by != resource.varies_by:
                facts["varies_by"] = varies_by
        if stores:
            response = with_last_modified(resource, response, job.request.fields, own_agent=job.own_agent)
            if changed and outcome.channel is not None:
                facts["version_records"] = with_version_record(
                    resource, response, outcome.channel.items, self._clock.now()
                )
            resource = with_variant(resource, response, job, **facts)
        elif detail is None and response.status < 500:
            if response.content.feed and response.content.tag is not None:
                tag = origin_validator_in_etag.carry_validators(response.content.tag, response.fields)
                response = replace(response, content=replace(response.content, tag=tag))
            # The origin replaced the stored response by one that must not be stored: the old one is deleted. A
            # server error replaces nothing (RFC 9111, section 4.3.3; RFC 5861, section 4).
            resource = without_variant(replace(resource, **facts), job)
        elif facts:
            resource = replace(resource, **facts)
        return RefreshResult(
            resource,
            response,
            stores,
            outcome.status,
            None,
            detail,
            reason,
            changed=changed,
            not_stored_reason=not_stored_reason,
        )

    def _is_worth_storing(self, response: StoredResponse, job: RefreshJob) -> bool:
        """Return whether the response can be used later: while fresh, after validation, as a stale copy of a feed, or
        stale with the permission of RFC 5861."""
        targeted = job.settings.is_targeted
        explicit = freshness.explicit_lifetime(response.fields, response.response_time, targeted=targeted)
        control = governing_directives(response.fields, targeted=targeted).control
        may_be_stale = bool(control.stale_while_revalidate or control.stale_if_error)
        return (
            response.content.feed
            or bool(validation.conditional_fields(response))
            or (explicit is not None and explicit[0] > 0)
            or (may_be_stale and not freshness.prohibits_stale_use(control))
        )
