"""Rate limit for wrong passwords and tokens. While a network exceeds the limit, its credentials are not checked."""

from feedproxy.client_network import client_network
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.lru_map import LRU

GUESSES_MAX = 20
"""Maximum number of wrong passwords or tokens from one network within GUESS_WINDOW seconds."""
GUESS_WINDOW: Seconds = 300
NETWORKS_MAX = 10_000
"""At most this many networks are remembered, in about 500 bytes of memory each. The least recently used network is
forgotten first."""


class FailedLoginLimit:
    """Limit of the wrong passwords and tokens from each client network (client_network.py)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wrong: LRU[str, list[Instant]] = LRU(entries_max=NETWORKS_MAX)

    def record_wrong(self, address: str) -> None:
        """Count a wrong password or token from this address."""
        network = client_network(address)
        instants = [*(self._wrong.get(network) or ()), self._clock.now()]
        self._wrong.put(network, instants[-GUESSES_MAX:])

    def retry_after(self, address: str) -> Seconds:
        """Return the seconds until credentials from this address are checked again, or 0 if they are checked now."""
        now = self._clock.now()
        # Instants in the future were recorded before the clock was set back. They are ignored.
        counted = self._wrong.get(client_network(address)) or []
        instants = [at for at in counted if now - GUESS_WINDOW < at <= now]
        return instants[0] + GUESS_WINDOW - now if len(instants) >= GUESSES_MAX else 0
