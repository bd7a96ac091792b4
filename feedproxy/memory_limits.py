"""How many bytes each cache in memory may hold, as parts of the option `memory_max`.

`memory_max` limits the stored responses in memory. The caches of what is derived from them hold as much again at most,
all together. A full cache evicts what was least recently used, which is derived anew when it is next requested.
"""

from dataclasses import dataclass

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
"""Each cache may hold `memory_max` divided by its number. The parts add up to `memory_max` at most."""

MODELS_DIVISOR = 64
"""The same for the documents whose models a helper process keeps; a model takes some five times as many bytes."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Bytes, for each process of the proxy."""

    responses: int
    """Stored responses (store/memory.py)."""
    hits: int
    """Answers kept ready by the fast path; their bodies are those of the stored responses."""
    conversions: int
    """Feeds in other formats, in the codings that clients asked for."""
    headlines: int
    """Titles and texts of feeds, for pages that show several feeds."""
    deltas: int
    """Answers with new entries alone (RFC 3229)."""
    dictionaries: int
    """Feeds compressed with the version that a client has (RFC 9842)."""
    decoded: int
    """Content decoded for clients that do not accept its coding."""
    pages: int
    """Pages whose feeds were looked for (autodiscovery)."""
    fetches: int
    """The last fetches of each feed (telemetry/recent_activity.py)."""
    scores: int
    """What is kept of each reader and feed to score readers."""
    models: int
    """Documents whose models each helper process keeps."""

    @classmethod
    def of(cls, memory_max: int) -> "MemoryLimits":
        """Return the limits that follow from the option."""
        parts = {name: memory_max // divisor for name, divisor in DIVISORS.items()}
        return cls(responses=memory_max, models=memory_max // MODELS_DIVISOR, **parts)
