"""Which URLs name this proxy itself: by its public address, or by a port of this machine that listens for readers."""

import ipaddress
from urllib.parse import urlsplit

from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http import uri
from feedproxy.settings import Settings
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.own_listeners import OwnListeners


def may_be_own(url: str, settings: Settings, listeners: OwnListeners) -> bool:
    """Whether a URL may name this proxy itself: by its public address, or by a port that listens here."""
    try:
        target = uri.normalise(url)
        return _is_public(target, settings) or listeners.serves_clients(uri.host_port(target)[1])
    except BadTarget:
        return False


async def is_own(url: str, settings: Settings, policy: AddressPolicy, listeners: OwnListeners) -> bool:
    """Whether a URL names this proxy itself. A name is looked up, where its port listens here."""
    if not may_be_own(url, settings, listeners):
        return False
    target = uri.normalise(url)
    if _is_public(target, settings):
        return True
    host, port = uri.host_port(target)
    try:
        found = [str(ipaddress.ip_address(host))]
    except ValueError:
        try:
            found = await policy.addresses(host, port)
        except FeedproxyError:
            return False  # the fetch reports a name that cannot be resolved
    return any(listeners.include(each, port) for each in found)


def _is_public(target: str, settings: Settings) -> bool:
    """Whether a target is below `public_url`, where that is a whole web origin."""
    public = settings.public_url and uri.normalise(settings.public_url)
    return bool(public) and urlsplit(public).path == "/" and uri.origin_of(public) == uri.origin_of(target)
