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


def lately[Value, Result](*, entries: int = 64) -> Callable[[Callable[[Value], Result]], Callable[[Value], Result]]:
    """Remember what was made of the last values: of these very objects, which must mean the same for ever.

    One request asks the same of the same value many times, and never again.
    """

    def decorate(function: Callable[[Value], Result]) -> Callable[[Value], Result]:
        seen: dict[int, tuple[Value, Result]] = {}

        @wraps(function)
        def call(value: Value) -> Result:
            found = seen.get(id(value))  # while it is held here no other has this number
            if found is not None:
                return found[1]
            result = function(value)
            if len(seen) >= entries:
                seen.clear()
            seen[id(value)] = value, result
            return result

        return call

    return decorate
