"""What a publisher's feeds say of who tells of their changes: options announce_*, in front of an origin alone."""

from dataclasses import replace
from urllib.parse import urlsplit

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.feed.channel import Cloud
from feedproxy.feed.edit.hub_and_cloud_links import Announcement, add_link_fields
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.redaction import has_secret
from feedproxy.settings import Settings

HUB = "hub"
"""Where the WebSub hub stands, below the prefix."""
CLOUD = "pleaseNotify"
"""Where workstations register with our rssCloud by http-post, which all of today's speak."""


def endpoint_address(settings: Settings, path: str) -> str:
    """The address under which others reach an endpoint of ours; empty without `public_url`."""
    if not settings.public_url:
        return ""
    return settings.public_url.rstrip("/") + settings.endpoint_prefix + path


def announcement(settings: Settings) -> Announcement:
    """What is put into a feed. Nothing where the feeds are others', or not for everybody."""
    if not settings.upstream or not settings.public_url or settings.private or settings.readers:
        return Announcement()
    return Announcement(
        hub=endpoint_address(settings, HUB) if "hub" in settings.announce else "",
        cloud=own_cloud(settings) if "cloud" in settings.announce else None,
    )


def own_cloud(settings: Settings) -> Cloud | None:
    """Our rssCloud as an element names it. None where none could: it names no scheme, and port 443 stands for TLS."""
    split = urlsplit(endpoint_address(settings, CLOUD))
    secure = split.scheme == "https"
    port = split.port or (443 if secure else 80)
    if secure != (port == 443):
        return None
    return Cloud(split.hostname or "", str(port), split.path, "", "http-post")


def with_links(stored: StoredResponse, settings: Settings, self_href: str) -> StoredResponse:
    """A stored feed whose Link field names hub and self (WebSub, section 4); `no-transform` leaves it alone."""
    links = announcement(settings)
    if not links.hub or not stored.content.feed or has_secret(stored.target):
        return stored
    if CacheControl.from_fields(stored.fields).no_transform:
        return stored
    return replace(stored, fields=add_link_fields(stored.fields, hub=links.hub, self_href=self_href))
