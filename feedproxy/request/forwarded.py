"""Where a request comes from, by the word of the trusted proxies that it passed: Forwarded or X-Forwarded-For.

Each proxy adds its entry at the right end, so the last entry is by the proxy that is connected to us. The entry before
it counts only if the last one names another trusted proxy: that one has written it. Everything further to the left may
come from the client.

X-Forwarded-Proto, X-Forwarded-Host and X-Forwarded-Port have no entries: what a proxy leaves alone there looks like
what it wrote. Of these, only the scheme is read (with X-Forwarded-For), since a wrong one changes nothing but the
scheme of the addresses in this client's own answer.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from feedproxy.http.message import Fields

X_FORWARDED_FOR = "x-forwarded-for"
FORWARDED = "forwarded"

HOPS_MAX = 16
"""Entries read, from the right; more trusted proxies in a row than any installation has."""

ENTRY_MAX = 1024
"""Bytes of one entry. Four parameters, with a host name of 255 bytes each at most."""

# RFC 7239, section 4; in tokens also the signs of an address with a port, which senders do not always quote.
# Nothing is given back: white space between semicolons could be shared out in ever more ways.
_PAIR = r"""[!#$%&'*+.^_`|~0-9A-Za-z-]++=(?:"(?:[^"\\]|\\.)*+"|[!#$%&'*+.^_`|~0-9A-Za-z:\[\]-]*+)"""
_ENTRY = re.compile(rf"[ \t]*+{_PAIR}(?:[ \t]*+;[ \t]*+(?:{_PAIR})?+)*+[ \t]*+")
_PAIRS = re.compile(r"""(?<![^=;\s])([^=;\s]++)=("(?:[^"\\]|\\.)*+"|[^";\s]*+)""")
_NODE = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::[0-9A-Za-z._-]+)?|([0-9.]+):[0-9A-Za-z._-]+")
_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class Hop:
    """One entry: the address that a proxy was connected by ("" where it is hidden or unknown), scheme and host."""

    address: str
    scheme: str = ""
    host: str = ""


def client_hop(fields: Fields, field_name: str, peer: str, is_trusted: Callable[[str], bool]) -> Hop:
    """Who asks, as the trusted `peer` and the trusted proxies before it say in the field `named`.

    Scheme and host are those of the peer's own entry. Without a usable entry the address is the peer's.
    """
    nearest, address = Hop(""), canonical(peer)
    passed = {_host_key(address)}
    for position, hop in enumerate(_iter_hops(fields, field_name)):
        if not position:
            nearest = hop
        if not hop.address:
            break
        address = hop.address
        # A proxy stands in a chain once. A client on the machine of a trusted proxy is no further proxy.
        if _host_key(address) in passed or not is_trusted(address):
            break
        passed.add(_host_key(address))
    return Hop(address, nearest.scheme, nearest.host)


def canonical(address: str) -> str:
    """Return an IP address in its one spelling, without zone; an IPv4-mapped one as IPv4. "" for what is none."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found)


def _host_key(address: str) -> str:
    """Return all loopback addresses are one machine's."""
    return "loopback" if address and ipaddress.ip_address(address).is_loopback else address


def _iter_hops(fields: Fields, field_name: str) -> Iterator[Hop]:
    """Return the entries of the field, from the right."""
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
    """Return the entries of Forwarded from the right, as far as they are well formed.

    Read from the right, an entry is the shortest end of the value that is well formed: a quote which a client has left
    open takes no entry with it. Quoted strings that hold a comma are whole, since no part of one is an entry.
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
    """Return the address of a node, without port; "" for `unknown` and obfuscated names (RFC 7239, section 6)."""
    node = _unquote(node)
    found = _NODE.fullmatch(node)
    return canonical(found[1] or found[2] if found else node)
