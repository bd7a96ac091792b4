"""Previous contents of a feed, each stored as its difference from a newer content.

Clients may name a previous content as the dictionary for `dcz`, the dictionary compression of RFC 9842. The difference
is a Zstandard stream with the newer content as the dictionary. All previous contents together take at most the space of
the current content in gzip.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from feedproxy.errors import TooLarge, Undecodable
from feedproxy.http.coding.compression_dictionary import HASH_BYTES, compress, decompress, dictionary_hash

CONTENTS_MAX = 8
"""Maximum number of previous contents stored of one feed."""

CONTENT_BYTES_MAX = 16 * 1024 * 1024
"""Maximum size of a previous content, in bytes. Only other programs write larger contents to the store."""

LEVEL = 3
"""Zstandard level for previous contents. It is low, because most of them are never used."""

_ENTRY = struct.Struct(f">{HASH_BYTES}s{HASH_BYTES}sII")
"""Layout: SHA-256 of the content, SHA-256 of the dictionary, length of the content, length of the compressed bytes."""


class PreviousContent(NamedTuple):
    """An earlier content of a feed, compressed by Zstandard with a newer content as the dictionary."""

    hash: bytes
    base: bytes
    size: int
    """Size of the content, in bytes."""
    stream: bytes


class PreviousContents:
    """Previous contents in one bytes object, the newest last. Raises ValueError if the bytes are invalid."""

    __slots__ = ("data",)

    def __init__(self, data: bytes = b"") -> None:
        self.data = data
        if data and sum(1 for _ in self) > CONTENTS_MAX:
            raise ValueError(f"too many previous contents: expected {CONTENTS_MAX} at most")

    def __iter__(self) -> Iterator[PreviousContent]:
        at = 0
        while at < len(self.data):
            if len(self.data) - at < _ENTRY.size:
                raise ValueError("a previous content is truncated")
            digest, base, size, length = _ENTRY.unpack_from(self.data, at)
            start = at + _ENTRY.size
            at = start + length
            if at > len(self.data):
                raise ValueError("a previous content is truncated")
            yield PreviousContent(digest, base, size, self.data[start:at])

    def __bool__(self) -> bool:
        return bool(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PreviousContents) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __reduce__(self) -> tuple[type["PreviousContents"], tuple[bytes]]:
        return PreviousContents, (self.data,)

    def __contains__(self, digest: object) -> bool:
        return bool(self.data) and any(entry.hash == digest for entry in self)

    def with_content(self, old: bytes, new: bytes, *, size_max: int) -> "PreviousContents":
        """Return these contents followed by `old`, the content that `new` has replaced.

        The oldest contents are dropped until all contents take at most `size_max` bytes. If `old` equals `new` or
        exceeds CONTENT_BYTES_MAX, the contents are returned unchanged.
        """
        current, replaced = dictionary_hash(new), dictionary_hash(old)
        if current == replaced or len(old) > CONTENT_BYTES_MAX:
            return self
        delta = PreviousContent(replaced, current, len(old), compress(old, new, level=LEVEL))
        kept_deltas = [entry for entry in self if entry.hash not in (current, replaced)]
        return _pack(_newest_within([*kept_deltas, delta][-CONTENTS_MAX:], size_max))

    def content(self, digest: bytes, current: Iterable[bytes]) -> bytes | None:
        """Return the previous content with this SHA-256 `digest`, or None if it is not stored or cannot be decoded.

        Decoding starts from `current`, the present contents of the feed.
        """
        deltas = {entry.hash: entry for entry in self}
        if digest not in deltas:
            return None
        path: list[PreviousContent] = []
        decoded = {dictionary_hash(content): content for content in current}
        missing = digest
        while missing not in decoded:
            # Use each difference once, because invalid differences may form a cycle.
            step = deltas.pop(missing, None)
            if step is None or step.size > CONTENT_BYTES_MAX:
                return None
            path.append(step)
            missing = step.base
        content = decoded[missing]
        for step in reversed(path):
            try:
                content = decompress(step.stream, content, limit=step.size)
            except (Undecodable, TooLarge):
                return None
        return content if dictionary_hash(content) == digest else None


NO_CONTENTS = PreviousContents()


def _newest_within(contents: Sequence[PreviousContent], size_max: int) -> list[PreviousContent]:
    """Return the newest contents that fit into `size_max` bytes.

    Older contents are decoded from newer contents, so the oldest are dropped first.
    """
    fitting: list[PreviousContent] = []
    size = 0
    for entry in reversed(contents):
        size += _ENTRY.size + len(entry.stream)
        if size > size_max:
            break
        fitting.append(entry)
    return fitting[::-1]


def _pack(contents: Iterable[PreviousContent]) -> PreviousContents:
    return PreviousContents(
        b"".join(
            part
            for entry in contents
            for part in (_ENTRY.pack(entry.hash, entry.base, entry.size, len(entry.stream)), entry.stream)
        )
    )
