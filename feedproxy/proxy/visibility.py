"""May this feed be named to everybody?  Lists on the readers' listener name public feeds only (DESIGN, section 4)."""

from feedproxy.cache.cache_status import Detail
from feedproxy.http import uri
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.redaction import has_secret
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource


def may_be_listed(target: str, settings: Settings, resource: Resource | None = None) -> bool:
    """Whether a list that strangers read may hold this feed. `settings` are those for the target, rules included.

    "never one marked private, fetched with credentials, or whose URL carries userinfo or something token-like".
    What its origin lets nobody else keep (Cache-Control: private, no-store) is no public feed either, nor is one that
    readers have to sign in for. A feed of which a response without credentials is stored is public, whoever else has
    asked for it with some.
    """
    if has_secret(target) or uri.without_fragment(target) != target:
        return False
    return is_public(settings, resource)


def is_public(settings: Settings, resource: Resource | None) -> bool:
    """Return whether rules and the origin's answers, as far as they are known, let everybody read a feed."""
    if settings.private or settings.readers:
        return False
    if resource is None:
        return True
    if not resource.variants and (resource.channel is not None or resource.keyed or _is_refused(resource)):
        return False
    for each in resource.variants:
        said = CacheControl.from_fields(each.fields)
        if each.authorized or said.no_store or said.private:
            return False
    return True


def _is_refused(resource: Resource) -> bool:
    return resource.failures.detail == Detail.REFUSED
