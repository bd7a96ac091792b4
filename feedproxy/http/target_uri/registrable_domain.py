"""Registrable domains: the site to which a host belongs, by the list of public suffixes."""

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from feedproxy.errors import FeedproxyError
from feedproxy.http.uri import normalise, split_host_port

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

_IPV4 = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
SUFFIX_LABELS = 8
"""At most this many labels of a host, from the right, are compared with public suffixes."""
PRIVATE_SUFFIXES = frozenset(
    {"example", "internal", "local", "localhost", "test", "home", "lan", "corp", "intranet", "private"}
)
"""Top-level names outside the public DNS (RFC 6761; RFC 6762, appendix G; ICANN for `internal` in 2024)."""


def site_of(uri: str) -> str:
    """Return the site of a normalised target: its registrable domain.

    A name with a single label is its own site. At an IP address and at localhost, each port is a separate site, because
    one host may run several unrelated servers.
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


def has_private_suffix(host: str) -> bool:
    """Return True if a name in lower case is below a suffix for private use, which the public DNS does not have."""
    _, dot, suffix = host.rpartition(".")
    return (bool(dot) and suffix in PRIVATE_SUFFIXES) or _is_residential(host)


def is_below_public_suffix(host: str) -> bool:
    """Return True if a name in lower case is a registrable domain of the public DNS, or below one."""
    if _is_residential(host):
        return False
    tail = ".".join(host.split(".")[-SUFFIX_LABELS:])
    return _suffixes().privatesuffix(tail, accept_unknown=False) is not None


def _is_residential(host: str) -> bool:
    """Return True if a name is below `home.arpa`, and therefore "not globally unique" (RFC 8375, section 3)."""
    return host.endswith(".home.arpa")


@lru_cache(maxsize=4096)
def _registrable_domain(host: str) -> str:
    return _suffixes().privatesuffix(".".join(host.split(".")[-SUFFIX_LABELS:])) or host


@cache
def _suffixes() -> "PublicSuffixList":
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 -- reads a list of 300 KB: only if needed

    return PublicSuffixList()
