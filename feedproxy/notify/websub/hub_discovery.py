"""Discovery of a feed's hubs and of its topic URL (WebSub, section 4).

"Subscribers MUST check for HTTP Link headers first. In the absence of HTTP Link headers, and if the topic is an XML
based feed or an HTML page, subscribers MUST check for embedded link elements." HTML pages are not searched here.
"""

from dataclasses import dataclass

from feedproxy.errors import BadTarget
from feedproxy.feed.channel import Channel
from feedproxy.http import uri
from feedproxy.http.link import parse_links
from feedproxy.http.message import Fields

HUBS_MAX = 5
"""Maximum number of hubs of one feed that are tried in turn."""


@dataclass(frozen=True, slots=True)
class DiscoveredHubs:
    """The topic as the publisher names it, and its hubs, those with https first."""

    topic: str
    hubs: tuple[str, ...] = ()


def discover(target: str, fields: Fields, channel: Channel) -> DiscoveredHubs:
    """Return the hubs and the topic that a feed names, in its response fields or in its document."""
    links = parse_links(fields)
    hubs = [link.href for link in links if "hub" in link.rels] or list(channel.hubs)
    selves = [link.href for link in links if "self" in link.rels]
    selves = selves or [link.href for link in channel.self_links if link.rel == "self"]
    urls = dict.fromkeys(url for reference in hubs if (url := _resolve(target, reference)))
    # "subscribers SHOULD always favor the HTTPS URL for hubs"
    ordered = sorted(urls, key=lambda hub: not hub.startswith("https://"))
    topic = next((url for reference in selves if (url := _resolve(target, reference))), target)
    return DiscoveredHubs(topic, tuple(ordered[:HUBS_MAX]))


def prefer_https(hub: str, tries: int) -> str:
    """Return the URL for the next request to a hub. `tries` is the number of failed requests.

    The first request uses https, "even if the URL is advertised as HTTP". Further requests use the URL unchanged. So
    does the first request if the URL has a port, or a host that is not a domain name.
    """
    if tries or not hub.startswith("http://"):
        return hub
    host, port = uri.split_host_port(hub)
    return f"https://{hub.removeprefix('http://')}" if port == 80 and "." in host and host[-1].isalpha() else hub


def _resolve(target: str, reference: str) -> str:
    try:
        return uri.resolve(target, reference) if reference else ""
    except BadTarget:
        return ""
