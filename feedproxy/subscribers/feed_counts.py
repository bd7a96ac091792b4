"""Readers and claims of one feed."""

import sys
from array import array
from collections.abc import Iterator

from feedproxy.subscribers.claims import ClaimState

CLAIM_WEIGHT = 8
"""Weight of a claim, in entries of about 100 bytes."""


_UNCLAIMED: dict[tuple[str, str], ClaimState] = {}


class FeedReaders:
    """One feed's readers and claims.

    After a start, readers stay in their stored form (`packed`, see counts_codec.py) of 16 bytes each, instead of about
    a hundred, until the feed is requested.
    """

    __slots__ = ("_packed", "_readers", "claims")

    def __init__(self, packed: bytes = b"") -> None:
        self._packed = packed
        self._readers: dict[int, int] = {}
        self.claims = _UNCLAIMED
        """Empty and shared for most feeds."""

    @property
    def readers(self) -> dict[int, int]:
        """Return instant of the last request in milliseconds << 8 | product number, by pseudonym, oldest first."""
        if self._packed:
            numbers, many = unpack(self._packed), self.size
            self._readers, self._packed = dict(zip(numbers[:many], numbers[many:], strict=True)), b""
        return self._readers

    @property
    def packed(self) -> bytes:
        """Return the readers in stored form; empty once they are unpacked."""
        return self._packed

    @property
    def size(self) -> int:
        """Return the number of readers."""
        return len(self._packed) // 16 or len(self._readers)

    def latest_first(self) -> Iterator[int]:
        """Return the readers' values, the latest first."""
        if self._packed:
            return reversed(unpack(self._packed[len(self._packed) // 2 :]))
        return reversed(self._readers.values())

    def oldest(self) -> int | None:
        """Return the value of the oldest record; None if there is none."""
        if self._packed:
            middle = len(self._packed) // 2
            return int.from_bytes(self._packed[middle : middle + 8], "little")
        return next(iter(self._readers.values()), None)

    def newest(self) -> int | None:
        """Return the value of the newest record; None if there is none."""
        if self._packed:
            return int.from_bytes(self._packed[-8:], "little")
        return next(reversed(self._readers.values()), None)

    def claim(self, key: tuple[str, str], belief: ClaimState) -> None:
        """Set the state of a claim."""
        if self.claims is _UNCLAIMED:
            self.claims = {}
        self.claims[key] = belief

    def weight(self) -> int:
        """Return the weight in entries of about 100 bytes."""
        return self.size + CLAIM_WEIGHT * len(self.claims)


def weight_of_name(target: str) -> int:
    """Return the weight of a feed without readers, in entries of about 100 bytes."""
    return 4 + len(target) // 64


def unpack(data: bytes) -> array[int]:
    """Return the numbers of the stored form."""
    numbers = array("Q", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
