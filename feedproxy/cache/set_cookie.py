"""Sharing of cookies in stored responses. RFC 9111, sections 3.1 and 7.3

A stored cookie is sent to all clients that get the response. feedproxy therefore stores a cookie only if its response
allows shared caching explicitly, and the request carried neither credentials nor cookies.
"""

from msgspec.structs import replace

from feedproxy.cache import freshness
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.targeted_directives import governing_directives
from feedproxy.http.message import Fields, Request

_NAME = "set-cookie"
_CREDENTIALS = frozenset({"authorization", "cookie"})


def with_cookies(
    stored: StoredResponse, received: Fields, request: Request, *, targeted: bool = False
) -> StoredResponse:
    """Return the stored response with only the cookies that all clients may get.

    `received` contains the fields of the response that was stored, or that updated the stored response. Its cookies
    replace the stored cookies. Cookies for one client and cookies of a feed are dropped. The stored cookies remain if
    `received` has no Set-Cookie, or if its directives withhold this field (RFC 9111, section 3.2).

    `received` answered `request`. `targeted` is True if targeted fields apply to this cache (RFC 9213).
    """
    values = received.get_all(_NAME)
    if not values:
        return stored
    control = governing_directives(received, targeted=targeted).control
    if _NAME in control.private_fields | control.no_cache_fields:
        return stored
    fields = stored.fields.without(_NAME)
    is_for_one_client = request.fields.has_any(_CREDENTIALS) or control.private or control.no_store or control.no_cache
    if not is_for_one_client and not stored.content.feed:
        # "Servers that wish to control caching of these responses are encouraged to emit appropriate Cache-Control
        # response header fields" -- section 7.3
        explicit = freshness.explicit_lifetime(received, stored.response_time, targeted=targeted)
        if explicit[0] > 0 if explicit is not None else control.public:
            fields = fields.joined(Fields([("Set-Cookie", value) for value in values]))
    return replace(stored, fields=fields)
