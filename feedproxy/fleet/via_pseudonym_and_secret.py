"""State that is the same on all machines of a fleet: the pseudonym in Via, and the secret of readers' pseudonyms.

Both are read from Redis at the start, by a short blocking request. A machine that starts without Redis uses the values
that it stored last.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.fleet.redis_connection import host_and_port, redis_library
from feedproxy.fleet.redis_keys import RedisKeys

logger = logging.getLogger("feedproxy.fleet")

TIMEOUT: Seconds = 2


def agree_on_state(
    url: str, keys: RedisKeys, own: Mapping[str, bytes], makers: Mapping[str, Callable[[], bytes]]
) -> dict[str, bytes]:
    """Return the shared state by name. Raises UsageError if redis-py is missing.

    Each value comes from Redis. If Redis lacks it or does not answer, it comes from `own`, the state of this machine.
    If `own` lacks it, too, the function in `makers` makes it.
    """
    library: Any = redis_library()
    proposed = {name: own.get(name) or make() for name, make in makers.items()}
    try:
        client = library.Redis.from_url(
            url,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            retry=library.retry.Retry(library.backoff.NoBackoff(), 0),
            protocol=2,
        )
        with client:
            for name, value in proposed.items():
                client.hsetnx(keys.identity, name, value)
            stored_values = client.hgetall(keys.identity)
    except (library.exceptions.RedisError, OSError) as error:
        logger.warning(
            "fleet: shared state not read from Redis at %s (%s), using this machine's own state",
            host_and_port(url),
            type(error).__name__,
        )
        return proposed
    return {name: bytes(stored_values.get(name.encode(), value)) for name, value in proposed.items()}
