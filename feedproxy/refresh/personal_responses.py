"""What is stored for requests with fields of one client's own, beside what is stored for all.

A request is asked for all with fields that every client could have sent (upstream_request.py). What another request
brought is kept under the fields that it had more, its *key*: it answers requests with the same ones only, and nothing
else that is known of the target is learned from it, no failure, no move, no end, no channel. So no client decides by
its credentials or by an odd field what another client gets.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from feedproxy.cache import vary
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.vary import nominated
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields, Response
from feedproxy.refresh.resource_update import RefreshJob
from feedproxy.request.upstream_request import is_credential, shared_names
from feedproxy.store.resource import Resource

KEYED_MAX = 8
"""Keyed responses of one target: those that were stored last stay."""

_ORDINARY_AGENT = re.compile(r"[\w ()+,./:;@~!*'=-]{0,256}", re.ASCII)
"""A User-Agent with which a feed may be fetched for others, too."""

_WHOLE_OR_PART = frozenset({200, 206})


def selects(stored: StoredResponse, request: Fields, key: Fields, *, own_agent: bool) -> bool:
    """Whether a request with these fields, of which `key` are the client's own, selects a keyed response."""
    agent = stored.key.get("user-agent")
    if agent is not None and (own_agent or request.combined("user-agent") != agent):
        return False
    if _sorted_lines(_without_nominated(key, stored.fields)) != _sorted_lines(stored.key.without("user-agent")):
        return False
    return vary.selects(stored, request, own_agent=own_agent)


def choose(
    resource: Resource, request: Fields, key: Fields, *, own_agent: bool, credentials: bool = False
) -> StoredResponse | None:
    """The stored response that answers this request: of its own key or for all.

    With credentials, one of its own comes first, and a refusal of those without any is no answer.
    """
    keyed = [each for each in resource.keyed if each.status != 206]
    same_key = [each for each in keyed if selects(each, request, key, own_agent=own_agent)]
    # What is kept for one User-Agent is for all that have it.
    of_agent = [each for each in keyed if selects(each, request, Fields(), own_agent=own_agent)]
    shared = [each for each in (*resource.variants, *of_agent) if not credentials or each.status < 400]
    if credentials and same_key:
        shared = []
    return vary.choose((*same_key, *shared), request, own_agent=own_agent)


def response_key(job: RefreshJob, response: Response, *, is_feed: bool, is_new: bool) -> Fields:
    """The key of what came for an errand.

    What Vary nominates is no part of it, since it is compared anyway; but credentials are. The client's own User-Agent
    is one where it went upstream and brought no feed: pages differ by it, and refusals. It is one for a feed, too,
    where it could be markup in a document that repeats it. So is a range that brought neither a part nor the whole. A
    credential that the option shared_fields names is none where the origin allows it, and nothing is stored for all
    yet that this could replace (`is_new`).
    """
    if response.status == 304:
        return job.key if len(job.key) or job.validate is None else job.validate.key
    key, request_fields = _without_nominated(job.key, response.fields), job.request.fields
    if not is_feed and is_new and response.status < 400 and _allows_sharing(response.fields):
        shared = shared_names(job.settings.shared_fields)
        key = Fields(line for line in key if line[0] not in shared)
    agent = request_fields.combined("user-agent")
    is_uncritical_agent = job.own_agent or agent is None or "user-agent" in nominated(response.fields)
    if agent is not None and not is_uncritical_agent and not (is_feed and _ORDINARY_AGENT.fullmatch(agent)):
        key = key.with_added("user-agent", agent)
    if "range" in request_fields and response.status not in _WHOLE_OR_PART and "range" not in key:
        key = key.with_added("range", request_fields.combined("range") or "")
    return key


def keyed_view(resource: Resource, job: RefreshJob) -> Resource:
    """What is known of a target to requests with the key of this errand."""
    responses = [each for each in resource.keyed if _sorted_lines(each.key) == _sorted_lines(job.key)]
    return Resource(
        resource.target,
        variants=tuple(each for each in responses if each.status != 206),
        parts=tuple(each for each in responses if each.status == 206),
    )


def merge_keyed(stored_resource: Resource, learned: Resource, key: Fields) -> Resource:
    """What is held, with what was learned for requests with this key."""
    others = [each for each in stored_resource.keyed if _sorted_lines(each.key) != _sorted_lines(key)]
    same_key = [each for each in (*learned.parts, *learned.variants) if _sorted_lines(each.key) == _sorted_lines(key)]
    return replace(stored_resource, keyed=(*others, *same_key)[-KEYED_MAX:])


def _allows_sharing(response: Fields) -> bool:
    """Whether an answer to a request with Authorization may be shared (RFC 9111, section 3.5)."""
    control = CacheControl.from_fields(response)
    return control.public or control.must_revalidate or control.s_maxage is not None


def _without_nominated(key: Fields, response: Fields) -> Fields:
    names = nominated(response)
    return Fields(line for line in key if line[0] not in names or is_credential(line[0]))


def _sorted_lines(fields: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(fields)
