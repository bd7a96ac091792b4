"""Interpretation of an origin's response: its effect on the stored resource."""

from collections.abc import Callable
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.cache import freshness, set_cookie, storing, validation, vary
from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.targeted_directives import governing_directives
from feedproxy.clock import Clock, Instant
from feedproxy.errors import FeedproxyError, Overload, TooLarge
from feedproxy.feed.channel import Channel
from feedproxy.feed.xml_redirect import Gone, Moved
from feedproxy.http import content_negotiation, origin_validator_in_etag, uri
from feedproxy.http.message import Response
from feedproxy.http.retry_after_and_rate_limit import retry_after
from feedproxy.refresh import client_keyed_responses, missing_ranges, redirect_following
from feedproxy.refresh.ingest.edit_settings import is_outdated
from feedproxy.refresh.ingest.hub_and_cloud_link_policy import with_links
from feedproxy.refresh.ingest.ingest import NOT_INGESTED, IngestedContent, unmodified_content
from feedproxy.refresh.policy import content_guard, moved_and_gone, polling_with_push
from feedproxy.refresh.policy.content_guard import KeepStored, PassThroughOnly, Replace, Verdict
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
from feedproxy.store.resource import NO_FAILURES, Failures, RelocationKind, Resource, correct_future_instants
from feedproxy.upstream.fetch_result import Fetched, Oversized
from feedproxy.upstream.upstream_errors import MalformedResponse

_REFUSALS_OF_FIELDS = frozenset({400, 403, 406, 412, 413, 431})
"""Status codes with which origins and their firewalls refuse the fields of a request."""

_REFUSALS_OF_CLIENT = frozenset({403, 429})
"""Status codes below 500 that limit the requests of a client. Their Retry-After is obeyed for pages, too."""


class Received(Struct, frozen=True):
    """The responses that a job received, and the ingested content of the last one."""

    chain: redirect_following.RedirectChain
    ingested: IngestedContent


class _Case(Struct, frozen=True):
    """The outcome of a fetch, and the values by which its effect on the stored resource is decided."""

    job: RefreshJob
    before: Resource
    """The resource before the fetch, as far as the job may change it."""
    outcome: FetchOutcome
    now: Instant
    response: StoredResponse | None = None
    """The response in its stored form, or None after a failed fetch."""
    ingested: IngestedContent = NOT_INGESTED

    @property
    def is_feed(self) -> bool:
        """Return whether the target is a known feed, for all clients or for clients with the same fields."""
        before = self.before
        return (
            before.channel is not None
            or self.job.keyed_record.is_feed
            or any(variant.content.feed for variant in before.variants)
        )


def is_conditional(job: RefreshJob) -> bool:
    """Return whether the job's request has conditions. If the copy was edited under other settings, the request has
    none, because it fetches the unedited document again."""
    return job.validate is not None and not is_outdated(job.validate.content, job.settings)


def _is_of_same_target(stored: StoredResponse, target: str | None) -> bool:
    """Return whether a stored response came from `target`, to which the redirects lead now. Queries are not compared.
    The result is True if one of the two addresses is unknown."""
    if stored.final_target is None or target is None:
        return True
    return stored.final_target.partition("?")[0] == target.partition("?")[0]


def _confirmed_for_client(job: RefreshJob, fetched: Fetched) -> StoredResponse | None:
    """Return the origin's 304 with the client's entity tag in place of the origin's. Return None if the 304 does not
    answer the client's conditions."""
    response = received_response(job, fetched, NOT_INGESTED)
    fields = origin_validator_in_etag.fields_for_client(job.client_fields, response.fields)
    return None if fields is None else replace(response, fields=content_negotiation.vary_on(fields, "Accept-Encoding"))


def is_missing_feed(job: RefreshJob, result: RefreshResult) -> bool:
    """Return whether a request for a feed received an error or a page, and no feed is stored. In reverse mode, a page
    of the upstream counts only if Accept asks for a feed."""
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
            return self._apply_outcome(_Case(job, before, FetchOutcome(error=received), self._clock.now()))
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
            refusal = "" if confirmed is None else _storing_refusal(job, replace(confirmed, status=200))
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
            return self._apply_outcome(_Case(job, before, FetchOutcome(error=error), self._clock.now()))
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
        not_stored_reason = _storing_refusal(get_job, freshened)
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
            resource, answer, fwd_status=fetched.response.status, not_stored_reason=_storing_refusal(job, answer)
        )

    def _apply_oversized(self, job: RefreshJob, before: Resource, answer: Oversized) -> RefreshResult:
        if before.channel is not None and job.settings.on_bad_update == "keep":
            outcome = FetchOutcome(error=TooLarge("the content is above buffer_max"))
            return self._apply_outcome(_Case(job, before, outcome, self._clock.now()))
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
        stored_form = received_response(job, fetched, ingested, chain.final_target)
        result = self._apply_outcome(_Case(job, before, outcome, now, stored_form, ingested))
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
        """Return the result of a redirect from a known feed to a protected feed. Clients get the redirect itself. It
        does not count as a failure."""
        resource = replace(before, failures=NO_FAILURES, pending_format_change=None)
        ingested = IngestedContent(unmodified_content(first.response))
        outcome = FetchOutcome(first.response.status, first.response.fields)
        reason = "the redirect leads to a feed that a rule protects: the client requests it there"
        response = received_response(job, first, ingested)
        case = _Case(job, before, outcome, self._clock.now(), response, ingested)
        return _result_for_clients(case, resource, None, reason)

    def _apply_xml_relocation(
        self, job: RefreshJob, before: Resource, ingested: IngestedContent, now: Instant
    ) -> RefreshResult | Resource | None:
        """Return the result of a document that declares a move or the end of the feed. Return None for any other
        document, and for a move to this target or to an invalid address.

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
        sighting = moved_and_gone.record_sighting(before.relocation, ending, location, now, settings, at_once=True)
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

    def _apply_outcome(self, case: _Case) -> RefreshResult:
        verdict = _verdict(case)
        match verdict:
            case KeepStored():
                return self._keep_stored(case, verdict)
            case PassThroughOnly():
                return self._pass_through(case, verdict)
            case Replace(reason):
                resource = case.before
                if resource.pending_format_change is not None or resource.failures != NO_FAILURES:
                    resource = replace(resource, failures=NO_FAILURES, pending_format_change=None)
                return _result_for_clients(case, resource, None, reason)
            case never:
                assert_never(never)

    def _keep_stored(self, case: _Case, verdict: KeepStored) -> RefreshResult:
        """Return the result of a failure during which the stored copy is served."""
        failures = self._failures_after(case, verdict.detail, is_kept=True)
        resource = replace(case.before, failures=failures, pending_format_change=verdict.pending_change)
        return RefreshResult(
            resource,
            case.response,
            False,
            case.outcome.status,
            verdict,
            verdict.detail,
            verdict.reason,
            case.outcome.error,
        )

    def _pass_through(self, case: _Case, verdict: PassThroughOnly) -> RefreshResult:
        """Return the result of a response that clients get although it does not replace a stored feed."""
        before, resource, fault = case.before, case.before, verdict.detail
        if verdict.pending_change != before.pending_format_change:
            resource = replace(resource, pending_format_change=verdict.pending_change)
        if before.channel is not None and case.outcome.status in (401, 410, 451):
            # Access has changed, or the resource is gone: no stored response is used until the origin sends a new one.
            invalid = tuple(replace(variant, invalid=True) for variant in resource.variants)
            resource = replace(resource, variants=invalid, parts=())
        failures = self._failures_after(case, fault, is_kept=False) if fault is not None else NO_FAILURES
        if failures != resource.failures:
            resource = replace(resource, failures=failures)
        # For a target that is not a known feed, only errors and 429 are reported.
        is_reported = before.channel is not None or case.outcome.error is not None or case.outcome.status == 429
        return _result_for_clients(case, resource, fault if is_reported else None, verdict.reason)

    def _failures_after(self, case: _Case, fault: Detail, *, is_kept: bool) -> Failures:
        """Return the failures of the target after an outcome with this fault. `is_kept` is true if the stored copy is
        served. The failures are unchanged if this machine failed, or if the failure delays no further request."""
        failures, status = case.before.failures, case.outcome.status
        causes_pause = causes_back_off(case.before.target, status, is_feed=case.is_feed)
        # Any other error of a page, such as 404, is the answer to its request, and not a limit for other requests.
        states_pause = status is not None and (
            status >= 500 or status in _REFUSALS_OF_CLIENT or (status >= 400 and causes_pause)
        )
        not_before = retry_after(case.outcome.fields, case.now) if states_pause else None
        is_counted = not_before is not None or case.is_feed or causes_pause
        if isinstance(case.outcome.error, Overload) or not is_counted:
            return failures
        return record_failure(
            failures,
            fault,
            case.now,
            case.job.started,
            not_before=not_before,
            jitter=self._jitter(),
            back_off=is_kept or causes_pause,
        )


def _verdict(case: _Case) -> Verdict:
    before, outcome, ingested = case.before, case.outcome, case.ingested
    if before.channel is None and case.is_feed and outcome.status is None and (failure := classify(outcome)):
        # The guard protects shared copies only. A failure delays the client's next request nevertheless.
        return PassThroughOnly(failure.reason, failure.detail)
    if ingested.previous_channel and before.channel:
        before = replace(before, channel=ingested.resolved_channel(before.channel))
    return content_guard.decide_replacement(before, outcome, case.now, case.job.settings)


def _result_for_clients(case: _Case, resource: Resource, detail: Detail | None, reason: str) -> RefreshResult:
    """Return the result for an outcome that clients get.

    The resource in the result contains the response, unless HTTP forbids storing or the copy of a feed is kept.
    `resource` is the resource without the response. `detail` and `reason` describe the outcome.
    """
    job, outcome, response = case.job, case.outcome, case.response
    if response is None:
        return RefreshResult(resource, None, False, outcome.status, None, detail, reason, outcome.error)
    if (with_part := missing_ranges.with_part(resource, response, job)) is not None:
        return RefreshResult(with_part, response, True, outcome.status, None, detail, reason)
    not_stored_reason = _not_stored_reason(job, response, resource, detail)
    is_stored = not not_stored_reason
    changed, facts = False, dict[str, Any]()
    if outcome.channel is not None and detail is None:
        changed, facts = _facts_of_feed(case, outcome.channel, resource, response, is_stored=is_stored)
    if is_stored:
        response = with_last_modified(resource, response, job.request.fields, own_agent=job.own_agent)
        if changed and outcome.channel is not None:
            facts["version_records"] = with_version_record(resource, response, outcome.channel.items, case.now)
        resource = with_variant(resource, response, job, **facts)
    elif detail is None and response.status < 500:
        if response.content.feed and response.content.tag is not None:
            tag = origin_validator_in_etag.carry_validators(response.content.tag, response.fields)
            response = replace(response, content=replace(response.content, tag=tag))
        # The origin replaced the stored response by one that must not be stored: the old one is deleted. A server error
        # replaces nothing (RFC 9111, section 4.3.3; RFC 5861, section 4).
        resource = without_variant(replace(resource, **facts), job)
    return RefreshResult(
        resource,
        response,
        is_stored,
        outcome.status,
        None,
        detail,
        reason,
        changed=changed,
        not_stored_reason=not_stored_reason,
    )


def _facts_of_feed(
    case: _Case, channel: Channel, resource: Resource, response: StoredResponse, *, is_stored: bool
) -> tuple[bool, dict[str, Any]]:
    """Return whether the content of a feed has changed, and the attributes of `resource` that `response` changes.

    `channel` is that of the response. The channel of the resource can be that of another variant, such as another
    language.
    """
    job, ingested, old = case.job, case.ingested, resource.channel
    replaced = vary.choose(resource.variants, job.request.fields, own_agent=job.own_agent)
    tag = response.content.tag
    is_same = replaced is not None and tag is not None and replaced.content.tag == tag
    is_other_variant = is_further_variant(resource, replaced, response) if is_stored else len(job.varying_fields) > 0
    # If the replaced content is in a client's language, the new content may differ by its language alone. Only a push
    # is a change in any case.
    was_in_client_language = replaced is not None and replaced.has_client_language and job.pushed is None
    changed = ingested.is_change(old) and not (is_other_variant or was_in_client_language or is_same)
    if is_other_variant and old is not None:
        # The next refresh of a stored variant is compared with the content that was known before.
        channel = replace(channel, content_digest=ingested.resolved_channel(old).content_digest)
    facts: dict[str, Any] = {"channel": channel}
    if changed and old is not None:
        # A refresh may find several publications. If they have no dates, the change counts as made now.
        facts["changes"] = (*resource.changes, *(ingested.new_publications or (case.now,)))[-CHANGES_MAX:]
    facts["push_lease_expires"] = polling_with_push.push_lease_after(resource, case.now, changed=changed)
    facts["varies_by"] = () if is_stored else client_fields_in_vary(response.fields)
    return changed, facts


def _not_stored_reason(job: RefreshJob, response: StoredResponse, resource: Resource, detail: Detail | None) -> str:
    """Return the reason why a response is not stored, or "" if it is stored. `detail` is the fault of the response."""
    if detail is not None and resource.channel is not None:
        return "the copy of the feed is kept"  # the received response is sent to the client nevertheless
    if refusal := _storing_refusal(job, response):
        return refusal
    if "range" in job.request.fields and response.status != 200:
        return f"a {response.status} that answers a range"
    if not _is_worth_storing(response, job):
        return f"a {response.status} with no lifetime and no validator"
    return ""


def _storing_refusal(job: RefreshJob, response: StoredResponse) -> str:
    """Return the reason why HTTP forbids storing this response, or "" if HTTP permits it."""
    plain, targeted = Response(response.status, response.fields), job.settings.is_targeted
    return storing.reason_not_to_store(job.request, plain, targeted=targeted, authorized=response.authorized) or ""


def _is_worth_storing(response: StoredResponse, job: RefreshJob) -> bool:
    """Return whether the response can be used later: it is a feed, can be validated, has a lifetime, or may be used
    stale (RFC 5861)."""
    if response.content.feed or validation.conditional_fields(response):
        return True
    targeted = job.settings.is_targeted
    explicit = freshness.explicit_lifetime(response.fields, response.response_time, targeted=targeted)
    control = governing_directives(response.fields, targeted=targeted).control
    may_be_stale = bool(control.stale_while_revalidate or control.stale_if_error)
    return (explicit is not None and explicit[0] > 0) or (may_be_stale and not freshness.prohibits_stale_use(control))
