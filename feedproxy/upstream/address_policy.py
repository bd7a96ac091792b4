"""Policy for targets: permitted ports, addresses and names.

Clients and origins choose targets, redirects, callbacks and discovered pages. Without a policy, the proxy could be made
to send requests into a network behind a firewall. Each name is resolved once, and the connection goes to a checked
address, so DNS rebinding has no effect.
"""

import asyncio
import ipaddress
import logging
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial

from feedproxy.errors import BadTarget, Forbidden, LoopDetected, UsageError
from feedproxy.http.target_uri.registrable_domain import is_below_public_suffix
from feedproxy.upstream import local_resource_exhaustion
from feedproxy.upstream.own_listeners import OwnListeners
from feedproxy.upstream.parent_proxy import Parent
from feedproxy.upstream.resolver import LOOKUP_TIMEOUT, Lookup, system_lookup
from feedproxy.upstream.special_networks import Address, Network, embedded_ipv4, special_network_of
from feedproxy.upstream.upstream_errors import NoNetwork, Unreachable

logger = logging.getLogger(__name__)

DEFAULT_PORTS = ("80", "443", "8080", "8443")

PRIVATE_PORTS = "1025-65535"
"""Ports that `allow_private` permits in addition to the listed ports, because private services use any port."""

# "Ends in a number", as the URL standard tests it: an IPv4 address in some spelling, never a name.
_NUMERIC_END = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$")
_DOTTED_QUAD = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})")


_LOOPBACK: Mapping[int, Network] = {4: ipaddress.ip_network("127.0.0.0/8"), 6: ipaddress.ip_network("::1/128")}


class AddressTrust(Enum):
    """The source of an address, which determines the checks that the address must pass."""

    UNTRUSTED = "anybody"
    """An address that a client or an origin sent. Port and addresses are checked."""
    CONFIGURED_NAME = "configuration"
    """A service that the operator configured by name or address. Only the addresses of a name are checked."""
    OPERATOR_HOST = "own"
    """A machine of the operator, such as the upstream. Neither port nor address is checked."""


class AddressPolicy:
    """The ports and addresses that a target may have. Raises UsageError for invalid ports and networks.

    * `allow_private` permits PRIVATE_PORTS, and private, shared, loopback and link-local networks, but not multicast,
      reserved networks and cloud metadata services.
    * `networks` are always permitted.
    * `ports` are numbers or ranges such as `1025-65535`.
    * `listeners` are this proxy's own listeners, which are never permitted.
    """

    def __init__(
        self,
        allow_private: bool = False,
        networks: Sequence[str] = (),
        ports: Sequence[str] = DEFAULT_PORTS,
        *,
        lookup: Lookup = system_lookup,
        listeners: OwnListeners | None = None,
    ) -> None:
        self._allow_private = allow_private
        self._networks = tuple(_network(network) for network in networks)
        permitted = (*ports, PRIVATE_PORTS) if allow_private else ports
        self._ports = tuple(_port_range(port) for port in permitted)
        self._lookup = lookup
        self._listeners = listeners or OwnListeners()

    def check_port(self, port: int) -> None:
        """Raise Forbidden if the port is not permitted."""
        if not any(first <= port <= last for first, last in self._ports):
            raise Forbidden(f"port {port} is not in allow_ports")

    def check_address(self, ip: str) -> str:
        """Return the address in its usual spelling. Raise Forbidden with the reason if it is not permitted."""
        if "%" in ip:
            # A zone id is valid on this machine only (RFC 4007, section 11).
            raise Forbidden(f"{ip} has a zone id")
        try:
            address = ipaddress.ip_address(ip)
        except ValueError:
            raise Forbidden(f"invalid IP address {ip!r}") from None
        usual = str(address)
        self._check(address, usual)
        return usual

    def _check(self, address: Address, subject: str) -> None:
        listed = any(address in network for network in self._networks)
        if (inner := embedded_ipv4(address)) is not None:
            kind, target = inner
            if not (listed or self._allow_private):
                raise Forbidden(f"{subject} contains {target} ({kind}), and is not in allow_networks")
            self._check(target, f"{subject} ({target})")
        elif (
            not listed
            and (row := special_network_of(address)) is not None
            and not (row.private and self._allow_private)
        ):
            raise Forbidden(f"{subject} is not a public address, nor in allow_networks: {row.description}")

    def literal_address(self, host: str, port: int) -> str | None:
        """Return the checked address of a host that is a literal address, or None for a name.

        Raises Forbidden for addresses that are not permitted, for this proxy's listeners, and for unusual spellings of
        IPv4 (0x7f.1, 2130706433, 127.1, 010.0.0.1), which resolvers parse differently. Raises BadTarget for an invalid
        host.
        """
        host = _normalise_host(host)
        if host.startswith("[") or ":" in host:
            ip = host.removeprefix("[").removesuffix("]")
        elif _NUMERIC_END.search(host):
            ip = host
            if not _DOTTED_QUAD.fullmatch(host):
                raise Forbidden(f"{host} is an unusual spelling of an IPv4 address")
        else:
            return None
        usual = self.check_address(ip)
        self._check_listeners(host, ip, port)
        return usual

    def check_target(self, host: str, port: int) -> None:
        """Raise Forbidden if the port, a literal address, or a loopback name is not permitted. No name is resolved.
        Raises BadTarget for an invalid host."""
        self.check_port(port)
        if self.literal_address(host, port) is None and _is_localhost(_normalise_host(host)):
            self._check_loopback()

    def _check_loopback(self) -> None:
        if not any(network.overlaps(_LOOPBACK[network.version]) for network in self._networks):
            self.check_address("127.0.0.1")

    def _check_listeners(self, host: str, ip: str, port: int) -> None:
        if self._listeners.reaches_listener(ip, port):
            raise Forbidden(f"{host}:{port} is a listener of this proxy")

    def resolver(self, trust: AddressTrust, parent: Parent | None) -> Lookup:
        """Return the function that resolves a host and makes the checks that `trust` requires. `parent` is the parent
        proxy through which the request is sent, or None for a direct connection."""
        if trust is AddressTrust.OPERATOR_HOST:
            return self.addresses if parent is None or not parent.resolves_names else _no_addresses
        configured = trust is AddressTrust.CONFIGURED_NAME
        if parent is not None:
            return partial(self.resolve_for_parent, may_be_unknown=parent.resolves_names, configured=configured)
        return self.resolve_configured if configured else self.resolve

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the permitted addresses of this host, at least one.

        Raises Forbidden for a port or literal address that is not permitted, for `localhost` if loopback addresses are
        not permitted, and for this proxy's listeners. Raises Unreachable for any other name without a permitted
        address, and BadTarget for an invalid host.
        """
        self.check_port(port)
        if (ip := self.literal_address(host, port)) is not None:
            return [ip]
        return await self._resolve_permitted(host, port)

    async def resolve_configured(self, host: str, port: int) -> list[str]:
        """Return the permitted addresses of a host that the operator configured. The port is not checked.

        `localhost` may resolve to loopback addresses. The addresses of any other name are checked like those of a
        target, because name servers choose them. Raises the errors of `resolve`.
        """
        if _is_localhost(_normalise_host(host)):
            addresses = await self.addresses(host, port)
            if not (
                loopback_addresses := [address for address in addresses if ipaddress.ip_address(address).is_loopback]
            ):
                raise Forbidden(f"{host} does not resolve to this machine")
            return loopback_addresses
        return await self._resolve_permitted(host, port)

    async def _resolve_permitted(self, host: str, port: int) -> list[str]:
        permitted, refusal = [], None
        for address in await self.addresses(host, port):
            try:
                # The zone of a resolved link-local address was set by this machine, unlike a zone in a URL.
                self.check_address(address.partition("%")[0])
            except Forbidden as reason:
                refusal = reason
            else:
                permitted.append(address)
        if refusal is not None and not permitted:
            logger.info("%s: %s", host, refusal)
            if _is_localhost(_normalise_host(host)):
                raise refusal
            raise _unresolved_error(host)
        for address in permitted:
            self._check_listeners(host, address, port)
        return permitted

    async def resolve_for_parent(
        self, host: str, port: int, *, may_be_unknown: bool, configured: bool = False
    ) -> list[str]:
        """Return the addresses of a host for a request through a parent proxy. All addresses of a name must be
        permitted.

        If this machine cannot resolve a name with a public suffix, and `may_be_unknown` is true, the result is an empty
        list: the parent then resolves the name. The port and a literal address must be permitted, too, unless the
        operator configured the host (`configured`). Raises the errors of `resolve`.
        """
        if not configured:
            self.check_port(port)
            if (ip := self.literal_address(host, port)) is not None:
                return [ip]
        elif _is_literal(host):
            return [host.strip("[]")]
        try:
            addresses = await self.addresses(host, port)
        except (Unreachable, NoNetwork):  # this machine cannot resolve the name; the parent proxy may have a network
            if may_be_unknown and is_below_public_suffix(_normalise_host(host)):
                return []
            raise
        for address in addresses:
            try:
                self.check_address(address.partition("%")[0])
            except Forbidden as reason:
                logger.info("%s: %s", host, reason)
                raise _unresolved_error(host) from None
            self._check_listeners(host, address, port)
        return addresses

    async def resolve_parent(self, host: str, port: int) -> list[str]:
        """Return the addresses of the parent proxy without checking them. Raises LoopDetected if the parent is this
        proxy."""
        addresses = await self.addresses(host, port)
        if any(self._listeners.reaches_listener(address, port) for address in addresses):
            raise LoopDetected(f"upstream_proxy: {host}:{port} is a listener of this proxy")
        return addresses

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return all addresses of a host, without checking them. Raises Unreachable for an unknown host, BadTarget for
        an invalid host, and Overload if this machine cannot look names up."""
        name = _normalise_host(host)
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT):
                addresses = list(await self._lookup(name, port))
        except TimeoutError as error:
            raise Unreachable(f"{host} cannot be resolved: no response in time") from error
        except (OSError, UnicodeError, MemoryError) as error:
            if (overload := local_resource_exhaustion.overload_of(error, f"{host} cannot be resolved")) is not None:
                raise overload from error
            logger.info("%s: %s", host, getattr(error, "strerror", None) or error)
            raise _unresolved_error(host) from error
        if not addresses:
            raise _unresolved_error(host)
        return addresses


async def _no_addresses(host: str, port: int) -> list[str]:
    """Return an empty list for a machine of the operator, so that the parent proxy resolves the host."""
    return []


def _unresolved_error(host: str) -> Unreachable:
    """Return the error for a name without a permitted address. The error is the same for unknown names, so that clients
    cannot learn which names exist in this machine's network."""
    return Unreachable(f"{host} cannot be resolved")


def _is_localhost(name: str) -> bool:
    """Return True if the name is a loopback name (RFC 6761, section 6.3)."""
    return name == "localhost" or name.endswith(".localhost")


def _normalise_host(host: str) -> str:
    """Return a host in lower case, with A-labels (`xn--…`), and without the final dot. Raises BadTarget if the host is
    invalid."""
    if not host.isascii():
        try:
            host = host.encode("idna").decode(
                "ascii"
            )  # Also folds full-width digits and dots, so that the checks below see the folded text.
        except UnicodeError:
            raise BadTarget(f"invalid host name {host!r}") from None
    host = host.lower().removesuffix(".")
    if not host or not re.fullmatch(r"\[[0-9a-f:.%a-z_~-]+\]|[0-9a-f.]*:[0-9a-f:.]*(?:%[\w.~-]+)?|[a-z0-9._~-]+", host):
        raise BadTarget(f"invalid host name {host!r}")
    if "[" not in host and ":" not in host and any(not label or len(label) > 63 for label in host.split(".")):
        raise BadTarget(f"invalid host name {host!r}")
    return host


def _is_literal(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return False


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise UsageError(f"invalid network {text!r}: expected one such as 10.0.0.0/8") from None


def _port_range(text: str) -> tuple[int, int]:
    first, _, last = text.strip().partition("-")
    try:
        bounds = int(first), int(last or first)
    except ValueError:
        bounds = 0, 0
    if not 1 <= bounds[0] <= bounds[1] <= 65535:
        raise UsageError(f"invalid port {text!r}: expected a number such as 8080, or a range such as 1025-65535")
    return bounds
