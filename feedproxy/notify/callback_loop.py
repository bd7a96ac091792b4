"""Check for loops: a client's callback URL must not lead to feedproxy itself."""

from urllib.parse import urlsplit

from feedproxy.http import uri
from feedproxy.settings import Settings

_DEFAULT_PORTS = (80, 443)


def is_callback_to_self(callback: str, settings: Settings, base: str) -> bool:
    """Return whether a callback URL leads to this proxy. `base` is the proxy's URL as the client wrote it.

    In reverse mode, only the endpoints belong to the proxy. All other paths belong to the origin. Raises BadTarget for
    an invalid URL.
    """
    callback_url = uri.normalise(callback)
    for own in {settings.public_url, base} - {""}:
        endpoints = uri.normalise(own.rstrip("/") + settings.endpoint_prefix)
        if not _is_same_server(endpoints, callback_url):
            continue
        if not settings.upstream or (urlsplit(callback_url).path or "/").startswith(urlsplit(endpoints).path):
            return True
    return False


def _is_same_server(url: str, other_url: str) -> bool:
    (host, port), (other_host, other_port) = uri.split_host_port(url), uri.split_host_port(other_url)
    return host == other_host and (port == other_port or (port in _DEFAULT_PORTS and other_port in _DEFAULT_PORTS))
