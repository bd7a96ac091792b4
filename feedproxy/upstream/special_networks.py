"""Which addresses are not the public Internet, and why: the tables behind AddressPolicy.

From the IANA special-purpose registries (RFC 6890 and its updates). The tables are ours and not the standard
library's `is_global`, whose meaning has changed between Python releases; that property has the last word only
where no table speaks.
"""

import ipaddress
from dataclasses import dataclass
from functools import lru_cache

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address
type Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class SpecialNetwork:
    """A network that a stranger must not reach through us."""

    network: Network
    words: str
    private: bool = False
    """Lifted by `--allow-private`."""


def _table(*rows: tuple[str, str, bool]) -> tuple[SpecialNetwork, ...]:
    return tuple(SpecialNetwork(ipaddress.ip_network(network), words, private) for network, words, private in rows)


# The first match counts, so the metadata services stand before the networks that hold them.
SPECIAL_NETWORKS = _table(
    ("169.254.169.254/32", "a cloud's metadata service", False),
    ("169.254.170.2/32", "a cloud's metadata service", False),
    ("100.100.100.200/32", "a cloud's metadata service", False),
    ("192.0.0.192/32", "a cloud's metadata service", False),
    (
        "168.63.129.16/32",
        "a cloud's metadata service",
        False,
    ),  # a public address, but only the platform's own
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
    ("2001:10::/28", "a former identifier, no address", False),
    ("2001:20::/28", "an identifier, no address", False),
    ("2001:db8::/32", "for documentation", False),
    ("3fff::/20", "for documentation", False),
    ("5f00::/16", "for segment routing", False),
    ("fc00::/7", "private", True),
    ("fe80::/10", "link-local", True),
    ("fec0::/10", "site-local", True),
    ("ff00::/8", "multicast", False),
)

# Prefixes behind which a relay or the kernel finds an IPv4 address, and the bit at which that begins.
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
    """The row that speaks of this address, or one made for what IANA reserves otherwise. None: public."""
    for row in SPECIAL_NETWORKS:
        if address.version == row.network.version and address in row.network:
            return row
    if not address.is_global:
        return SpecialNetwork(ipaddress.ip_network(address), "reserved")
    return None


def embedded_ipv4(address: Address) -> tuple[str, ipaddress.IPv4Address] | None:
    """The translation an IPv6 address is for, and the IPv4 address it ends at; None for any other."""
    if isinstance(address, ipaddress.IPv4Address) or int(address) <= 1:  # :: and ::1 are no translations
        return None
    for network, words, begin in TRANSLATION_PREFIXES:
        if address in network:
            inner = int(address) >> (96 - begin) & 0xFFFF_FFFF if begin < 96 else int(address) & 0xFFFF_FFFF
            # A Teredo client's address stands there with every bit inverted (RFC 4380, section 4).
            return words, ipaddress.IPv4Address(inner ^ 0xFFFF_FFFF if words == "Teredo" else inner)
    # ISATAP may stand under any prefix: the interface identifier tells (RFC 5214, section 6.1).
    if int(address) >> 32 & 0xFCFF_FFFF == 0x0000_5EFE:
        return "ISATAP", ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


@lru_cache(maxsize=4096)
def client_network(address: str) -> str:
    """The network that limits and counts take for one client: the whole IPv4 address, or the /64 of an IPv6 address.

    An end site is given a /64 at least (RFC 6177, section 2), so one client has 2^64 addresses.
    An IPv4 address that IPv6 carries is that IPv4 address. What is no address stands for itself.
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
