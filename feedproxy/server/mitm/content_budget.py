"""Budget for the content of requests, which is in memory until the endpoint has answered. Without it, one client could
fill the memory with pushes on all its connections."""

from collections import Counter

from feedproxy.client_network import client_network

CLIENT_SHARE = 2
"""Budget of one client network, as a multiple of the maximum size of one content."""

TOTAL_SHARE = 8
"""Budget of all clients together, as a multiple of the maximum size of one content."""


class ContentBudget:
    """Budget in bytes, for each client network and in total."""

    def __init__(self) -> None:
        self._reserved: dict[str, tuple[str, int]] = {}
        self._by_network: Counter[str] = Counter()

    def reserve(self, flow: str, address: str, size: int, content_max: int) -> bool:
        """Reserve `size` bytes in total for the content of a flow. Return False, and reserve no more, if this would
        exceed the budget of the client's network or of all clients.

        A smaller reservation of the flow grows to `size`, a larger one stays. `content_max` is the maximum size of one
        content at this endpoint. The caller must release the reservation.
        """
        network, reserved = self._reserved.get(flow) or (client_network(address), 0)
        growth = size - reserved
        if growth <= 0:
            return True
        if (
            self._by_network[network] + growth > CLIENT_SHARE * content_max
            or self._by_network.total() + growth > TOTAL_SHARE * content_max
        ):
            return False
        self._reserved[flow] = (network, size)
        self._by_network[network] += growth
        return True

    def release(self, flow: str) -> None:
        """Release the reservation of a flow, if it has one."""
        if (reservation := self._reserved.pop(flow, None)) is not None:
            network, size = reservation
            self._by_network[network] -= size
            if not self._by_network[network]:
                del self._by_network[network]
