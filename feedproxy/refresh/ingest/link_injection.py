"""Links in a publisher's feeds to this proxy's hub and cloud: options announce_*, in reverse mode only."""

from dataclasses import replace
from urllib.parse import urlsplit

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.feed.channel import Cloud
from feedproxy.feed.edit.hub_and_cloud_links import Announcement, add_link_fields
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.redaction import has_secret
from feedproxy.settings import Settings

HUB = "hub"
"""Path of the WebSub hub, below the prefix."""
CLOUD = "pleaseNotify"
"""Path of rssCloud registration by http-post, which all current workstations support."""


def endpoint_address(settings: Settings, path: str) -> str:
    """Return the public address of an endpoint; empty without `public_url`."""
    if not settings.public_url:
        return ""
    return settings.public_url.rstrip("/") + settings.endpoint_prefix + path


def announcement(settings: Settings) -> Announcement:
    """Return the links for a feed; none outside reverse mode or for feeds with restricted readers."""
    if not settings.upstream or not settings.public_url or settings.private or settings.readers:
        return Announcement()
    return Announcement(
        hub=endpoint_address(settings, HUB) if "hub" in settings.announce else "",
        cloud=own_cloud(settings) if "cloud" in settings.announce else None,
    )


def own_cloud(settings: Settings) -> Cloud | None:
    """Return this proxy's cloud element; None if it cannot express the address: it has no scheme, 443 means TLS."""
    split = urlsplit(endpoint_address(settings, CLOUD))
    secure = split.scheme == "https"
    port = split.port or (443 if secure else 80)
    if secure != (port == 443):
        return None
    return Cloud(split.hostname or "", str(port), split.path, "", "http-post")


def with_links(stored: StoredResponse, settings: Settings, self_href: str) -> StoredResponse:
    """Return a stored feed with hub and self in its Link field (WebSub, section 4), unless `no-transform` forbids."""
    links = announcement(settings)
    if not links.hub or not stored.content.feed or has_secret(stored.target):
        return stored
    if CacheControl.from_fields(stored.fields).no_transform:
        return stored
    return replace(stored, fields=add_link_fields(stored.fields, hub=links.hub, self_href=self_href))
