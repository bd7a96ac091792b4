"""Registrable domains: the site to which a host belongs, by the list of public suffixes."""

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from feedproxy.errors import FeedproxyError
from feedproxy.http.target_uri.private_use_names import has_private_suffix, is_residential
from feedproxy.http.uri import memoize_by_origin, normalise, split_host_port

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

_IPV4 = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
SUFFIX_LABELS = 8
"""Maximum number of labels of a host, from the right, that are compared with public suffixes."""


@memoize_by_origin
def site_of(uri: str) -> str:
    """Return the site of a normalised target: its registrable domain.

    A name with a single label is its own site. At an IP address and at localhost, each port is a separate site, because
    one host can run several unrelated servers.
    """
    host, port = split_host_port(uri)
    if ":" in host:
        return f"[{host}]:{port}"
    if host == "localhost" or _IPV4.fullmatch(host):
        return f"{host}:{port}"
    return site_of_host(host)


def site_or_self(url: str) -> str:
    """Return the site of a URL, or the URL itself if it is invalid."""
    try:
        return site_of(normalise(url))
    except FeedproxyError:
        return url


def site_of_host(host: str) -> str:
    """Return the registrable domain of a host name in lower case. A single label is returned unchanged."""
    return _registrable_domain(host) if "." in host else host


def has_known_suffix(host: str) -> bool:
    """Return True if a name is below a public suffix or below a suffix for private use."""
    return has_private_suffix(host) or is_below_public_suffix(host)


def is_below_public_suffix(host: str) -> bool:
    """Return True if a name in lower case is a registrable domain of the public DNS, or below one."""
    if is_residential(host):
        return False
    tail = ".".join(host.split(".")[-SUFFIX_LABELS:])
    return _suffixes().privatesuffix(tail, accept_unknown=False) is not None


@lru_cache(maxsize=4096)
def _registrable_domain(host: str) -> str:
    return _suffixes().privatesuffix(".".join(host.split(".")[-SUFFIX_LABELS:])) or host


@cache
def _suffixes() -> "PublicSuffixList":
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 -- reads a list of 300 KB: only if needed

    return PublicSuffixList()
