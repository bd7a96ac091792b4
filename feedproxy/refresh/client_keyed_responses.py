"""Keyed responses: responses for requests with client-specific fields, such as credentials. They are stored beside the
shared responses.

The *key* of a request contains its client-specific fields. A keyed response answers only requests with the same key. It
does not affect other clients: an error does not count as a failure of the feed, and a redirect or 410 does not move or
end the feed.
"""

import re

from msgspec.structs import replace

from feedproxy.cache import storing, vary
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.content_negotiation import vary_names
from feedproxy.http.credential_fields import is_credential
from feedproxy.http.message import NO_FIELDS, Fields, Response
from feedproxy.refresh.ingest.ingest import IngestedContent
from feedproxy.refresh.policy.freshness_by_hints_and_history import assess
from feedproxy.refresh.redirect_following import RedirectChain
from feedproxy.refresh.refresh_job import RefreshJob
from feedproxy.refresh.refresh_result import RefreshResult
from feedproxy.refresh.resource_after_refresh import client_fields_in_vary
from feedproxy.request.context import RequestContext, UpstreamRequest
from feedproxy.request.upstream_request import shared_names
from feedproxy.store.resource import Resource
from feedproxy.upstream.fetch_result import Oversized

KEYED_MAX = 8
"""At most this many keyed responses of one target are stored. The oldest is removed first."""

_ORDINARY_AGENT = re.compile(r"[\w ()+,./:;@~!*'=-]{0,256}", re.ASCII)
"""Pattern of a User-Agent without markup. A feed that was fetched with such a User-Agent may answer all clients."""

_WHOLE_OR_PART = frozenset({200, 206})


def selects(stored: StoredResponse, upstream: UpstreamRequest) -> bool:
    """Return whether a client's request selects the keyed response `stored`. `upstream` is the request for the
    origin."""
    fields, agent = upstream.request.fields, stored.key.get("user-agent")
    if agent is not None and (upstream.own_agent or fields.combined("user-agent") != agent):
        return False
    if sorted(_without_nominated(upstream.key, stored.fields)) != sorted(stored.key.without("user-agent")):
        return False
    return vary.selects(stored, fields, own_agent=upstream.own_agent)


def choose(resource: Resource, upstream: UpstreamRequest) -> StoredResponse | None:
    """Return the stored response that a client's request selects, or None if there is none.

    `upstream` is the request for the origin. If it has credentials, responses with the key of the request take
    precedence over shared responses, and shared error responses are not used.
    """
    keyed = [response for response in resource.keyed if response.status != 206]
    same_key = [response for response in keyed if selects(response, upstream)]
    # A response that is keyed by User-Agent alone is for all clients with that User-Agent.
    without_key = replace(upstream, key=NO_FIELDS)
    shared = [*resource.variants, *(response for response in keyed if selects(response, without_key))]
    if upstream.has_credentials:
        shared = [] if same_key else [response for response in shared if response.status < 400]
    return vary.choose((*same_key, *shared), upstream.request.fields, own_agent=upstream.own_agent)


def response_key(job: RefreshJob, response: Response, *, is_feed: bool, is_new: bool) -> Fields:
    """Return the key of the response that a job received. The key contains:

    * the client-specific fields of the request,
    * the client's User-Agent, if the response is not a feed, or if the User-Agent can contain markup,
    * the client's Range, if the response has another status than 200 and 206.

    Fields that Vary nominates are left out, because Vary selects the response by them. Credentials are never left out.

    The fields of the option `shared_fields` are left out, too, if the target has neither a shared response nor a feed
    (`is_new`), the response is neither a feed nor an error, and the origin permits sharing.

    A 304 has the key of its request. If this key is empty, the 304 has the key of the stored response that it
    validates.
    """
    if response.status == 304:
        return job.key if len(job.key) or job.validate is None else job.validate.key
    key, request_fields = _without_nominated(job.key, response.fields), job.request.fields
    if not is_feed and is_new and response.status < 400 and _allows_sharing(response.fields):
        shared = shared_names(job.settings.shared_fields)
        key = Fields(line for line in key if line[0] not in shared)
    agent = request_fields.combined("user-agent")
    is_uncritical_agent = job.own_agent or agent is None or "user-agent" in vary_names(response.fields)
    if agent is not None and not is_uncritical_agent and not (is_feed and _ORDINARY_AGENT.fullmatch(agent)):
        key = key.with_added("user-agent", agent)
    if "range" in request_fields and response.status not in _WHOLE_OR_PART and "range" not in key:
        key = key.with_added("range", request_fields.combined("range") or "")
    return key


def is_feed_for_all_languages(job: RefreshJob, chain: RedirectChain, ingested: IngestedContent) -> bool:
    """Return whether the response to a request with Accept-Language may be the shared copy of a new feed. The response
    must be a 200 with a readable feed, and storable. The result is False after a redirect or with Content-Language:
    both can depend on the language even without Vary."""
    if ingested.channel is None or ingested.error is not None or isinstance(chain.last, Oversized):
        return False
    response = chain.last.response
    if response.status != 200 or chain.hops or chain.redirect_error or "content-language" in response.fields:
        return False
    is_targeted = job.settings.is_targeted
    return storing.reason_not_to_store(job.request, response, targeted=is_targeted) is None


def is_client_specific(context: RequestContext, result: RefreshResult) -> bool:
    """Return whether the request to the origin had client-specific fields, or the response is keyed."""
    is_shared = result.response is None or not len(result.response.key)
    return not is_shared or len(context.upstream.key) > 0 or len(context.upstream.varying_fields) > 0


def needs_shared_copy(context: RequestContext, result: RefreshResult, resource: Resource | None, now: Instant) -> bool:
    """Return whether the shared copy must be refreshed after a client-specific request: it is stale, or the request has
    no credentials and found a new feed. `result` is the result of the request, and `resource` the stored resource after
    it."""
    upstream, response = context.upstream, result.response
    is_shared = response is None or not len(response.key)
    if resource is None or resource.channel is None:
        return not upstream.has_credentials and response is not None and response.content.feed
    newest = resource.variants[-1] if resource.variants else None
    if newest is None or (result.stored and (is_shared or len(upstream.varying_fields))):
        return False
    return not assess(resource, newest, context.settings, now).is_fresh(now)


def unstored_varying_names(result: RefreshResult) -> frozenset[str]:
    """Return the names of the client's fields by which a response varies, if the response was not stored.

    The result is empty if the response was stored or is a feed. It is also empty for a failure, because a failing
    origin is not asked a second time.
    """
    response = result.response
    if response is None or result.stored or response.content.feed or response.status >= 500 or response.status == 429:
        return frozenset()
    return frozenset(client_fields_in_vary(response.fields))


def needs_second_fetch(context: RequestContext, result: RefreshResult, unstored_names: frozenset[str]) -> bool:
    """Return True if the response varies by a client's field that the request to the origin lacked. Fields by which the
    stored responses varied before do not count. The origin is then asked again, with the field. `unstored_names` is the
    result of `unstored_varying_names`."""
    known_names = context.resource.varying_names if context.resource is not None else frozenset[str]()
    varying_names = (result.resource.varying_names | unstored_names) - known_names
    return not context.upstream.withheld_names.isdisjoint(varying_names)


def keyed_view(resource: Resource, job: RefreshJob) -> Resource:
    """Return a resource that contains only the keyed responses and failures with this job's key."""
    responses = [response for response in resource.keyed if sorted(response.key) == sorted(job.key)]
    return Resource(
        resource.target,
        variants=tuple(response for response in responses if response.status != 206),
        parts=tuple(response for response in responses if response.status == 206),
        failures=job.keyed_record.failures,
    )


def merge_keyed(stored_resource: Resource, learned: Resource, key: Fields) -> Resource:
    """Return the stored resource after a refresh with this key. Responses with this key in `learned`, the result of the
    refresh, replace the stored responses with this key. Only the latest KEYED_MAX keyed responses remain."""
    others = [response for response in stored_resource.keyed if sorted(response.key) != sorted(key)]
    same_key = [response for response in (*learned.parts, *learned.variants) if sorted(response.key) == sorted(key)]
    return replace(stored_resource, keyed=(*others, *same_key)[-KEYED_MAX:])


def _allows_sharing(response: Fields) -> bool:
    """Return whether a response to a request with Authorization may be shared (RFC 9111, section 3.5)."""
    control = CacheControl.from_fields(response)
    return control.public or control.must_revalidate or control.s_maxage is not None


def _without_nominated(key: Fields, response: Fields) -> Fields:
    names = vary_names(response)
    return Fields(line for line in key if line[0] not in names or is_credential(line[0]))
