"""Tables of special-purpose addresses, from the IANA registries (RFC 6890 and its updates).

The standard library's `is_global` decides only about addresses that the tables lack, because its meaning has changed
between Python releases.
"""

import ipaddress

from msgspec import Struct

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address
type Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class SpecialNetwork(Struct, frozen=True):
    """A network that clients must not reach through this proxy."""

    network: Network
    description: str
    private: bool = False
    """True if the option `allow_private` permits the network."""


def _table(*rows: tuple[str, str, bool]) -> tuple[SpecialNetwork, ...]:
    return tuple(
        SpecialNetwork(ipaddress.ip_network(network), description, private) for network, description, private in rows
    )


# The first match counts, so metadata services precede the networks that contain them.
SPECIAL_NETWORKS = _table(
    ("169.254.169.254/32", "a cloud's metadata service", False),
    ("169.254.170.2/32", "a cloud's metadata service", False),
    ("100.100.100.200/32", "a cloud's metadata service", False),
    ("192.0.0.192/32", "a cloud's metadata service", False),
    (
        "168.63.129.16/32",
        "a cloud's metadata service",
        False,
    ),  # a public address, but only the platform itself uses it
    ("fd00:ec2::254/128", "a cloud's metadata service", False),
    ("fd00:ec2::23/128", "a cloud's metadata service", False),
    ("fd20:ce::254/128", "a cloud's metadata service", False),
    ("0.0.0.0/8", "this host", False),
    ("10.0.0.0/8", "private", True),
    ("100.64.0.0/10", "shared by a carrier's customers", True),
    ("127.0.0.0/8", "loopback", True),
    ("169.254.0.0/16", "link-local", True),
    ("172.16.0.0/12", "private", True),
    ("192.0.0.0/24", "reserved for protocols", False),
    ("192.0.2.0/24", "for documentation", False),
    ("192.88.99.0/24", "the former 6to4 relays", False),
    ("192.168.0.0/16", "private", True),
    ("198.18.0.0/15", "for benchmarks", False),
    ("198.51.100.0/24", "for documentation", False),
    ("203.0.113.0/24", "for documentation", False),
    ("224.0.0.0/4", "multicast", False),
    ("240.0.0.0/4", "reserved", False),
    ("::/128", "unspecified", False),
    ("::1/128", "loopback", True),
    ("100::/64", "the discard prefix", False),
    ("2001:2::/48", "for benchmarks", False),
    ("2001:10::/28", "a former identifier, not an address", False),
    ("2001:20::/28", "an identifier, not an address", False),
    ("2001:db8::/32", "for documentation", False),
    ("3fff::/20", "for documentation", False),
    ("5f00::/16", "for segment routing", False),
    ("fc00::/7", "private", True),
    ("fe80::/10", "link-local", True),
    ("fec0::/10", "site-local", True),
    ("ff00::/8", "multicast", False),
)

_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""The only IPv6 addresses that IANA allocates. A site can use others within its own network."""

# Prefixes of IPv6 addresses that embed an IPv4 address, and the position of its first bit.
TRANSLATION_PREFIXES = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), "IPv4-mapped", 96),
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), "IPv4-translated", 96),
    (ipaddress.IPv6Network("64:ff9b::/96"), "NAT64", 96),
    (ipaddress.IPv6Network("64:ff9b:1::/48"), "local NAT64", 96),
    (ipaddress.IPv6Network("2002::/16"), "6to4", 16),
    (ipaddress.IPv6Network("2001::/32"), "Teredo", 96),
    (ipaddress.IPv6Network("::/96"), "IPv4-compatible", 96),
)


def special_network_of(address: Address) -> SpecialNetwork | None:
    """Return the table entry for this address. An address in no table gets None if it is globally routable, and
    otherwise a new entry, which calls it reserved."""
    for row in SPECIAL_NETWORKS:
        if address in row.network:
            return row
    if not address.is_global or (address.version == 6 and address not in _GLOBAL_UNICAST):
        return SpecialNetwork(ipaddress.ip_network(address), "reserved")
    return None


def embedded_ipv4(address: Address) -> tuple[str, ipaddress.IPv4Address] | None:
    """Return the kind of an IPv6 address that contains an IPv4 address, such as `NAT64`, and the IPv4 address. Return
    None for any other address."""
    if isinstance(address, ipaddress.IPv4Address) or int(address) <= 1:  # :: and ::1 are not translations
        return None
    for network, form, begin in TRANSLATION_PREFIXES:
        if address in network:
            inner = int(address) >> (96 - begin) & 0xFFFF_FFFF
            # Teredo inverts every bit of the client's address (RFC 4380, section 4).
            return form, ipaddress.IPv4Address(inner ^ 0xFFFF_FFFF if form == "Teredo" else inner)
    # ISATAP has any prefix; the interface identifier marks it (RFC 5214, section 6.1).
    if int(address) >> 32 & 0xFCFF_FFFF == 0x0000_5EFE:
        return "ISATAP", ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return None
