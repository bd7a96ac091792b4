"""What is stored for requests with fields of one client's own, beside what is stored for all.

A request is asked for all with fields that every client could have sent (upstream.py). What another request brought is
kept under the fields that it had more, its *key*: it answers requests with the same ones only, and nothing else that is
known of the target is learned from it, no failure, no move, no end, no channel. So no client decides by its credentials
or by an odd field what another client gets.
"""

from collections.abc import Iterable
from dataclasses import replace

from feedproxy.cache import variation
from feedproxy.cache.stored import StoredResponse
from feedproxy.cache.variation import nominated
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields, Response
from feedproxy.origin.keeping import Errand
from feedproxy.origin.upstream import is_credential
from feedproxy.store.resource import Resource

KEYED_MAX = 8
"""Keyed responses of one target: those that were stored last stay."""

_WHOLE_OR_PART = frozenset({200, 206})


def selects(stored: StoredResponse, request: Fields, key: Fields, *, own_agent: bool) -> bool:
    """Whether a request with these fields, of which `key` are the client's own, selects a keyed response."""
    agent = stored.key.get("user-agent")
    if agent is not None and (own_agent or request.combined("user-agent") != agent):
        return False
    if _lines(_without_nominated(key, stored.fields)) != _lines(stored.key.without("user-agent")):
        return False
    return variation.selects(stored, request, own_agent=own_agent)


def choose(
    resource: Resource, request: Fields, key: Fields, *, own_agent: bool, credentials: bool = False
) -> StoredResponse | None:
    """The stored response that answers this request: of its own key or for all.

    With credentials, one of its own comes first, and a refusal of those without any is no answer.
    """
    own = [each for each in resource.keyed if each.status != 206]
    own = [each for each in own if selects(each, request, key, own_agent=own_agent)]
    shared = [each for each in resource.variants if not credentials or each.status < 400]
    if credentials and own:
        shared = []
    return variation.choose((*own, *shared), request, own_agent=own_agent)


def settled(errand: Errand, response: Response, *, is_feed: bool, is_new: bool) -> Fields:
    """The key of what came for an errand.

    What Vary nominates is no part of it, since it is compared anyway; but credentials are. The client's own User-Agent
    is one where it went upstream and brought no feed: pages differ by it, and refusals. So is a range that brought
    neither a part nor the whole. `is_new`: nothing is stored for all yet that this could replace.
    """
    if response.status == 304:
        return errand.key if len(errand.key) or errand.validate is None else errand.validate.key
    key, asked = _without_nominated(errand.key, response.fields), errand.request.fields
    if not is_feed and is_new and not response.status >= 400:
        key = _as_declared(key, errand.key, response.fields)
    agent = asked.combined("user-agent")
    if not errand.own_agent and not is_feed and agent is not None and "user-agent" not in nominated(response.fields):
        key = key.with_added("user-agent", agent)
    if "range" in asked and response.status not in _WHOLE_OR_PART and "range" not in key:
        key = key.with_added("range", asked.combined("range") or "")
    return key


def alone(resource: Resource, errand: Errand) -> Resource:
    """What is known of a target to requests with the key of this errand."""
    responses = [each for each in resource.keyed if _lines(each.key) == _lines(errand.key)]
    return Resource(
        resource.target,
        variants=tuple(each for each in responses if each.status != 206),
        parts=tuple(each for each in responses if each.status == 206),
    )


def merged(held: Resource, learned: Resource, key: Fields) -> Resource:
    """What is held, with what was learned for requests with this key."""
    others = [each for each in held.keyed if _lines(each.key) != _lines(key)]
    own = [each for each in (*learned.parts, *learned.variants) if _lines(each.key) == _lines(key)]
    return replace(held, keyed=(*others, *own)[-KEYED_MAX:])


def _as_declared(key: Fields, sent: Fields, response: Fields) -> Fields:
    """The key of what is no feed, and has an origin that says in its answer who may have it.

    One that names a field that this request brought (Vary) has said by what its answers differ. One that allows shared
    caching of an answer to credentials (RFC 9111, section 3.5) has thought of them.
    """
    names = nominated(response)
    if any(name in names for name, _ in sent if not is_credential(name)):
        key = Fields(line for line in key if is_credential(line[0]))
    control = CacheControl.from_fields(response)
    shared = control.public or control.must_revalidate or control.s_maxage is not None
    return Fields() if shared and {name for name, _ in key} == {"authorization"} else key


def _without_nominated(key: Fields, response: Fields) -> Fields:
    names = nominated(response)
    return Fields(line for line in key if line[0] not in names or is_credential(line[0]))


def _lines(fields: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(fields)
