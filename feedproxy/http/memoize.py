"""Memoization of parsers with bounded memory.

`functools.lru_cache` limits the number of entries, but not their size. Clients can send long field values, so results
for long values are not cached.
"""

from collections.abc import Callable
from functools import lru_cache, wraps


def memoize_short[T](*, entries: int = 4096, longest: int = 512) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Return a decorator that caches up to `entries` results of a pure function of one string.

    Strings longer than `longest` characters are not cached.
    """

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        cached = lru_cache(maxsize=entries)(function)

        @wraps(function)
        def call(value: str) -> T:
            return cached(value) if len(value) <= longest else function(value)

        return call

    return decorate


def memoize_by_identity[*Arguments, Result](
    *, entries: int = 64
) -> Callable[[Callable[[*Arguments], Result]], Callable[[*Arguments], Result]]:
    """Return a decorator that caches results of a function of immutable objects, which are compared by identity.

    When the cache has `entries` results, it is emptied.
    """

    def decorate(function: Callable[[*Arguments], Result]) -> Callable[[*Arguments], Result]:
        results: dict[tuple[int, ...], tuple[object, Result]] = {}

        @wraps(function)
        def call(*arguments: *Arguments) -> Result:
            key = tuple(map(id, arguments))
            cached = results.get(key)  # `results` references the arguments, so their ids are not reused
            if cached is not None:
                return cached[1]
            result = function(*arguments)
            if len(results) >= entries:
                results.clear()
            results[key] = arguments, result
            return result

        return call

    return decorate
