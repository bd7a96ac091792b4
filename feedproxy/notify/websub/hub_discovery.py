"""Discovery of a feed's hubs and topic URL (WebSub, section 4), in Link fields and in the feed's document.

The Link fields take precedence: "Subscribers MUST check for HTTP Link headers first."
"""

import re

from msgspec import Struct

from feedproxy.feed.channel import Channel
from feedproxy.feed.feed_scheme import resolve_address
from feedproxy.http.link_field import parse_links
from feedproxy.http.message import Fields

HUBS_MAX = 5
"""feedproxy tries at most this many hubs of one feed, one after another."""

_ABSOLUTE = re.compile(r"(?i)https?://[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~\[\]]+")
"""Pattern of an absolute address in the characters of RFC 3986, section 2."""


class DiscoveredHubs(Struct, frozen=True):
    """The topic as the publisher names it, and its hubs. Hubs with an https URL come first."""

    topic: str
    hubs: tuple[str, ...] = ()


def discover(target: str, fields: Fields, channel: Channel) -> DiscoveredHubs:
    """Return the topic and the hubs that a feed names, in its response fields or its document."""
    links = parse_links(fields)
    hubs = [link.href for link in links if "hub" in link.rels] or list(channel.hubs)
    selves = [link.href for link in links if "self" in link.rels]
    selves = selves or [link.href for link in channel.self_links if link.rel == "self"]
    urls = dict.fromkeys(url for reference in hubs if (url := resolve_address(target, reference)))
    # "subscribers SHOULD always favor the HTTPS URL for hubs"
    ordered = sorted(urls, key=lambda hub: not hub.startswith("https://"))
    topic = next((url for reference in selves if (url := _topic(target, reference))), target)
    return DiscoveredHubs(topic, tuple(ordered[:HUBS_MAX]))


def _topic(target: str, reference: str) -> str:
    """Return the topic of a self link, or "" if the link is invalid.

    The topic in a request "MUST be the 'self' URL found during the discovery step" (WebSub, section 5.1). Hubs compare
    topics as texts. Therefore an absolute address is not normalised. Only a fragment is removed, because it does not
    belong to the identity of a resource.
    """
    address = resolve_address(target, reference)
    written = reference.strip().partition("#")[0]
    return written if address and _ABSOLUTE.fullmatch(written) else address
