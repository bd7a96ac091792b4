"""Addresses of clients, and the network that counts as one client for limits and counts."""

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def client_network(address: str) -> str:
    """Return the network that counts as one client: the IPv4 address, or the /64 of an IPv6 address.

    An end site gets at least a /64 (RFC 6177, section 2). An IPv4-mapped address counts as its IPv4 address. Any other
    text is returned unchanged, cut to 64 characters.
    """
    parsed = parse_address(address[:64])
    if parsed is None:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an IP address without its zone, or None if the address is invalid. An IPv4-mapped IPv6 address becomes an
    IPv4 address."""
    try:
        parsed = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, ipaddress.IPv6Address) else parsed
