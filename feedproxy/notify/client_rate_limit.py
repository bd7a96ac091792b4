"""Limit on the pings and subscription requests of each client (option `source_limit`)."""

from feedproxy.client_network import client_network
from feedproxy.clock import Instant
from feedproxy.errors import FeedproxyError
from feedproxy.lru_map import LRU

CLIENTS_MAX = 10_000
"""Each RateLimiter counts at most this many clients. The client with the oldest last request is removed first."""


class TooManyRequests(FeedproxyError, status=429, detail="too-often"):
    """Error for a client that exceeds `source_limit`."""


class RateLimiter:
    """Token buckets, one for each client network. A full bucket has the tokens for one minute."""

    def __init__(self) -> None:
        self._buckets: LRU[str, tuple[float, Instant]] = LRU(entries_max=CLIENTS_MAX)

    def check(self, address: str, now: Instant, per_minute: int, what: str) -> None:
        """Count a request of a client, as `allow` does. Raises TooManyRequests above the limit. `what` names the kind
        of requests in the error's message."""
        if not self.allow(address, now, per_minute):
            raise TooManyRequests(f"too many {what} from this address; try again in a minute")

    def allow(self, address: str, now: Instant, per_minute: int) -> bool:
        """Count a request of a client. Return False if the client's network exceeds `per_minute` requests a minute,
        otherwise True. If `per_minute` is 0, there is no limit."""
        if per_minute <= 0:
            return True
        source = client_network(address)
        tokens, since = self._buckets.get(source) or (float(per_minute), now)
        tokens = min(float(per_minute), tokens + abs(now - since) * per_minute / 60)
        allowed = tokens >= 1
        self._buckets.put(source, (tokens - 1 if allowed else tokens, now))
        return allowed
