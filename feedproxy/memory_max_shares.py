"""Limits of the caches in memory, as fractions of the option `memory_max`. `memory_max` itself limits stored responses.
The caches of values derived from them together take at most as much again."""

from functools import lru_cache

from msgspec import Struct

DIVISORS = {
    "hits": 2,
    "conversions": 4,
    "headlines": 32,
    "deltas": 32,
    "dictionaries": 32,
    "decoded": 16,
    "pages": 64,
    "fetches": 64,
    "scores": 16,
}
"""For each cache, the divisor of `memory_max` that gives its limit. The limits add up to at most `memory_max`."""

READER_SIZE = 256
"""The subscriber counts may have one entry for each of this many bytes of `memory_max`. An entry takes about 100 bytes,
and the rhythm of a reader's polls 48 (subscribers/subscriber_counts.py)."""

READERS_MIN = 1_000_000
"""The subscriber counts may always have this many entries, however small `memory_max` is."""

READERS_PER_FEED = 5
"""In the subscriber counts, a feed with one reader takes as much memory as this many entries."""

MODELS_DIVISOR = 64
"""Divisor of `memory_max`. The quotient limits the cache of parsed documents of each helper process, in bytes. A parsed
feed takes five times the bytes of its document."""


BESIDE_CACHES = 256 * 1024 * 1024
"""Bytes that a worker takes besides its caches: interpreter, helper processes and responses in progress."""

MEMORY_MAX_LEAST = 16 * 1024 * 1024
"""The default of `memory_max` is not reduced below this many bytes."""


def fitting_memory_max(default: int, available: int, workers: int) -> int:
    """Return the default of `memory_max`, or less if `workers` processes do not fit into `available` bytes."""
    return min(default, max(MEMORY_MAX_LEAST, (available // workers - BESIDE_CACHES) // 2))


class MemoryLimits(Struct, frozen=True):
    """Limits in bytes, for each process of the proxy."""

    responses: int
    """Maximum size of all stored responses, in bytes (store/lru_memory_store.py)."""
    hits: int
    """Maximum size of all response templates of the fast path, in bytes, without their content."""
    conversions: int
    """Maximum size of all converted feeds, in bytes, in the codings that clients requested."""
    headlines: int
    """Maximum size of titles and texts of feeds for pages about several feeds, in bytes."""
    deltas: int
    """Maximum size of all responses with only the new items of a feed (RFC 3229), in bytes."""
    dictionaries: int
    """Maximum size of all feeds compressed with a version that a client has (RFC 9842), in bytes."""
    decoded: int
    """Maximum size of all content decoded for clients that do not accept its coding, in bytes."""
    pages: int
    """Maximum size of all pages that were searched for feeds (autodiscovery), in bytes."""
    fetches: int
    """Maximum total size of the records of the last fetches of all feeds, in bytes (telemetry/recent_activity.py)."""
    scores: int
    """Maximum size of the state of readers and their feeds for scores, in bytes."""
    models: int
    """Maximum size of the parsed documents that each helper process caches, in bytes."""

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, memory_max: int) -> "MemoryLimits":
        """Return the limits for a value of `memory_max`."""
        parts = {name: memory_max // divisor for name, divisor in DIVISORS.items()}
        return cls(responses=memory_max, models=memory_max // MODELS_DIVISOR, **parts)

    @property
    def readers(self) -> int:
        """Return the maximum number of entries in the subscriber counts."""
        return max(READERS_MIN, self.responses // READER_SIZE)

    @property
    def feeds(self) -> int:
        """Return the maximum number of feeds for which readers are counted."""
        return self.readers // READERS_PER_FEED
