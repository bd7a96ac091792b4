"""Visibility of feeds in lists on the main listener: only public feeds are named (DESIGN, section 4)."""

from feedproxy.cache.cache_status import Detail
from feedproxy.http import uri
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.redaction import has_secret
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource


def may_be_listed(target: str, settings: Settings, resource: Resource | None = None) -> bool:
    """Return whether a public list may name this feed. `settings` are those for the target, rules included.

    "never one marked private, fetched with credentials, or whose URL carries userinfo or something token-like".
    A feed that its origin lets no shared cache store (Cache-Control: private, no-store) is not public either, nor is
    one that requires a login. A feed of which a response without credentials is stored is public.
    """
    if has_secret(target) or uri.without_fragment(target) != target:
        return False
    return is_public(settings, resource)


def is_public(settings: Settings, resource: Resource | None) -> bool:
    """Return whether the rules and the origin's responses, as far as they are known, allow every client a feed."""
    if settings.private or settings.readers:
        return False
    if resource is None:
        return True
    if not resource.variants and (resource.channel is not None or resource.keyed or _is_refused(resource)):
        return False
    for variant in resource.variants:
        directives = CacheControl.from_fields(variant.fields)
        if variant.authorized or directives.no_store or directives.private:
            return False
    return True


def _is_refused(resource: Resource) -> bool:
    return resource.failures.detail == Detail.REFUSED
