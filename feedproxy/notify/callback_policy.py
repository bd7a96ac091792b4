"""Where may a stranger have us call?  Not ourselves: that goes round for ever, or through our gateway to others."""

from urllib.parse import urlsplit

from feedproxy.http import uri
from feedproxy.settings import Settings

_DEFAULT_PORTS = (80, 443)


def is_callback_to_self(callback: str, settings: Settings, base: str) -> bool:
    """Whether a call to this address comes back to us; `base` is our address as the caller wrote it.

    Of a publisher's own site only the endpoints are ours. Raises BadTarget for what is no address.
    """
    called = uri.normalise(callback)
    for own in {settings.public_url, base} - {""}:
        ours = uri.normalise(own.rstrip("/") + settings.endpoint_prefix)
        if not _is_same_server(ours, called):
            continue
        if not settings.upstream or (urlsplit(called).path or "/").startswith(urlsplit(ours).path):
            return True
    return False


def _is_same_server(one: str, other: str) -> bool:
    """The same host, and the same port; whoever serves http and https at their usual ports is one."""
    (host, port), (other_host, other_port) = uri.host_port(one), uri.host_port(other)
    return host == other_host and (port == other_port or (port in _DEFAULT_PORTS and other_port in _DEFAULT_PORTS))
