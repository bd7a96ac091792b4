"""Rules for storing a response and its fields in a shared cache. RFC 9111, section 3

The rules for cookies are stricter than the RFC. A response to a request with Cookie is stored only if its directives or
Expires explicitly allow it. set_cookie.py decides about Set-Cookie.
"""

from feedproxy.cache.targeted_directives import governing_directives
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.content_negotiation import vary_names
from feedproxy.http.message import Fields, Request, Response

# RFC 9110, section 15.1, without 206: parts are stored only with explicit freshness (partial_content.py).
HEURISTICALLY_CACHEABLE = frozenset({200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501})

# The final status codes of RFC 9110, section 15. 206 has its own rules (partial_content.py), 304 updates a stored
# response, and 407 concerns this hop only.
UNDERSTOOD = frozenset(
    {200, 201, 202, 203, 204, 205, 300, 301, 302, 303, 305, 307, 308}
    | {400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 426}
    | {500, 501, 502, 503, 504, 505}
)

# Status codes that concern one request: its client, credentials, conditions, size or connection. Another request for
# the same target may get another response.
OF_ONE_REQUEST = frozenset({401, 407, 408, 411, 412, 413, 416, 417, 421, 425, 428, 431, 511})

# Without these fields, a stored response would be misinterpreted.
_INDISPENSABLE = frozenset({"age", "cache-control", "content-encoding", "content-type", "date", "expires", "vary"})


def reason_not_to_store(
    request: Request, response: Response, *, targeted: bool = False, authorized: bool = False
) -> str | None:
    """Return the reason why a response must not be stored, or None if it may be stored (RFC 9111, section 3).

    `targeted` is True if CDN-Cache-Control applies to this cache (RFC 9213). `authorized` is True for a stored response
    that an earlier request with Authorization fetched. A response that is stale on receipt may be stored.
    """
    # "A cache MUST NOT store a response to a request unless: the request method is understood by the cache;"
    if request.method != "GET":
        return f"responses to {request.method} are not stored"
    if reason := _status_forbids(response.status):
        return reason
    if CacheControl.from_request(request.fields).no_store:
        return "the request has no-store"
    directives = governing_directives(response.fields, targeted=targeted)
    control = directives.control
    if reason := storing_prohibition(control, response.status):
        return reason
    if excluded := (control.private_fields | control.no_cache_fields) & _INDISPENSABLE:
        return f"a directive excludes {', '.join(sorted(excluded))}, which a stored response requires"
    # "if the cache is shared: the Authorization header field is not present in the request [...] or a
    # response directive is present that explicitly allows shared caching"
    explicitly_shared = control.public or control.must_revalidate or control.s_maxage is not None
    if (authorized or "authorization" in request.fields) and not explicitly_shared:
        return "the request carried Authorization, and the response does not allow sharing"
    # A Vary with "*" always fails to match: the response could not even be validated.
    if vary_names(response.fields) == ("*",):
        return "Vary: *"
    return _missing_permission(request, response, control, is_targeted=directives.targeted)


def _status_forbids(status: int) -> str | None:
    # "the response status code is final"
    if status < 200:
        return f"{status} is not a final status"
    if status == 206:
        return "206 is a partial response"
    if status == 304:
        return "a 304 only updates a stored response"
    if status in OF_ONE_REQUEST:
        return f"{status} answers one request only"
    if status == 226:
        # RFC 3229: the content results from manipulations of a version for one request.
        return "226 answers one request only"
    return None


def storing_prohibition(control: CacheControl, status: int) -> str | None:
    """Return the directive that prohibits storing a response with this status, or None if no directive prohibits it.

    The result is a text for the operator.
    """
    # "the no-store cache directive is not present in the response"; "caches that implement must-understand
    # SHOULD ignore the no-store directive in responses that contain both directives and a status code that
    # the cache understands" -- section 5.2.2.3
    if control.must_understand and status not in UNDERSTOOD:
        return f"must-understand, and {status} is not understood"
    if control.no_store and not control.must_understand:
        return "no-store"
    # "if the cache is shared: the private response directive is either not present or allows a shared cache
    # to store a modified response"
    if control.private:
        return "private"
    return None


def _missing_permission(
    request: Request, response: Response, control: CacheControl, *, is_targeted: bool
) -> str | None:
    # "the response contains at least one of the following: a public response directive [...]; an Expires
    # header field; a max-age response directive; if the cache is shared: an s-maxage response directive;
    # [...] or a status code that is defined as heuristically cacheable"
    explicit = (
        control.public
        or control.max_age is not None
        or control.s_maxage is not None
        or (not is_targeted and "expires" in response.fields)
    )
    if not explicit and response.status not in HEURISTICALLY_CACHEABLE:
        return f"{response.status} without public, max-age, s-maxage or Expires"
    if not explicit and "cookie" in request.fields:
        return "the request carried Cookie, and the response does not explicitly allow storing"
    return None


def storable_fields(fields: Fields, *, targeted: bool = False) -> Fields:
    """Return the fields that may be stored (RFC 9111, section 3.1). Set-Cookie is left out. `targeted` is True if
    targeted fields apply to this cache (RFC 9213)."""
    # "The Connection header field and fields whose names are listed in it"; "Header fields that are specific
    # to the proxy that a cache uses when forwarding a request".
    return without_withheld_fields(fields.end_to_end().without("set-cookie"), targeted=targeted)


def without_withheld_fields(fields: Fields, *, targeted: bool) -> Fields:
    """Return the fields except those that `private="…"` or `no-cache="…"` names.

    A named field remains if a stored response would be misinterpreted without it. `targeted` is True if targeted fields
    apply to this cache (RFC 9213).
    """
    control = governing_directives(fields, targeted=targeted).control
    if not control.private_fields and not control.no_cache_fields:
        return fields
    # "a shared cache MUST NOT store the listed header fields" (private="…"); for no-cache="…" reuse is
    # allowed "if the listed header fields are excluded from the subsequent response".
    unwanted = (control.private_fields | control.no_cache_fields) - _INDISPENSABLE
    return fields.without(*unwanted) if unwanted else fields
