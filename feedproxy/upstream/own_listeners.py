"""The listeners of this proxy. They are forbidden as targets.

A request that the proxy sends to its own admin port would have the operator's rights. Every entrance therefore refuses
the ports of all listeners at every address of this machine. `allow_private` and `allow_networks` do not change this
rule.
"""

import errno
import ipaddress
import socket

from feedproxy.upstream.special_networks import Address, embedded_ipv4

_NOT_LOCAL = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""Errors of bind() for an address that does not belong to this machine."""


class OwnListeners:
    """The ports on which this proxy listens for clients and for the operator."""

    def __init__(self) -> None:
        self._readers: set[int] = set()
        self._all: set[int] = set()

    def add(self, port: int, *, for_readers: bool) -> None:
        """Record the port of a listener, of this or another worker. `for_readers` is true if it serves clients."""
        self._all.add(port)
        if for_readers:
            self._readers.add(port)

    def reaches_listener(self, address: str, port: int) -> bool:
        """Return True if a connection to this address and port would reach a listener of this proxy."""
        return port in self._all and _ends_here(address)

    def serves_clients(self, port: int) -> bool:
        """Return True if a listener for clients has this port."""
        return port in self._readers


def _ends_here(text: str) -> bool:
    bare, zone, _ = text.partition("%")
    address = ipaddress.ip_address(bare)
    inner = embedded_ipv4(address)
    return is_of_this_machine(address, zone=bool(zone)) or (inner is not None and is_of_this_machine(inner[1]))


def is_of_this_machine(address: Address, *, zone: bool = False) -> bool:
    """Return True if this address belongs to an interface of this machine, or if the owner is unknown. The owner of a
    link-local IPv6 address, or of an address with a zone id (`zone`), is unknown."""
    if address.is_loopback or address.is_unspecified:
        return True
    if zone or (address.version == 6 and address.is_link_local):
        return True  # the meaning of a zone depends on the interface
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError as error:
        return error.errno not in _NOT_LOCAL
    return True
