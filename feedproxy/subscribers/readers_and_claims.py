"""Readers and claims of one feed."""

import struct
import sys
from array import array
from collections.abc import Iterable, Iterator

from feedproxy.subscribers.claim_confirmation import ClaimState

CLAIM_WEIGHT = 8
"""Memory of one claim, in units of about 100 bytes (the memory of one reader)."""


_UNCLAIMED: dict[tuple[str, str], ClaimState] = {}
_READER = struct.Struct("<QQ")


class FeedReaders:
    """The readers and claims of one feed. A single reader is kept in its stored form (`packed`), which takes 200 bytes
    less than a dictionary. After a start, several readers stay in stored form, too, until the feed is requested."""

    __slots__ = ("_readers", "claims")

    def __init__(self, packed: bytes = b"") -> None:
        self._readers: bytes | dict[int, int] = packed
        self.claims = _UNCLAIMED
        """The claims of fetchers. Feeds without claims share one empty object."""

    @property
    def readers(self) -> dict[int, int]:
        """Return the readers by pseudonym, the oldest first. The lower eight bits of a value are the product's number,
        and the other bits the instant of the last request in milliseconds."""
        if isinstance(self._readers, bytes):
            numbers, many = unpack(self._readers), self.size
            self._readers = dict(zip(numbers[:many], numbers[many:], strict=True))
        return self._readers

    def get(self, pseudonym: int) -> int | None:
        readers = self._readers
        if isinstance(readers, bytes) and len(readers) == _READER.size:
            known, value = _READER.unpack(readers)
            return value if known == pseudonym else None
        return self.readers.get(pseudonym) if readers else None

    def move_to_end(self, pseudonym: int, value: int) -> None:
        """Give a known reader a new value, as the reader with the latest request."""
        if isinstance(self._readers, dict):
            del self._readers[pseudonym]
            self._readers[pseudonym] = value
        else:  # `get` has unpacked the readers, unless there is only one
            self._readers = _READER.pack(pseudonym, value)

    def pop(self, pseudonym: int) -> int | None:
        value = self.get(pseudonym)
        if value is not None:
            if self.size == 1:
                self._readers = b""
            else:
                del self.readers[pseudonym]
        return value

    def put(self, pseudonym: int, value: int) -> None:
        if self.size == (self.get(pseudonym) is not None):  # there is no other reader
            self._readers = _READER.pack(pseudonym, value)
        else:
            self.readers.pop(pseudonym, None)
            self.readers[pseudonym] = value

    @property
    def packed(self) -> bytes:
        """Return the readers in stored form, or empty bytes if they are unpacked."""
        return self._readers if isinstance(self._readers, bytes) else b""

    @property
    def size(self) -> int:
        return len(self._readers) // _READER.size if isinstance(self._readers, bytes) else len(self._readers)

    def latest_first(self) -> Iterator[int]:
        """Yield the values of `readers`, the latest request first."""
        if isinstance(self._readers, bytes):
            return reversed(unpack(self._readers[len(self._readers) // 2 :]))
        return reversed(self._readers.values())

    def oldest(self) -> int | None:
        """Return the value in `readers` with the oldest request, or None if there are no readers."""
        if isinstance(self._readers, bytes):
            first = self._readers[len(self._readers) // 2 :][:8]
            return int.from_bytes(first, "little") if first else None
        return next(iter(self._readers.values()), None)

    def newest(self) -> int | None:
        """Return the value in `readers` with the latest request, or None if there are no readers."""
        if isinstance(self._readers, bytes):
            return int.from_bytes(self._readers[-8:], "little") if self._readers else None
        return next(reversed(self._readers.values()), None)

    def set_claim_state(self, key: tuple[str, str], claim_state: ClaimState) -> None:
        """Set the state of the claim with this key, a fetcher and a feed id."""
        if self.claims is _UNCLAIMED:
            self.claims = {}
        self.claims[key] = claim_state

    def weight(self) -> int:
        """Return the memory of the readers and claims, in units of about 100 bytes."""
        return self.size + CLAIM_WEIGHT * len(self.claims)


def weight_of_name(target: str) -> int:
    """Return the memory of a feed without its readers, in units of about 100 bytes."""
    return 4 + len(target) // 64


def pack(numbers: Iterable[int]) -> bytes:
    """Return numbers as in the stored form (subscriber_counts_codec.py): each in 8 bytes, little-endian."""
    return _little_endian(array("Q", numbers)).tobytes()


def unpack(data: bytes) -> array[int]:
    """Return the numbers from a result of `pack`."""
    return _little_endian(array("Q", data))


def _little_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
