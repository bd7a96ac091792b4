"""Limit on the number of connections per client network."""

from collections import Counter
from collections.abc import Hashable

from feedproxy.client_network import client_network
from feedproxy.request.forwarded_client_address import is_trusted_proxy
from feedproxy.settings import Settings


class ConnectionLimiter:
    """Limiter of the connections of each client network."""

    def __init__(self) -> None:
        self._networks: dict[Hashable, str] = {}
        self._counts: Counter[str] = Counter()

    def acquire(self, connection: Hashable, peer: str, settings: Settings) -> bool:
        """Count a connection, unless the peer is a trusted proxy.

        Return False if the client's network has reached its limit.
        """
        limit = settings.max_connections_per_address
        if not limit or (settings.trusted_proxies and is_trusted_proxy(settings, peer)):
            return True
        network = client_network(peer)
        if self._counts[network] >= limit:
            return False
        self._counts[network] += 1
        self._networks[connection] = network
        return True

    def release(self, connection: Hashable) -> None:
        """Release a connection if it was counted."""
        if (network := self._networks.pop(connection, None)) is not None:
            self._counts[network] -= 1
            if not self._counts[network]:
                del self._counts[network]
