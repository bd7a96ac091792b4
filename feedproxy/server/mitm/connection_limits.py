"""How many connections one address holds, so that a single reader cannot take all there are."""

from collections.abc import Hashable

from feedproxy.server.mitm.request_routing import is_trusted_proxy
from feedproxy.settings import Settings
from feedproxy.upstream.special_networks import client_network


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
