"""Privacy of compression dictionaries.  RFC 9842, sections 8 and 9

The size of compressed content reveals how much the content and its dictionary have in common ("Reading Content",
section 9.2). A dictionary is therefore used only if every client may have both the content and the dictionary.
"""

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.http import uri
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.credential_fields import is_credential
from feedproxy.http.target_uri.url_redaction import has_secret
from feedproxy.settings import Settings


def permits_dictionaries(url: str, settings: Settings) -> bool:
    """Return True if dictionaries may be used at this URL, by its scheme and the option `compression_dictionaries`.

    "compression dictionary transport MUST only be used in secure contexts (HTTPS)" -- RFC 9842, section 8. A loopback
    host is a secure context, too (Secure Contexts, section 3.1).
    """
    return settings.compression_dictionaries == "always" or uri.is_trustworthy(url)


def is_shared(stored: StoredResponse, settings: Settings) -> bool:
    """Return whether a stored feed may be a dictionary and be compressed with a dictionary."""
    return settings.compression_dictionaries != "off" and is_for_all(stored, settings)


def is_for_all(stored: StoredResponse, settings: Settings) -> bool:
    """Return whether every client may have this stored feed, and the proxy may change its coding. The result is False
    if the origin forbids transformation, or if the feed has no entity tag of this proxy or no identity body."""
    if stored.content.tag is None or "identity" not in stored.content.bodies:
        return False
    return not CacheControl.from_fields(stored.fields).no_transform and is_public(stored, settings)


def is_public(stored: StoredResponse, settings: Settings) -> bool:
    """Return whether every client may have this stored feed. A rule, the origin, a credential, a client-specific field
    or a secret address can make a feed private."""
    if settings.private or settings.readers or not stored.content.feed:
        return False
    if stored.authorized or len(stored.key) or any(is_credential(name) for name, _ in stored.vary_request):
        return False
    directives = CacheControl.from_fields(stored.fields)
    if directives.private or directives.no_store:
        return False
    return uri.without_fragment(stored.target) == stored.target and not has_secret(stored.target)
