"""Sharing of cookies in stored responses.  RFC 9111, sections 3.1 and 7.3

A stored cookie is sent to all clients that get the stored response. feedproxy therefore stores a cookie only if the
response that sets it explicitly allows shared caching, and if the request carried neither credentials nor cookies.
"""

from dataclasses import replace

from feedproxy.cache import freshness
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.targeted_directives import governing_directives
from feedproxy.http.message import Fields, Request

_NAME = "set-cookie"


def is_for_all_clients(request: Request, received: StoredResponse, *, targeted: bool) -> bool:
    """Return True if the cookies of a response may be sent to all clients. The result is False for feeds.

    `received` has the fields of this response alone, even if the response updates a stored response. `targeted` is true
    if targeted fields apply to this cache (RFC 9213).
    """
    if received.content.feed or "authorization" in request.fields or "cookie" in request.fields:
        return False
    control = governing_directives(received.fields, targeted=targeted).control
    if control.private or control.no_store or control.no_cache:
        return False
    # "Servers that wish to control caching of these responses are encouraged to emit appropriate Cache-Control
    # response header fields" -- section 7.3
    explicit = freshness.explicit_lifetime(received.fields, received.response_time, targeted=targeted)
    return explicit[0] > 0 if explicit is not None else control.public


def with_cookies(
    stored: StoredResponse, received: Fields, request: Request, *, targeted: bool = False
) -> StoredResponse:
    """Return the stored response with the cookies of a received response, if these may be sent to all clients.

    `received` contains the fields of the response that was stored, or that updated the stored response. If `received`
    has no Set-Cookie, the stored cookies remain (RFC 9111, section 3.2).
    """
    values = received.get_all(_NAME)
    if not values:
        return stored
    control = governing_directives(received, targeted=targeted).control
    if _NAME in control.private_fields | control.no_cache_fields:
        return stored
    fields = stored.fields.without(_NAME)
    if is_for_all_clients(request, replace(stored, fields=received), targeted=targeted):
        fields = Fields((*fields, *(("Set-Cookie", value) for value in values)))
    return replace(stored, fields=fields)
