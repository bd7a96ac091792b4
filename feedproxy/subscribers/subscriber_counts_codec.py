"""The stored form of the subscriber counts.

The form has five parts: the eight bytes `fpcount1`, the CRC-32 of all that follows, the length of the header, the
header as JSON, and the readers. The header lists the feeds with their numbers of readers. For each feed, the pseudonyms
of its readers follow, then their values. Numbers are little-endian: checksum and length have 4 bytes, all others 8. A
new form changes the last digit of `fpcount1`. Unknown forms are refused, and counting starts from zero.
"""

import json
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.errors import StoreError
from feedproxy.subscribers.block_buffer import BlockBuffer, with_checksum, without_checksum
from feedproxy.subscribers.claim_confirmation import ClaimState
from feedproxy.subscribers.readers_and_claims import FeedReaders, pack, unpack

MAGIC = b"fpcount1"

type Claims = Mapping[tuple[str, str], ClaimState]
type StoredFeed = tuple[str, bytes, Claims]
"""A feed: its target, its readers in stored form, and its claims."""

_NONE: Claims = {}


class CountsWriter:
    """Writer of the counts, one feed after another. Requests can be counted between two feeds.

    While the counts are written, a product number can be assigned to another product. The readers of this other product
    are then written with number 0, which stands for all further products (product_codes.py).
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._others: frozenset[int] = frozenset()
        # A list of a million texts would delay hits by collections of garbage, and when its texts are joined.
        self._listed = BlockBuffer()
        self._readers = BlockBuffer()

    def names(self, names: list[str]) -> None:
        """Set the product names of User-Agents for the feeds that are added next. The readers of a feed refer to a name
        by its index in `names` (product_codes.py)."""
        self._names += names[len(self._names) :]
        self._others = frozenset(number for number, name in enumerate(names) if name != self._names[number])

    def add(self, target: str, feed: FeedReaders) -> None:
        claims = [
            [*key, claim_state.peaks, claim_state.anchor, claim_state.unconfirmed, claim_state.last, claim_state.times]
            for key, claim_state in feed.claims.items()
        ]
        if self._listed:
            self._listed.append(b",")
        self._listed.append(_json([target, feed.size, claims]).encode())
        if feed.packed and not self._others:
            self._readers.append(feed.packed)
            return
        readers = feed.readers
        values: Iterable[int] = readers.values()
        if self._others:
            values = (value & ~0xFF if value & 0xFF in self._others else value for value in values)
        self._readers.append(pack(readers.keys()))
        self._readers.append(pack(values))

    def whole(self) -> bytes:
        """Return the stored form after the last feed was added. Any thread may call this method."""
        header = [b'{"names":', _json(self._names).encode(), b',"feeds":[', *self._listed.blocks(), b"]}"]
        length = struct.pack("<I", sum(map(len, header)))
        return with_checksum(MAGIC, [length, *header, *self._readers.blocks()])


class StoredCounts(Struct, frozen=True):
    """The loaded counts. `names` are the product names. The index of a name is the number of the product. `uses` is the
    number of readers by product number. `feeds` has the readers and claims of each feed."""

    names: list[str]
    uses: Counter[int]
    feeds: list[StoredFeed]
    oldest: int
    """The earliest instant of all readers' last requests, in milliseconds, or 0 if at least one feed has no reader."""


def load(data: bytes, now: Instant) -> StoredCounts:
    """Return the stored counts. Instants after `now` become `now`. Raises StoreError for damaged data and unknown
    forms."""
    remainder = without_checksum(MAGIC, data, "subscriber counts")
    try:
        (length,) = struct.unpack_from("<I", remainder)
        header = json.loads(remainder[4 : 4 + length])
        names = [str(name) for name in header["names"]]
        offset = 4 + length
        feeds: list[StoredFeed] = []
        latest = int(now * 1000)
        oldest = latest << 8
        for target, size, claims in header["feeds"]:
            packed = remainder[offset : offset + 16 * size]
            if len(packed) != 16 * size:
                raise ValueError("too few readers")
            offset += 16 * size
            first = newest = int.from_bytes(packed[8 * size : 8 * size + 8], "little")
            if size > 1:
                newest = max(unpack(packed[8 * size :]))
            if newest >> 8 > latest:
                packed = _with_latest(packed, size, latest)
            oldest = min(oldest, first)
            feeds.append((str(target), packed, _claims(claims, now) if claims else _NONE))
        if max(uses := products(feeds), default=-1) >= len(names):
            raise ValueError("a number without a name")
        return StoredCounts(names, uses, feeds, oldest >> 8)
    except (ValueError, KeyError, TypeError, IndexError, struct.error) as error:
        raise StoreError(f"damaged subscriber counts: {error}") from error


def products(feeds: Iterable[StoredFeed]) -> Counter[int]:
    """Return how many readers use each product. The keys are product codes (product_codes.py)."""
    return Counter(b"".join([packed[len(packed) // 2 :: 8] for _, packed, _ in feeds]))


def _with_latest(packed: bytes, size: int, latest: int) -> bytes:
    """Return the packed form of `size` readers. Instants after `latest`, in milliseconds of Unix time, become `latest`.
    Such instants were recorded before the clock was set back."""
    numbers = unpack(packed)
    keys, values = numbers[:size], numbers[size:]
    return pack(keys) + pack(min(value >> 8, latest) << 8 | value & 0xFF for value in values)


def _claims(claims: Sequence[Any], now: Instant) -> Claims:
    return {
        (str(fetcher), str(feed_id)): ClaimState(
            tuple(_pair(peak, now) for peak in peaks),
            _pair(anchor, now),
            _pair(unconfirmed, now) if unconfirmed else None,
            min(float(last), now),
            int(times),
        )
        for fetcher, feed_id, peaks, anchor, unconfirmed, last, times in claims
    }


def _pair(value: list[float], now: Instant) -> tuple[int, Instant]:
    count, instant = value
    return int(count), min(float(instant), now)


_json = json.JSONEncoder(separators=(",", ":")).encode
