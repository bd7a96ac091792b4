"""The listeners of this proxy, which no target may lead to.

A request that came back to the readers' port would be answered as if it came from this machine, and one for the admin
port would have the operator's rights. So a port that listens here is refused at every address of this machine, by
every entrance, whatever `allow_private` and `allow_networks` say.
"""

import errno
import ipaddress
import socket

from feedproxy.upstream.special_networks import Address, embedded_ipv4

_NOT_LOCAL = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""What bind() says of another machine's address, and of a family that this machine does not have."""


class OwnListeners:
    """The ports that listen: for readers, and for the operator."""

    def __init__(self) -> None:
        self._readers: set[int] = set()
        self._all: set[int] = set()

    def add(self, port: int, *, for_readers: bool) -> None:
        """A listener of this proxy has this port, here or in another worker."""
        self._all.add(port)
        if for_readers:
            self._readers.add(port)

    def include(self, address: str, port: int) -> bool:
        """Whether a connection to this address and port would end at a listener of this proxy."""
        return port in self._all and _ends_here(address)

    def serves_clients(self, port: int) -> bool:
        """Whether a listener for readers has this port."""
        return port in self._readers


def _ends_here(text: str) -> bool:
    bare, zone, _ = text.partition("%")
    address = ipaddress.ip_address(bare)
    inner = embedded_ipv4(address)
    return is_of_this_machine(address, zone=bool(zone)) or (inner is not None and is_of_this_machine(inner[1]))


def is_of_this_machine(address: Address, *, zone: bool = False) -> bool:
    """Whether this address belongs to an interface of this machine. Where that cannot be found out, it does."""
    if address.is_loopback or address.is_unspecified:
        return True
    if zone or (address.version == 6 and address.is_link_local):
        return True  # it says nothing without its interface
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError as error:
        return error.errno not in _NOT_LOCAL
    return True
