"""Limits of the caches in memory, as fractions of the option `memory_max`.

`memory_max` limits the stored responses in memory. The caches of values that are derived from stored responses may
together take as much again. A full cache evicts the least recently used values, which are computed again when needed.
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
"""Divisors of `memory_max`: the limit of each cache is `memory_max` divided by its divisor. The limits add up to at
most `memory_max`."""

READER_SIZE = 256
"""Number of bytes of `memory_max` that permit one entry in the subscriber counts (subscribers/subscriber_counts.py). An
entry takes about 100 bytes, and the rhythm of a reader's polls another 48."""

READERS_MIN = 1_000_000
"""Number of entries that the subscriber counts may have even with a small `memory_max`."""

READERS_PER_FEED = 5
"""Memory that the subscriber counts take for a feed with one reader, as a multiple of the memory of one entry."""

MODELS_DIVISOR = 64
"""Divisor of `memory_max`. The result is the maximum size in bytes of all documents that a helper process caches in
parsed form. A parsed feed takes five times the bytes of its document.
"""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Limits in bytes, for each process of the proxy."""

    responses: int
    """Limit for stored responses (store/lru_memory_store.py)."""
    hits: int
    """Limit for response templates of the fast path, without their content, which belongs to the stored responses."""
    conversions: int
    """Limit for feeds in other formats, in the codings that clients requested."""
    headlines: int
    """Limit for titles and texts of feeds, for pages that show several feeds."""
    deltas: int
    """Limit for responses with only the new entries of a feed (RFC 3229)."""
    dictionaries: int
    """Limit for feeds that are compressed with the version that a client has (RFC 9842)."""
    decoded: int
    """Limit for content that is decoded for clients that do not accept its coding."""
    pages: int
    """Limit for pages that were searched for feeds (autodiscovery)."""
    fetches: int
    """Limit for the records of the last fetches of each feed (telemetry/recent_activity.py)."""
    scores: int
    """Limit for the state of readers and their feeds, from which readers are scored."""
    models: int
    """Limit for documents that each helper process caches in parsed form."""

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
