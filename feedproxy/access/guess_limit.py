"""Rate limit for wrong passwords and tokens: above it, credentials from that network are not checked."""

from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.lru import LRU
from feedproxy.upstream.special_networks import client_network

GUESSES_MAX = 20
"""Wrong passwords or tokens from one network within GUESS_WINDOW; further ones are not checked."""
GUESS_WINDOW: Seconds = 300
NETWORKS_MAX = 10_000
"""Networks that are remembered, the latest ones; some 500 bytes each."""


class GuessLimit:
    """Counts wrong passwords or tokens by the client's network: an IPv4 address, or 64 bits of an IPv6 one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wrong: LRU[str, list[Instant]] = LRU(entries_max=NETWORKS_MAX)

    def record_wrong(self, address: str) -> None:
        """Count a wrong password or token from this address."""
        network = client_network(address)
        instants = [*(self._wrong.get(network) or ()), self._clock.now()]
        self._wrong.put(network, instants[-GUESSES_MAX:])

    def retry_after(self, address: str) -> Seconds:
        """Return the seconds until credentials from this address are checked again; 0 if they are checked now."""
        now = self._clock.now()
        # Instants in the future are ignored: the clock was set back.
        counted = self._wrong.get(client_network(address)) or []
        instants = [at for at in counted if now - GUESS_WINDOW < at <= now]
        return instants[0] + GUESS_WINDOW - now if len(instants) >= GUESSES_MAX else 0
