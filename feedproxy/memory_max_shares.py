"""Limits of the caches in memory, as fractions of the option `memory_max`.

`memory_max` limits stored responses. All caches of values derived from them may together take as much again.
"""

from dataclasses import dataclass
from functools import lru_cache

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
"""Divisors of `memory_max` that give the limit of each cache. The limits add up to at most `memory_max`."""

READER_SIZE = 256
"""Bytes of `memory_max` that permit one entry in the subscriber counts (subscribers/subscriber_counts.py).

An entry takes about 100 bytes, and the rhythm of a reader's polls 48.
"""

READERS_MIN = 1_000_000
"""Number of entries of the subscriber counts with any `memory_max`."""

READERS_PER_FEED = 5
"""Memory of a feed with one reader in the subscriber counts, as a multiple of one entry."""

MODELS_DIVISOR = 64
"""Divisor of `memory_max` that gives the limit in bytes of a helper process's cache of parsed documents.

A parsed feed takes five times the bytes of its document.
"""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Limits in bytes, for each process of the proxy."""

    responses: int
    """Limit of stored responses (store/lru_memory_store.py)."""
    hits: int
    """Limit of response templates of the fast path, without their content."""
    conversions: int
    """Limit of feeds in other formats, in the codings that clients requested."""
    headlines: int
    """Limit of titles and texts of feeds, for pages about several feeds."""
    deltas: int
    """Limit of responses with only the new entries of a feed (RFC 3229)."""
    dictionaries: int
    """Limit of feeds compressed with the version that a client has (RFC 9842)."""
    decoded: int
    """Limit of content decoded for clients that do not accept its coding."""
    pages: int
    """Limit of pages that were searched for feeds (autodiscovery)."""
    fetches: int
    """Limit of the records of the last fetches of each feed (telemetry/recent_activity.py)."""
    scores: int
    """Limit of the state of readers and their feeds for scores."""
    models: int
    """Limit of the parsed documents that each helper process caches."""

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
