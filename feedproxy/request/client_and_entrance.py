"""The three entrances of the proxy (gateway, forward proxy, reverse proxy), and the addresses that clients see there.

gateway_fields.py has the rules for response fields.
"""

from dataclasses import dataclass
from enum import StrEnum

from feedproxy.errors import BadTarget
from feedproxy.http import uri
from feedproxy.http.target_uri.gateway_address import gateway_path
from feedproxy.request.url_mapping import rebase


class Entrance(StrEnum):
    """The way in which a request reaches the proxy."""

    GATEWAY = "gateway"
    PROXY = "proxy"
    REVERSE = "reverse"


@dataclass(frozen=True, slots=True)
class ClientContext:
    """The client of a request: its entrance, the proxy's address as the client wrote it, and the client's identity.

    `base` is the proxy's address without a trailing slash, such as `http://proxy.example:8080`. `address` is the
    client's IP address, which trusted proxies may state. `user` is an authenticated name, or empty. `is_counted` is
    False if the request does not come from a subscriber.
    """

    entrance: Entrance
    base: str
    address: str
    user: str = ""
    is_counted: bool = True


def rewrite_location(location: str, client: ClientContext, *, target: str, upstream: str) -> str:
    """Return a Location that keeps the client in its entrance.

    An address with a scheme that the proxy cannot fetch is unchanged. A relative reference is also unchanged if it has
    the same meaning at the address that the client requested (RFC 9110, section 10.2.2).
    """
    try:
        absolute = uri.resolve(target, location)
        if client.entrance is Entrance.GATEWAY:
            return client.base + gateway_path(absolute)
        public = _public_url(absolute, client, upstream)
        as_read = uri.resolve(public_url_for(target, client, upstream=upstream), location)
        return location if public is None or as_read == uri.normalise(public) else public
    except BadTarget:
        return location


def public_url_for(target: str, client: ClientContext, *, upstream: str) -> str:
    """Return the URL of a target for this client: in reverse mode, the public address."""
    return _public_url(target, client, upstream) or target


def _public_url(target: str, client: ClientContext, upstream: str) -> str | None:
    if client.entrance is not Entrance.REVERSE or not upstream:
        return None
    return rebase(target, upstream, client.base)
