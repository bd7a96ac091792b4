"""What is held of one feed: who read it, and what was claimed."""

from feedproxy.readers.claims import Belief

CLAIM_WEIGHT = 8
"""Entries (of about 100 bytes) that a claim counts for."""


_UNCLAIMED: dict[tuple[str, str], Belief] = {}


class Feed:
    """One feed's readers and claims.

    `readers` maps a pseudonym to milliseconds when last seen << 8 | number of the product's name, oldest
    first.
    """

    __slots__ = ("claims", "readers")

    def __init__(self) -> None:
        self.readers: dict[int, int] = {}
        self.claims = _UNCLAIMED
        """Most feeds have none, and share that."""

    def claim(self, key: tuple[str, str], belief: Belief) -> None:
        """Believe so much of this claim from now on."""
        if self.claims is _UNCLAIMED:
            self.claims = {}
        self.claims[key] = belief

    def weight(self) -> int:
        """Entries of about 100 bytes."""
        return len(self.readers) + CLAIM_WEIGHT * len(self.claims)


def weight_of_name(target: str) -> int:
    """Entries of about 100 bytes that a feed counts for before anybody reads it."""
    return 4 + len(target) // 64
