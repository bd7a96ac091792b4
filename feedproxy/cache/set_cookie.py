"""Sharing of cookies that came with a response (RFC 9111, sections 3.1 and 7.3).

"The Set-Cookie response header field does not inhibit caching": what may be stored is stored with it, and everybody
who is answered from the store gets it. So it has to be beyond doubt that the origin means this: that it says so
itself, in the very message that brings the cookie, and that it did not know who was asking.
"""

from dataclasses import replace

from feedproxy.cache import freshness
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.targeted_directives import governing
from feedproxy.http.message import Fields, Request

_NAME = "set-cookie"


def for_everybody(request: Request, received: StoredResponse, *, targeted: bool = False) -> bool:
    """Return whether the cookies of this response are for all clients that get it from the store.

    `received` has the fields of that one message. A feed never keeps any: what reads feeds has no use for them.
    """
    if received.content.feed or "authorization" in request.fields or "cookie" in request.fields:
        return False
    control = governing(received.fields, targeted=targeted).control
    if control.private or control.no_store or control.no_cache:
        return False
    # "Servers that wish to control caching of these responses are encouraged to emit appropriate Cache-Control
    # response header fields" -- section 7.3
    explicit = freshness.explicit_lifetime(received, targeted=targeted)
    return explicit[0] > 0 if explicit is not None else control.public


def with_cookies(stored: StoredResponse, news: Fields, request: Request, *, targeted: bool = False) -> StoredResponse:
    """Return the stored response with the cookies of the message that brought or updated it, if they are for all
    clients.

    `news` are that message's fields. One that brings none leaves those that are stored (section 3.2).
    """
    values = news.get_all(_NAME)
    control = governing(news, targeted=targeted).control
    if not values or _NAME in control.private_fields | control.no_cache_fields:
        return stored
    fields = stored.fields.without(_NAME)
    if for_everybody(request, replace(stored, fields=news), targeted=targeted):
        fields = Fields((*fields, *(("Set-Cookie", value) for value in values)))
    return replace(stored, fields=fields)
