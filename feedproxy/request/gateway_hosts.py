"""Host names at which the gateway answers.

By DNS rebinding, a web page can make its own host name lead to the gateway, and then read every response. The gateway
therefore refuses names that can be registered, unless the operator has listed them
(docs/decisions/gateway-host-names.md).
"""

import fnmatch
import re
import socket
from functools import cache, lru_cache

from feedproxy.http import uri
from feedproxy.http.target_uri.private_use_names import has_private_suffix
from feedproxy.settings import Settings, listen_address

EXAMPLE_DOMAINS = ("example.com", "example.net", "example.org")
"""Domains that IANA keeps for documentation (RFC 6761, section 6.5). Names below them cannot be registered."""
AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._~-]+)(?::[0-9]{1,5})?")
"""Pattern of a value of Host that can be part of a URL of this proxy. The first group is the host without the port."""


def is_gateway_host(authority: str, settings: Settings) -> bool:
    """Return True if the gateway answers at this value of Host. The port is not compared."""
    match = AUTHORITY.fullmatch(authority)
    if match is None:
        return False
    name = _plain(match[1])
    # Browsers take a name that ends with a number as an IPv4 address. DNS resolves no address.
    if name.startswith("[") or name.rpartition(".")[2].isdigit():
        return True
    if "." not in name or has_private_suffix(name) or name == _machine_name():
        return True
    if name.endswith(tuple("." + domain for domain in EXAMPLE_DOMAINS)):
        return True
    names, patterns = _configured(settings.listen, settings.public_url, settings.gateway_hosts)
    return name in names or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


@cache
def _machine_name() -> str:
    return _plain(socket.gethostname())


@lru_cache(maxsize=16)
def _configured(listen: str, public_url: str, hosts: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the host names in `listen` and `public_url`, and the patterns `hosts`, in lower case and without a final
    dot."""
    names = {listen_address(listen, "listen")[0]}
    if public_url:
        names.add(uri.host_of(uri.normalise(public_url)))
    return frozenset(map(_plain, names)), tuple(map(_plain, hosts))


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")
