"""A bound on guessing: who was wrong too often waits, and what it says meanwhile is not looked at."""

from collections import OrderedDict

from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.upstream.special_networks import client_network

GUESSES_MAX = 20
"""Wrong passwords or tokens from one network within TRIES_WITHIN, before it waits."""
GUESS_WINDOW: Seconds = 300
NETWORKS_MAX = 10_000
"""Networks remembered, those that were wrong last: some 500 bytes each."""


class GuessLimit:
    """Counts wrong passwords or tokens by the client's network: an IPv4 address, or 64 bits of an IPv6 one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, list[Instant]] = OrderedDict()

    def record_wrong(self, address: str) -> None:
        """A wrong one came from this address."""
        network = client_network(address)
        instants = self._wrong.setdefault(network, [])
        instants.append(self._clock.now())
        del instants[:-GUESSES_MAX]
        self._wrong.move_to_end(network)
        if len(self._wrong) > NETWORKS_MAX:
            self._wrong.popitem(last=False)

    def retry_after(self, address: str) -> Seconds:
        """Seconds until what comes from this address is looked at again; 0 where it is at once."""
        now = self._clock.now()
        # After a clock that ran ahead is set back, what was counted in the future counts no more.
        counted = self._wrong.get(client_network(address), [])
        instants = [at for at in counted if now - GUESS_WINDOW < at <= now]
        return instants[0] + GUESS_WINDOW - now if len(instants) >= GUESSES_MAX else 0
