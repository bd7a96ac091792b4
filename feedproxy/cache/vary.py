"""Selection of a stored response by request fields (Vary).  RFC 9111, section 4.1

Values are compared after the normalisations that section 4.1 permits. Cookie and Authorization, which identify users,
and values longer than PARSED_MAX are compared verbatim. Three fields have their own rules:

* Accept-Encoding is not compared if this proxy compresses the content. If clients get the origin's bytes unchanged, the
  request must accept the coding of these bytes.
* User-Agent is not compared if feedproxy sent its own User-Agent to fetch the response, and would send it again.
* Accept-Language selects a response with equal language ranges in any order, and a response with a Content-Language
  that equals the language with the highest weight.
"""

from collections.abc import Iterable

from feedproxy.cache.freshness import date_of
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant
from feedproxy.http.content_negotiation import choose_coding, vary_names, weights_in
from feedproxy.http.field_values import PARSED_MAX, split_list
from feedproxy.http.memoize import memoize_short
from feedproxy.http.message import NO_FIELDS, Fields

VARIANTS_MAX = 8
"""Maximum number of variants of one target that are stored."""

_PERSONAL = frozenset({"cookie", "authorization"})


def request_fields_for(response: Fields, request: Fields) -> Fields:
    """Return the request's fields that the response's Vary nominates."""
    names = vary_names(response)
    return request.only(frozenset(names)) if names else NO_FIELDS


def selects(stored: StoredResponse, request: Fields, *, own_agent: bool) -> bool:
    """Return True if the fields `request` select the stored response. `own_agent` is True if the request would be
    forwarded with feedproxy's own User-Agent."""
    names = vary_names(stored.fields)
    # 'A stored response with a Vary header field value containing a member "*" always fails to match.'
    if names == ("*",):
        return False
    # "the cache MUST NOT use that stored response without revalidation unless all the presented request
    # header fields nominated by that Vary field value match those fields in the original request"
    return all(_matches(name, stored, request, own_agent=own_agent) for name in names)


def _matches(name: str, stored: StoredResponse, request: Fields, *, own_agent: bool) -> bool:
    if name == "user-agent" and own_agent and stored.own_agent:
        return True
    if name == "accept-encoding":
        # "When a nominated request header field has a known mechanism for ranking preference (e.g., qvalues on
        # Accept and similar request header fields), that mechanism MAY be used to choose a preferred response."
        bodies = stored.content.bodies
        if stored.content.tag is not None or "identity" in bodies:
            return True
        return choose_coding(request.combined("accept-encoding"), tuple(bodies)) in bodies
    stored_value, presented = stored.vary_request.combined(name), request.combined(name)
    # "If (after any normalization that might take place) a header field is absent from a request, it can
    # only match another request if it is also absent there."
    if stored_value is None or presented is None:
        return stored_value is presented
    if stored_value == presented:
        return True
    if name in _PERSONAL or max(len(stored_value), len(presented)) > PARSED_MAX:
        return False
    if name == "accept-language":
        return _languages(stored_value) == _languages(presented) or _is_preferred_language(stored, presented)
    return _normalise(stored_value) == _normalise(presented)


@memoize_short()
def _normalise(value: str) -> tuple[str, ...]:
    return tuple(split_list(value))


@memoize_short()
def _languages(value: str) -> tuple[str, ...]:
    """Return the language ranges in lower case, sorted (RFC 4647, section 2). The order in the field has no meaning."""
    return tuple(sorted("".join(member.split()).lower() for member in split_list(value)))


def _is_preferred_language(stored: StoredResponse, accept_language: str) -> bool:
    language = stored.fields.combined("content-language")
    return language is not None and language.strip().lower() == _preferred_language(accept_language)


def _preferred_language(accept_language: str) -> str | None:
    """Return the language range with the highest weight, or None if the field accepts no language, or if `*` or several
    ranges have the highest weight."""
    best = sorted(weights_in(accept_language).items(), key=lambda item: item[1], reverse=True)[:2]
    if not best or best[0][0] == "*" or best[0][1] <= 0 or (len(best) == 2 and best[0][1] == best[1][1]):
        return None
    return best[0][0]


def choose(variants: Iterable[StoredResponse], request: Fields, *, own_agent: bool) -> StoredResponse | None:
    """Return the variant that suits the fields `request` best, or None if they select none.

    A response with Vary precedes a response without Vary, even a newer one. `own_agent` is as for `selects`.
    """
    selected = [variant for variant in variants if selects(variant, request, own_agent=own_agent)]
    if len(selected) < 2:
        return selected[0] if selected else None
    # "When a cache has multiple stored responses for a target URI and one or more omits the Vary header
    # field, the cache SHOULD choose the most recent [...] stored response with a valid Vary field value."
    # "When more than one suitable response is stored, a cache MUST use the most recent one (as determined by
    # the Date header field)." -- section 4
    return max(selected, key=_priority)


def _priority(variant: StoredResponse) -> tuple[bool, Instant, Instant]:
    date = date_of(variant.fields, variant.response_time)
    return bool(vary_names(variant.fields)), date, variant.response_time


def with_variant(
    variants: Iterable[StoredResponse],
    new: StoredResponse,
    request: Fields,
    *,
    own_agent: bool,
    limit: int = VARIANTS_MAX,
) -> tuple[StoredResponse, ...]:
    """Return the variants with `new`, the response to `request`, added as the last.

    `new` replaces the variants that `request` selects. At most `limit` variants remain, the last ones. `own_agent` is
    as for `selects`.
    """
    others = [variant for variant in variants if not selects(variant, request, own_agent=own_agent)]
    return (*others, new)[-limit:]
