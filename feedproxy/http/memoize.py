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


def memoize_by_identity[Value, Result](
    *, entries: int = 64
) -> Callable[[Callable[[Value], Result]], Callable[[Value], Result]]:
    """Return a decorator that caches the results of a function of one immutable object.

    The cache has the results for the last `entries` objects, and recognises an object by its identity.
    """

    def decorate(function: Callable[[Value], Result]) -> Callable[[Value], Result]:
        results: dict[int, tuple[Value, Result]] = {}

        @wraps(function)
        def call(value: Value) -> Result:
            cached = results.get(id(value))  # `results` references the value, so its id is not reused
            if cached is not None:
                return cached[1]
            result = function(value)
            if len(results) >= entries:
                results.clear()
            results[id(value)] = value, result
            return result

        return call

    return decorate


def memoize_last[First, Second, Result](
    function: Callable[[First, Second], Result],
) -> Callable[[First, Second], Result]:
    """Return a function of two immutable objects with a cache for its last result.

    The cached result is returned if both objects are identical to the last ones.
    """
    last: tuple[First, Second, Result] | None = None

    @wraps(function)
    def call(first: First, second: Second) -> Result:
        nonlocal last
        cached = last  # one read: other threads replace it as a whole
        if cached is not None and cached[0] is first and cached[1] is second:
            return cached[2]
        result = function(first, second)
        last = first, second, result
        return result

    return call
