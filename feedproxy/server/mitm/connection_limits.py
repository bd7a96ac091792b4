"""How many connections one address holds, so that a single reader cannot take all there are."""

import ipaddress
from collections.abc import Hashable
from functools import lru_cache

from feedproxy.server.mitm.request_routing import trusts
from feedproxy.settings import Settings


class Crowd:
    """The connections that are counted, by client id, and how many come from each place."""

    def __init__(self) -> None:
        self._places: dict[Hashable, str] = {}
        self._held: dict[str, int] = {}

    def let_in(self, client: Hashable, peer: str, settings: Settings) -> bool:
        """Count one more; False where its address holds as many as it may. A load balancer's are its readers'."""
        most = settings.max_connections_per_address
        if not most or trusts(settings, peer):
            return True
        place = place_of(peer)
        if not self.enter(place, most):
            return False
        self._places[client] = place
        return True

    def gone(self, client: Hashable) -> None:
        """The connection has ended, if it was counted."""
        place = self._places.pop(client, None)
        if place is not None:
            self.leave(place)

    def enter(self, place: str, most: int) -> bool:
        """Count one more of a place; False where it holds so many already. Whoever enters leaves."""
        held = self._held.get(place, 0)
        if held >= most:
            return False
        self._held[place] = held + 1
        return True

    def leave(self, place: str) -> None:
        """Count one less."""
        held = self._held[place] - 1
        if held:
            self._held[place] = held
        else:
            del self._held[place]


@lru_cache(maxsize=4096)
def place_of(peer: str) -> str:
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
