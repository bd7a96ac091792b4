"""Privacy of compression dictionaries: which contents serve as dictionaries, and which requests get `dcz` (RFC 9842,
section 9).

The size of compressed content shows how much the content and the dictionary have in common. An observer of the size can
therefore guess parts of either ("Reading Content", section 9.2). For this reason, only contents that all clients may
read are used.
"""

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.http import uri
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields
from feedproxy.http.target_uri.url_redaction import has_secret
from feedproxy.request.upstream_request import is_credential
from feedproxy.settings import Settings


def may_encode(request: Fields, response: Fields) -> bool:
    """Return True if a dictionary may be used for this request (section 9.3.3, "Server Responsibility").

    The size of a response in `dcz` reveals how similar its content is to the dictionary. A web page that may not read a
    response of another origin must not get this information.
    """
    if request.get("sec-fetch-site") in (None, "same-origin"):
        return True
    mode = request.get("sec-fetch-mode")
    if mode in (None, "navigate", "same-origin"):
        return True
    allowed, origin = response.get("access-control-allow-origin"), request.get("origin")
    return mode == "cors" and allowed is not None and origin is not None and allowed in ("*", origin)


def is_shared(stored: StoredResponse, settings: Settings) -> bool:
    """Return whether this stored feed may serve as a dictionary and be compressed with one."""
    return settings.compression_dictionaries != "off" and is_for_all(stored, settings)


def is_for_all(stored: StoredResponse, settings: Settings) -> bool:
    """Return whether every client may have this stored feed in this form.

    The result is False if a rule, the origin, a credential, a client-specific field or a secret address makes the feed
    private. It is also False if the origin forbids transformation.
    """
    if settings.private or settings.readers:
        return False
    if stored.content.tag is None or not stored.content.feed or "identity" not in stored.content.bodies:
        return False
    if stored.authorized or len(stored.key) or any(is_credential(name) for name, _ in stored.vary_request):
        return False
    directives = CacheControl.from_fields(stored.fields)
    if directives.private or directives.no_store or directives.no_transform:
        return False
    return uri.without_fragment(stored.target) == stored.target and not has_secret(stored.target)
