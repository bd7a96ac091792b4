"""What is held of one feed: who read it, and what was claimed."""

import sys
from array import array
from collections.abc import Iterator

from feedproxy.subscribers.claims import ClaimState

CLAIM_WEIGHT = 8
"""Entries (of about 100 bytes) that a claim counts for."""


_UNCLAIMED: dict[tuple[str, str], ClaimState] = {}


class FeedReaders:
    """One feed's readers and claims.

    After a start readers lie as they were written (`packed`, see counts_codec.py), 16 bytes each instead of a hundred:
    none is looked at before somebody asks for the feed.
    """

    __slots__ = ("_packed", "_readers", "claims")

    def __init__(self, packed: bytes = b"") -> None:
        self._packed = packed
        self._readers: dict[int, int] = {}
        self.claims = _UNCLAIMED
        """Most feeds have none, and share that."""

    @property
    def readers(self) -> dict[int, int]:
        """Milliseconds when last seen << 8 | number of the product's name, by pseudonym, oldest first."""
        if self._packed:
            numbers, many = unpack(self._packed), self.size
            self._readers, self._packed = dict(zip(numbers[:many], numbers[many:], strict=True)), b""
        return self._readers

    @property
    def packed(self) -> bytes:
        """The readers as they were written; nothing where they have been looked at since."""
        return self._packed

    @property
    def size(self) -> int:
        """How many readers."""
        return len(self._packed) // 16 or len(self._readers)

    def latest_first(self) -> Iterator[int]:
        """The values of the readers."""
        if self._packed:
            return reversed(unpack(self._packed[len(self._packed) // 2 :]))
        return reversed(self._readers.values())

    def oldest(self) -> int | None:
        """The value of the reader who was not seen for longest."""
        if self._packed:
            middle = len(self._packed) // 2
            return int.from_bytes(self._packed[middle : middle + 8], "little")
        return next(iter(self._readers.values()), None)

    def claim(self, key: tuple[str, str], belief: ClaimState) -> None:
        """Believe so much of this claim from now on."""
        if self.claims is _UNCLAIMED:
            self.claims = {}
        self.claims[key] = belief

    def weight(self) -> int:
        """Entries of about 100 bytes."""
        return self.size + CLAIM_WEIGHT * len(self.claims)


def weight_of_name(target: str) -> int:
    """Entries of about 100 bytes that a feed counts for before anybody reads it."""
    return 4 + len(target) // 64


def unpack(data: bytes) -> array[int]:
    """The numbers that were written."""
    numbers = array("Q", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
