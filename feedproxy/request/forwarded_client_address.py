"""The client's address as trusted proxies state it in Forwarded or X-Forwarded-For.

Each proxy appends the address from which it got the request. Entries are therefore read from the right, up to the first
address that is not a trusted proxy. The client can have forged the entries further to the left.

X-Forwarded-Host and X-Forwarded-Port are ignored, because a client can forge them. A forged X-Forwarded-Proto affects
only the addresses in this client's response.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import Struct

from feedproxy.client_network import parse_address
from feedproxy.http.message import Fields
from feedproxy.settings import Settings

X_FORWARDED_FOR = "x-forwarded-for"
FORWARDED = "forwarded"

HOPS_MAX = 16
"""At most this many entries of a field are read, from the right."""

ENTRY_MAX = 1024
"""An entry of more than this many bytes counts as malformed. An entry has up to four parameters with a host name of up
to 255 bytes each."""

# RFC 7239, section 4. Tokens may have the characters of an address with a port, which some senders do not quote.
# Quantifiers are possessive, because white space between semicolons could otherwise cause exponential backtracking.
_PAIR = r"""[!#$%&'*+.^_`|~0-9A-Za-z-]++=(?:"(?:[^"\\]|\\.)*+"|[!#$%&'*+.^_`|~0-9A-Za-z:\[\]-]*+)"""
_ENTRY = re.compile(rf"[ \t]*+{_PAIR}(?:[ \t]*+;[ \t]*+(?:{_PAIR})?+)*+[ \t]*+")
_PAIRS = re.compile(r"""(?<![^=;\s])([^=;\s]++)=("(?:[^"\\]|\\.)*+"|[^";\s]*+)""")
_NODE = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::[0-9A-Za-z._-]+)?|([0-9.]+):[0-9A-Za-z._-]+")
_SCHEMES = ("http", "https")


class Hop(Struct, frozen=True):
    """One entry of Forwarded or X-Forwarded-For.

    `address` is the address from which a proxy got the request, or empty if this address is hidden or unknown. `scheme`
    and `host` are those of the request that this proxy got, or empty if the entry does not state them.
    """

    address: str
    scheme: str = ""
    host: str = ""


def is_trusted_proxy(settings: Settings, peer: str) -> bool:
    """Return True if the address `peer` is in a network of the option `trusted_proxies`."""
    return bool(settings.trusted_proxies) and _is_in_networks(settings.trusted_proxies, peer)


@lru_cache(maxsize=4096)
def _is_in_networks(networks: tuple[str, ...], peer: str) -> bool:
    address = parse_address(peer)
    return address is not None and any(address in ipaddress.ip_network(network, strict=False) for network in networks)


def client_hop(fields: Fields, field_name: str, peer: str, is_trusted: Callable[[str], bool]) -> Hop:
    """Return the client's address, scheme and host, as trusted proxies (`is_trusted`) state them in the field
    `field_name`.

    `peer` is the address of the trusted proxy that sent the request. Entries are read from the right, up to the first
    address that is not a trusted proxy's: the client's. If an entry on the way has no usable address, the result has
    the address of the proxy that appended it. Scheme and host come from the entry that `peer` appended.
    """
    nearest, address = Hop(""), canonical(peer)
    visited = {_host_key(address)}
    for position, hop in enumerate(_iter_hops(fields, field_name)):
        if not position:
            nearest = hop
        if not hop.address:
            break
        address = hop.address
        # A proxy occurs once in a chain. A client on the machine of a trusted proxy is not another proxy.
        if _host_key(address) in visited or not is_trusted(address):
            break
        visited.add(_host_key(address))
    return Hop(address, nearest.scheme, nearest.host)


def canonical(address: str) -> str:
    """Return the canonical form of an IP address (`parse_address`), or "" if the address is invalid."""
    return str(parse_address(address) or "")


def _host_key(address: str) -> str:
    """Return a key for the machine with this address. All loopback addresses have the same key."""
    return "loopback" if address and ipaddress.ip_address(address).is_loopback else address


def _iter_hops(fields: Fields, field_name: str) -> Iterator[Hop]:
    """Yield the entries of the field, from the right."""
    if field_name == FORWARDED:
        for entry in _iter_entries(fields.combined(FORWARDED) or ""):
            parameters = {name.lower(): _unquote(value) for name, value in reversed(_PAIRS.findall(entry))}
            scheme = parameters.get("proto", "").lower()
            yield Hop(
                _node_address(parameters.get("for", "")),
                scheme if scheme in _SCHEMES else "",
                parameters.get("host", ""),
            )
        return
    scheme = (fields.combined("x-forwarded-proto") or "").rpartition(",")[2].strip().lower()
    nodes = (fields.combined(X_FORWARDED_FOR) or "").rsplit(",", HOPS_MAX)[-HOPS_MAX:]
    known = [node.strip() for node in reversed(nodes) if node.strip()]
    for position, node in enumerate(known or [""]):
        yield Hop(_node_address(node), scheme if not position and scheme in _SCHEMES else "")


def _iter_entries(value: str) -> Iterator[str]:
    """Yield the entries of Forwarded from the right, up to the first malformed entry.

    An entry begins after the rightmost comma that makes it well-formed, because a comma can belong to a quoted string.
    A client cannot hide the entries of proxies in a quoted string that it never closes.
    """
    end = len(value)
    for _ in range(HOPS_MAX):
        begin = comma = end
        while comma > max(0, end - ENTRY_MAX):
            comma = value.rfind(",", 0, comma)
            begin = comma + 1
            if _ENTRY.fullmatch(value, begin, end):
                break
            if comma < 0:
                return
        else:
            return
        yield value[begin:end]
        if comma < 0:
            return
        end = comma


def _unquote(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _node_address(node: str) -> str:
    """Return the address of a node without its port, or "" for `unknown` and obfuscated names (RFC 7239, section 6)."""
    node = _unquote(node)
    match = _NODE.fullmatch(node)
    return canonical(match[1] or match[2] if match else node)
