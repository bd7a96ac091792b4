"""Remember what was parsed, within bounds: the same few field values come with every request.

`functools.lru_cache` bounds the number of entries, but not their size, and field values come from strangers:
with a head of 64 KiB allowed, a few thousand hostile values would fill the memory. So a long value is parsed
anew each time; those that readers and origins really send are short.
"""

from collections.abc import Callable
from functools import lru_cache, wraps


def memoised[T](*, entries: int = 4096, longest: int = 512) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Remember up to `entries` results of a pure function of one string, of `longest` characters at most."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        remembered = lru_cache(maxsize=entries)(function)

        @wraps(function)
        def call(value: str) -> T:
            return remembered(value) if len(value) <= longest else function(value)

        return call

    return decorate
