"""How many connections one address holds, so that a single reader cannot take all there are."""

import ipaddress
from collections.abc import Hashable
from functools import lru_cache

from feedproxy.server.mitm.request_routing import is_trusted_proxy
from feedproxy.settings import Settings


class ConnectionLimiter:
    """The connections that are counted, by client id, and how many come from each place."""

    def __init__(self) -> None:
        self._networks: dict[Hashable, str] = {}
        self._counts: dict[str, int] = {}

    def acquire_for_client(self, client: Hashable, peer: str, settings: Settings) -> bool:
        """Count one more; False where its address holds as many as it may. A load balancer's are its readers'."""
        limit = settings.max_connections_per_address
        if not limit or is_trusted_proxy(settings, peer):
            return True
        network = client_network(peer)
        if not self.acquire(network, limit):
            return False
        self._networks[client] = network
        return True

    def release_client(self, client: Hashable) -> None:
        """The connection has ended, if it was counted."""
        network = self._networks.pop(client, None)
        if network is not None:
            self.release(network)

    def acquire(self, network: str, limit: int) -> bool:
        """Count one more of a place; False where it holds so many already. Whoever enters leaves."""
        count = self._counts.get(network, 0)
        if count >= limit:
            return False
        self._counts[network] = count + 1
        return True

    def release(self, network: str) -> None:
        """Count one less."""
        count = self._counts[network] - 1
        if count:
            self._counts[network] = count
        else:
            del self._counts[network]


@lru_cache(maxsize=4096)
def client_network(peer: str) -> str:
    """Whose an address is: of IPv6 everybody has a whole /64 to himself (RFC 6177, section 2)."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
