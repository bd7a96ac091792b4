"""What an installation goes by, the same on all machines: its name in Via, and the secret behind pseudonyms.

Both are needed before anything else is opened, so they are asked for here, at the start, by a short blocking look. They
are kept in the machine's own store too: a machine that starts while Redis is away is who it was.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.cluster.keys import RedisKeys
from feedproxy.cluster.redis_connection import host_and_port, redis_library

logger = logging.getLogger("feedproxy.cluster")

TIMEOUT: Seconds = 2


def agree_on_state(
    url: str, names: RedisKeys, own: Mapping[str, bytes], make: Mapping[str, Callable[[], bytes]]
) -> dict[str, bytes]:
    """What the fleet goes by, by name of what `make` makes: as it has agreed before, else as this machine goes by
    (`own`), else newly made. Raises UsageError where redis-py is missing; an absent Redis is told in the log."""
    library: Any = redis_library()
    offered = {name: own.get(name) or made() for name, made in make.items()}
    try:
        client = library.Redis.from_url(
            url,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            retry=library.retry.Retry(library.backoff.NoBackoff(), 0),
            protocol=2,
        )
        with client:
            for name, value in offered.items():
                client.hsetnx(names.identity, name, value)
            found = client.hgetall(names.identity)
    except (library.exceptions.RedisError, OSError) as error:
        told = type(error).__name__
        logger.warning(
            "Redis at %s: identity of the installation not read (%s), this machine's own is used",
            host_and_port(url),
            told,
        )
        return offered
    return {name: bytes(found.get(name.encode(), value)) for name, value in offered.items()}
