"""Recognition of URLs that name this proxy: by its public address, or by a port on which it serves clients."""

import ipaddress
from urllib.parse import urlsplit

from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http import uri
from feedproxy.settings import Settings
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.own_listeners import OwnListeners


def may_be_own(url: str, settings: Settings, listeners: OwnListeners) -> bool:
    """Return True if a URL can name this proxy: if it has the scheme, host and port of a `public_url` without a path,
    or the port of a listener for clients. Names are not resolved. An invalid URL gives False."""
    try:
        target = uri.normalise(url)
        return _is_public(target, settings) or listeners.serves_clients(uri.split_host_port(target)[1])
    except BadTarget:
        return False


async def is_own(url: str, settings: Settings, policy: AddressPolicy, listeners: OwnListeners) -> bool:
    """Return True if a URL names this proxy. A name is resolved only if this proxy listens on the URL's port."""
    if not may_be_own(url, settings, listeners):
        return False
    target = uri.normalise(url)
    if _is_public(target, settings):
        return True
    host, port = uri.split_host_port(target)
    try:
        addresses = [str(ipaddress.ip_address(host))]
    except ValueError:
        try:
            addresses = await policy.addresses(host, port)
        except FeedproxyError:
            return False  # the fetch reports names that cannot be resolved
    return any(listeners.reaches_listener(address, port) for address in addresses)


def _is_public(target: str, settings: Settings) -> bool:
    """Return True if a target has the scheme, host and port of `public_url`, and `public_url` has no path. Beside a
    path, other paths at the same host can belong to another server."""
    public = settings.public_url and uri.normalise(settings.public_url)
    return bool(public) and urlsplit(public).path == "/" and uri.origin_of(public) == uri.origin_of(target)
