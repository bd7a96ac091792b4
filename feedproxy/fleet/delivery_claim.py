"""Claim to the deliveries of a change that only one machine of a fleet must make."""

from feedproxy.clock import Seconds
from feedproxy.fleet.redis_connection import RedisRefused, RedisUnavailable
from feedproxy.fleet.redis_operations import RedisOperations
from feedproxy.notify.changes.change_log import FeedSnapshot

CLAIM_LIFETIME: Seconds = 7 * 86_400
"""Redis remembers for this many seconds which machine delivers the notifications of a change."""


async def claim_delivery(redis_operations: RedisOperations, snapshot: FeedSnapshot) -> bool:
    """Claim the deliveries of a change. Return True if this machine makes them.

    The result is also True while Redis is unavailable.
    """
    try:
        return await redis_operations.claim(f"{snapshot.target} {snapshot.digest} {snapshot.at}", CLAIM_LIFETIME)
    except (RedisUnavailable, RedisRefused):
        return True
