"""The network that counts as one client, for limits and counts by address."""

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def client_network(address: str) -> str:
    """Return the network that counts as one client: the IPv4 address, or the /64 of an IPv6 address.

    An end site gets at least a /64 (RFC 6177, section 2). An IPv4-mapped address counts as its IPv4 address. Any other
    text is returned unchanged, cut to 64 characters.
    """
    try:
        parsed = ipaddress.ip_address(address[:64].partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
        parsed = parsed.ipv4_mapped
    return str(parsed)
