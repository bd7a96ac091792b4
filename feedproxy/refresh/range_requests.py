"""Parts of what is no feed: answered from, completed, kept. What may be done is decided in cache/partial_content.py."""

from dataclasses import replace

from feedproxy.cache import partial_content, reuse, vary
from feedproxy.cache.freshness import Freshness
from feedproxy.cache.partial_content import Combined, Missing
from feedproxy.cache.reuse import Reuse
from feedproxy.cache.stored_response import Content, StoredResponse
from feedproxy.cache.storing import Store
from feedproxy.clock import Instant
from feedproxy.http.message import Fields, Response
from feedproxy.refresh import personal_responses, redirects
from feedproxy.refresh.policy.feed_freshness import assess
from feedproxy.refresh.resource_update import Errand
from feedproxy.refresh.result import Landed
from feedproxy.request.context import RequestContext
from feedproxy.store.resource import Resource
from feedproxy.upstream.client import Oversized

UNSATISFIABLE = 416


def from_part(ask: RequestContext, resource: Resource | None, now: Instant) -> tuple[StoredResponse, Freshness] | None:
    """What a range is answered with out of a fresh part, and how fresh it is."""
    if resource is None or ask.request.method != "GET" or "range" not in ask.request.fields:
        return None
    for part in _selected(ask, resource):
        piece, freshness = partial_content.cut(part, ask.request.fields), assess(resource, part, ask.settings, now)
        if piece is not None and _may_be_used(ask, part, freshness, now):
            return piece, freshness
    return None


def rest_of(ask: RequestContext, resource: Resource | None, now: Instant) -> Missing | None:
    """What to ask the origin for, where a part makes it unnecessary to ask for all."""
    if resource is None or resource.channel is not None:
        return None
    wanted = ask.request.fields if ask.request.method == "GET" else Fields()  # Range is defined for GET
    for part in _selected(ask, resource):
        fresh = _may_be_used(ask, part, assess(resource, part, ask.settings, now), now)
        missing = partial_content.missing(part, wanted, fresh=fresh, size_max=ask.settings.buffer_max)
        if isinstance(missing, Missing):
            return missing
    return None


async def completed(fetcher: redirects.Fetching, errand: Errand, rest: Missing) -> redirects.Trail | None:
    """The part and what was missing as one response; None where all has to be asked for after all."""
    fields = errand.request.fields.without("if-range").with_field("Range", rest.range)
    # Ranges are of coded bytes, if they are coded; the part is not.
    fields = fields.with_field("Accept-Encoding", "identity")
    if rest.condition is not None:
        fields = fields.with_added("If-Range", rest.condition)
    answer = await fetcher.fetch(replace(errand.request, fields=fields), exempt=errand.exempt)
    if isinstance(answer, Oversized):
        return redirects.Trail(answer, answer)
    if answer.response.status == UNSATISFIABLE or answer.response.status in redirects.REDIRECTS:
        return None
    if answer.response.status != 206:
        return redirects.Trail(answer, answer)
    match partial_content.combine(rest.part, answer.response):
        case Combined(response) if _suffices(response, rest.part, errand):
            answer = replace(answer, response=response)
            return redirects.Trail(answer, answer, combined=True)
    return None


def _suffices(response: Response, part: StoredResponse, errand: Errand) -> bool:
    """An origin may send less than it was asked for."""
    together = replace(part, fields=response.fields, content=Content({"identity": response.body}))
    return response.status == 200 or partial_content.cut(together, errand.request.fields) is not None


def cut_out(ask: RequestContext, landed: Landed) -> Landed:
    """What came, cut to the range that this reader asked for: more of it is kept now."""
    if not landed.combined or landed.response is None or landed.response.status != 206:
        return landed
    return replace(landed, response=partial_content.cut(landed.response, ask.request.fields) or landed.response)


def kept(resource: Resource, response: StoredResponse, errand: Errand) -> Resource | None:
    """The resource with this part; None where the response is none, or may not be kept."""
    if response.status != 206 or resource.channel is not None:
        return None
    verdict = partial_content.may_keep(errand.request, response, targeted=errand.settings.is_targeted)
    asked, own = errand.request.fields, errand.own_agent
    if not isinstance(verdict, Store) or vary.choose(resource.variants, asked, own_agent=own) is not None:
        return None
    others = [each for each in resource.parts if not vary.selects(each, asked, own_agent=own)]
    same = tuple(each for each in resource.parts if each not in others)
    return replace(resource, parts=(*others, *partial_content.with_part(same, response))[-partial_content.PARTS_MAX :])


def _selected(ask: RequestContext, resource: Resource) -> list[StoredResponse]:
    """The parts that this request selects (RFC 9111, section 4.1), newest first."""
    fields, own = ask.upstream_request.fields, ask.own_agent
    keyed = [each for each in reversed(resource.keyed) if each.status == 206]
    return [
        *(each for each in keyed if personal_responses.selects(each, fields, ask.key, own_agent=own)),
        *(each for each in reversed(resource.parts) if vary.selects(each, fields, own_agent=own)),
    ]


def _may_be_used(ask: RequestContext, part: StoredResponse, freshness: Freshness, now: Instant) -> bool:
    return isinstance(reuse.decide(part, ask.directives, freshness, now, stale_limit=0), Reuse)
