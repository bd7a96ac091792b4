"""The addresses that a feed states: its own, its new address, and those of its page and its cloud.

Addresses that are not valid http or https URLs are ignored.
"""

import re
from collections.abc import Sequence

from feedproxy.feed.autodiscovery import FEED_TYPES, GENERIC_TYPES
from feedproxy.feed.channel import Channel, Cloud, SelfLink
from feedproxy.feed.feed_scheme import resolve_address
from feedproxy.http import uri
from feedproxy.http.field_values import parse_parameters

_DOMAIN = re.compile(r"[^/?#@\\\s]+")
"""Pattern of a cloud's domain. It excludes the characters that begin a path or end a user name."""
_PORT = re.compile(r"[0-9]{0,5}")


def self_address(channel: Channel, base: str = "") -> str:
    """Return the address that the feed names for subscriptions (its self link), or "" if it names none.

    The USM says about the attribute `rel`: "The value "self" is preferred … The value "start" is also acceptable".
    `base` is the address of the feed. If `base` is empty, relative addresses are ignored.
    """
    for link in sorted(channel.self_links, key=_rank):
        if address := resolve_address(base, link.href):
            return address
    return ""


def announced_address(channel: Channel, addresses: Sequence[str]) -> str:
    """Return the new address that a podcast announces (itunes:new-feed-url), or "" if it announces none.

    `addresses` are the present addresses of the podcast. The result is "" also if the announced address is one of
    these. A relative address is resolved against the first of `addresses`.
    """
    present = {uri.without_fragment(address) for address in addresses}
    address = resolve_address(addresses[0], channel.new_feed_url) if channel.new_feed_url else ""
    return "" if uri.without_fragment(address) in present else address


def page_address(channel: Channel, base: str = "") -> str:
    """Return the address of the feed's page, or "" if the feed names no http or https URL."""
    return resolve_address(base, channel.link)


def cloud_address(cloud: Cloud) -> str:
    """Return the address at which subscribers register at a cloud, or "" if the cloud names no valid address."""
    domain, port, path = cloud.domain.strip(), cloud.port.strip(), cloud.path.strip().removeprefix("/")
    if not _DOMAIN.fullmatch(domain) or not _PORT.fullmatch(port):
        return ""
    return resolve_address("", f"{cloud_scheme(cloud.protocol, port)}://{domain}:{port}/{path}")


def cloud_scheme(protocol: str, port: str) -> str:
    """Return the scheme of an rssCloud address: https if the protocol is `https-post` or the port is 443, else http."""
    # "As a convenience, http-post with port 443 is also notified over HTTPS" (current servers).
    return "https" if protocol == "https-post" or port == "443" else "http"


def _rank(link: SelfLink) -> tuple[bool, bool]:
    kind = parse_parameters(link.type)[0]
    return link.rel != "self", kind not in ("", *FEED_TYPES, *GENERIC_TYPES)
