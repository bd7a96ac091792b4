"""Which hubs tell of a feed's changes, and under what name (WebSub, section 4).

"Subscribers MUST check for HTTP Link headers first. In the absence of HTTP Link headers, and if the topic is an XML
based feed or an HTML page, subscribers MUST check for embedded link elements." Pages are not what is read here.
"""

from dataclasses import dataclass

from feedproxy.errors import BadTarget
from feedproxy.feed.channel import Channel
from feedproxy.http import uri
from feedproxy.http.link import parse_links
from feedproxy.http.message import Fields

HUBS_MAX = 5
"""Hubs of one feed that are tried, one after the other."""


@dataclass(frozen=True, slots=True)
class DiscoveredHubs:
    """The topic, as the publisher names it, and its hubs, those with https first."""

    topic: str
    hubs: tuple[str, ...] = ()


def discover(target: str, fields: Fields, channel: Channel) -> DiscoveredHubs:
    """What a feed fetched from `target` says, with these response fields."""
    links = parse_links(fields)
    hubs = [each.href for each in links if "hub" in each.rels] or list(channel.hubs)
    selves = [each.href for each in links if "self" in each.rels]
    selves = selves or [each.href for each in channel.self_links if each.rel == "self"]
    found = dict.fromkeys(each for reference in hubs if (each := _resolve(target, reference)))
    # "subscribers SHOULD always favor the HTTPS URL for hubs"
    ordered = sorted(found, key=lambda hub: not hub.startswith("https://"))
    topic = next((each for reference in selves if (each := _resolve(target, reference))), target)
    return DiscoveredHubs(topic, tuple(ordered[:HUBS_MAX]))


def prefer_https(hub: str, tries: int) -> str:
    """The address to call a hub at: first by https, "even if the URL is advertised as HTTP"; then as it stands."""
    if tries or not hub.startswith("http://"):
        return hub
    host, port = uri.host_port(hub)
    return f"https://{hub.removeprefix('http://')}" if port == 80 and "." in host and host[-1].isalpha() else hub


def _resolve(target: str, reference: str) -> str:
    try:
        return uri.resolve(target, reference) if reference else ""
    except BadTarget:
        return ""
