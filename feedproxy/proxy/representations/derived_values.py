"""Values that helper processes derive from stored content: deltas, `dcz` bodies, content codings, and the feeds to
which pages link."""

import asyncio
import logging
from collections.abc import Callable, Sized

from feedproxy.errors import FeedproxyError, Overload
from feedproxy.lru_map import LRU
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.single_flight import SingleFlight

logger = logging.getLogger(__name__)


type Key = tuple[str | bytes, ...]


class DerivedValues[Value: Sized]:
    """Values that are made on demand, with a bounded cache. The first part of a key is the target."""

    def __init__(
        self, helper_pool: HelperPool, bytes_max: int, kind: str, size_of: Callable[[Value], int] = len
    ) -> None:
        """Create an empty cache for `bytes_max` bytes. The log calls a value `kind`. `size_of` returns the size of a
        value in bytes."""
        self._helper_pool = helper_pool
        self._kind = kind
        self._size_of = size_of
        self._cache: LRU[Key, Value | None] = LRU(bytes_max)
        """Values by key. None means that no value can be made."""
        self.in_progress: SingleFlight[Key, Value | None] = SingleFlight()

    def __contains__(self, key: Key) -> bool:
        return key in self._cache

    async def get(self, key: Key, work: Callable[[], Value | None]) -> Value | None:
        """Return the value with this key, or None if it cannot be made. At the first call, `work` makes the value."""
        if key in self._cache:
            return self._cache.get(key)
        task, _ = self.in_progress.join_or_start(key, lambda: self._make(key, work))
        return await asyncio.shield(task)

    async def _make(self, key: Key, work: Callable[[], Value | None]) -> Value | None:
        value, is_final = await make_value(self._helper_pool, work, self._kind, str(key[0]))
        if is_final:
            self._cache.put(key, value, sum(map(len, key)) + (0 if value is None else self._size_of(value)))
        return value


async def make_value[Value](
    helper_pool: HelperPool, work: Callable[[], Value | None], kind: str, target: str
) -> tuple[Value | None, bool]:
    """Return a value that `work` makes in a helper process, and True if the result is final.

    The value is None if `work` returned None or raised an exception, which is logged with `kind` and `target`. If no
    helper process was free, return None and False: the next request should try again.
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
