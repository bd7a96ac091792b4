"""Visibility of feeds: public lists on the main listener name only public feeds with several readers."""

from feedproxy.cache.cache_status import Detail
from feedproxy.http import uri
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.target_uri.url_redaction import has_secret
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from feedproxy.subscribers.readers_for_public_lists import Readers, count_distinct


def may_be_listed(target: str, settings: Settings, resource: Resource | None = None) -> bool:
    """Return True if a public list may name this feed. `settings` are those of the target. A target with user
    information or a secret is never listed."""
    if has_secret(target) or uri.without_fragment(target) != target:
        return False
    return is_public(settings, resource)


def has_enough_readers(readers: Readers, settings: Settings) -> bool:
    """Return True if a public list may name a feed with these readers: at least `list_readers_min` distinct readers,
    and at least one. With fewer readers, the feed's address can be their secret."""
    return count_distinct(readers) >= max(1, settings.list_readers_min)


def is_public(settings: Settings, resource: Resource | None) -> bool:
    """Return True if every client may get a feed, by the rules and the stored responses.

    If `resource` is None, only the rules count. The result is False in these cases:

    * A rule marks the feed private or restricts its readers.
    * The feed, or one of its shared copies, was fetched with credentials.
    * There is no shared copy, and either the feed is known, or some clients have copies, or the origin refused the
      request.
    * The origin sent Cache-Control with private or no-store.
    """
    if settings.private or settings.readers:
        return False
    if resource is None:
        return True
    if uri.without_fragment(resource.target) != resource.target:
        return False  # it is fetched with a credential of the operator
    if not resource.variants and (resource.channel is not None or resource.keyed or _is_refused(resource)):
        return False
    for variant in resource.variants:
        directives = CacheControl.from_fields(variant.fields)
        if variant.authorized or directives.no_store or directives.private:
            return False
    return True


def is_restricted(resource: Resource) -> bool:
    """Return True if the origin now restricts access to a stored feed (401 or 451). Lists and notifications then do not
    name it. Its subscriptions remain, because the status can be a mistake."""
    return bool(resource.variants) and all(variant.invalid for variant in resource.variants) and _is_refused(resource)


def _is_refused(resource: Resource) -> bool:
    return resource.failures.detail == Detail.REFUSED
