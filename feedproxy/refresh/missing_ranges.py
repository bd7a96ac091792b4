"""Range requests for content that is not a feed. A *part* is a stored 206. Only the ranges that parts lack are fetched.

cache/partial_content.py decides which parts may be used and combined.
"""

from msgspec.structs import replace

from feedproxy.cache import partial_content, reuse_decision, vary
from feedproxy.cache.freshness import Freshness
from feedproxy.cache.partial_content import Missing
from feedproxy.cache.reuse_decision import Reuse
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.clock import Instant
from feedproxy.http.message import NO_FIELDS, Response
from feedproxy.refresh import client_keyed_responses, redirect_following
from feedproxy.refresh.policy.freshness_by_hints_and_history import assess
from feedproxy.refresh.refresh_job import RefreshJob
from feedproxy.refresh.refresh_result import RefreshResult
from feedproxy.request.context import RequestContext
from feedproxy.store.resource import Resource
from feedproxy.upstream.fetch_result import Oversized

UNSATISFIABLE = 416


def serve_from_part(
    context: RequestContext, resource: Resource | None, now: Instant
) -> tuple[StoredResponse, Freshness] | None:
    """Return the response to a range request, made from a fresh stored part, and the freshness of this part. Return
    None if no stored part suffices."""
    if resource is None or context.request.method != "GET" or "range" not in context.request.fields:
        return None
    for part in _selected_parts(context, resource):
        piece, freshness = (
            partial_content.respond_with_part(part, context.request.fields),
            assess(resource, part, context.settings, now),
        )
        if piece is not None and _is_usable(context, part, freshness, now):
            return piece, freshness
    return None


def missing_range(context: RequestContext, resource: Resource | None, now: Instant) -> Missing | None:
    """Return the range that completes a stored part for this request, or None if the whole content must be fetched."""
    if resource is None or resource.channel is not None:
        return None
    requested = context.request.fields if context.request.method == "GET" else NO_FIELDS  # Range is defined for GET
    for part in _selected_parts(context, resource):
        fresh = _is_usable(context, part, assess(resource, part, context.settings, now), now)
        missing = partial_content.range_to_fetch(part, requested, fresh=fresh, size_max=context.settings.buffer_max)
        if missing is not None:
            return missing
    return None


async def fetch_missing(
    fetcher: redirect_following.OriginClient, job: RefreshJob, missing: Missing
) -> redirect_following.RedirectChain | None:
    """Fetch the missing range, combine it with the stored part, and return the result.

    Return None if the whole content must be fetched: after a redirect, a 416, or a range that is too short or cannot be
    combined. A response with any other status than 206 is returned unchanged, and so is Oversized. Raises the errors of
    `fetcher`.
    """
    fields = job.request.fields.without("if-range").with_field("Range", missing.range)
    # Ranges count coded bytes if the content is coded. The stored part is not coded.
    fields = fields.with_field("Accept-Encoding", "identity")
    if missing.condition is not None:
        fields = fields.with_added("If-Range", missing.condition)
    answer = await fetcher.fetch(replace(job.request, fields=fields), skip_address_check=job.skip_address_check)
    if isinstance(answer, Oversized):
        return redirect_following.RedirectChain(answer, answer)
    if answer.response.status == UNSATISFIABLE or answer.response.status in redirect_following.REDIRECTS:
        return None
    if answer.response.status != 206:
        return redirect_following.RedirectChain(answer, answer)
    response = partial_content.combine(missing.part, answer.response)
    if response is None or not _covers_range(response, missing.part, job):
        return None
    answer = replace(answer, response=response)
    return redirect_following.RedirectChain(answer, answer, from_partial=True)


def _covers_range(response: Response, part: StoredResponse, job: RefreshJob) -> bool:
    """Return whether the combined response covers the requested range. An origin may send less than requested."""
    combined = replace(part, fields=response.fields, content=Content(Bodies({"identity": response.body})))
    return response.status == 200 or partial_content.respond_with_part(combined, job.request.fields) is not None


def cut_to_range(context: RequestContext, result: RefreshResult) -> RefreshResult:
    """Return the result with only the range that the client requested."""
    if not result.from_partial or result.response is None or result.response.status != 206:
        return result
    return replace(
        result, response=partial_content.respond_with_part(result.response, context.request.fields) or result.response
    )


def with_part(resource: Resource, response: StoredResponse, job: RefreshJob) -> Resource | None:
    """Return the resource with the response added as a part. Return None if the resource is a feed, if the response is
    no part or must not be stored, or if the request selects a whole stored response."""
    if response.status != 206 or resource.channel is not None:
        return None
    reason = partial_content.reason_not_to_store_part(job.request, response, targeted=job.settings.is_targeted)
    request_fields, own = job.request.fields, job.own_agent
    if reason is not None or vary.choose(resource.variants, request_fields, own_agent=own) is not None:
        return None
    others = [part for part in resource.parts if not vary.selects(part, request_fields, own_agent=own)]
    replaced = tuple(part for part in resource.parts if part not in others)
    return replace(
        resource, parts=(*others, *partial_content.with_part(replaced, response))[-partial_content.PARTS_MAX :]
    )


def _selected_parts(context: RequestContext, resource: Resource) -> list[StoredResponse]:
    """Return the stored parts that this request selects (RFC 9111, section 4.1), newest first."""
    fields, own = context.upstream.request.fields, context.upstream.own_agent
    keyed = [part for part in reversed(resource.keyed) if part.status == 206]
    return [
        *(part for part in keyed if client_keyed_responses.selects(part, context.upstream)),
        *(part for part in reversed(resource.parts) if vary.selects(part, fields, own_agent=own)),
    ]


def _is_usable(context: RequestContext, part: StoredResponse, freshness: Freshness, now: Instant) -> bool:
    return isinstance(reuse_decision.decide(part, context.directives, freshness, now, stale_limit=0), Reuse)
