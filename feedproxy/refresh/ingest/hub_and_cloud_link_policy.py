"""Links to this proxy's hub and cloud in a publisher's feeds, in reverse mode (option `announce`)."""

from urllib.parse import urlsplit

from msgspec.structs import replace

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.feed.channel import Cloud
from feedproxy.feed.channel_addresses import cloud_scheme
from feedproxy.feed.edit.hub_and_cloud_links import Announcement, add_link_fields
from feedproxy.http.target_uri.url_redaction import has_secret
from feedproxy.request.endpoint_registry import CLOUD_PATH, HUB_PATH
from feedproxy.request.upstream_and_public_urls import endpoint_address
from feedproxy.settings import Settings


def announcement(settings: Settings) -> Announcement:
    """Return the links to insert into a feed. The result has no links in three cases: feedproxy is not in reverse mode,
    `public_url` is not set, or a rule restricts the readers of the feed."""
    if not settings.upstream or not settings.public_url or settings.private or settings.readers:
        return Announcement()
    return Announcement(
        hub=endpoint_address(settings, HUB_PATH) if "hub" in settings.announce else "",
        cloud=own_cloud(settings) if "cloud" in settings.announce else None,
    )


def own_cloud(settings: Settings) -> Cloud | None:
    """Return this proxy's `cloud` element, or None if the element cannot express the proxy's address. The element
    states no scheme: clients conclude it from protocol and port (`cloud_scheme`)."""
    split, protocol = urlsplit(endpoint_address(settings, CLOUD_PATH)), "http-post"
    port = str(split.port or (443 if split.scheme == "https" else 80))
    if split.scheme != cloud_scheme(protocol, port):
        return None
    return Cloud(split.hostname or "", port, split.path, "", protocol)


def with_links(stored: StoredResponse, settings: Settings, self_href: str) -> StoredResponse:
    """Return the stored response with the relations `hub` and `self` in its Link field (WebSub, section 4).

    `self_href` is the address for `self`. The response stays unchanged if it is no feed or has `no-transform`. It also
    stays unchanged if no hub is announced, or if the target contains a secret.
    """
    links = announcement(settings)
    if not links.hub or not stored.content.feed or stored.no_transform or has_secret(stored.target):
        return stored
    return replace(stored, fields=add_link_fields(stored.fields, hub=links.hub, self_href=self_href))
