"""Bodies that helper processes derive from stored content: deltas, `dcz` bodies, content codings."""

import asyncio
import logging
from collections.abc import Callable

from feedproxy.errors import FeedproxyError, Overload
from feedproxy.lru_map import LRU
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.single_flight import SingleFlight

logger = logging.getLogger(__name__)


type Key = tuple[str | bytes, ...]


class DerivedBodies:
    """Bodies that are made on demand, with a bounded cache. The first part of a key is the target."""

    def __init__(self, helper_pool: HelperPool, bytes_max: int, kind: str) -> None:
        """Create an empty cache. The log names the bodies as `kind`."""
        self._helper_pool = helper_pool
        self._kind = kind
        self._cache: LRU[Key, bytes | None] = LRU(bytes_max)
        """Bodies by key. None means that no body can be made."""
        self.in_progress: SingleFlight[Key, bytes | None] = SingleFlight()

    def __contains__(self, key: Key) -> bool:
        return key in self._cache

    async def get(self, key: Key, work: Callable[[], bytes | None]) -> bytes | None:
        """Return the body with this key, made by `work` at the first call, or None if it cannot be made."""
        if key in self._cache:
            return self._cache.get(key)
        task, _ = self.in_progress.join_or_start(key, lambda: self._make(key, work))
        return await asyncio.shield(task)

    async def _make(self, key: Key, work: Callable[[], bytes | None]) -> bytes | None:
        body, is_final = await make_body(self._helper_pool, work, self._kind, str(key[0]))
        if is_final:
            self._cache.put(key, body, sum(map(len, key)) + len(body or b""))
        return body


async def make_body(
    helper_pool: HelperPool, work: Callable[[], bytes | None], kind: str, target: str
) -> tuple[bytes | None, bool]:
    """Return a body that `work` makes in a helper process, and True if the result is final.

    The body is None if `work` returned None or raised an exception. The exception is logged with `kind` and `target`.
    If no helper process was free, the result is not final, and the next request should try again.
    """
    try:
        return await helper_pool.submit(work), True
    except Overload:
        return None, False
    except FeedproxyError as error:
        logger.warning("representation: %s of %s not made: %s", kind, target, error)
    except Exception:
        logger.exception("representation: %s of %s failed", kind, target)
    return None, True
