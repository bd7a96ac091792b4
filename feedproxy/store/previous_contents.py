"""The contents that a feed had before its current one, each as a delta backwards: dictionaries of `dcz` (RFC 9842).

An old content is Zstandard with the content that followed it as dictionary. Versions of a feed have most of their
bytes in common, so the last eight together take less than one gzip content as a rule, and never more. Where they would,
the oldest are dropped.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from feedproxy.errors import TooLarge, Undecodable
from feedproxy.http.compression_dictionary import HASH_BYTES, compress, decompress, hash_of

CONTENTS_MAX = 8
"""Previous contents that are kept of one feed."""

CONTENT_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of a content that is kept. Feeds have a few megabytes at most; stored values may come from another program."""

LEVEL = 3
"""Zstandard's level: they are made with every update, and most are never asked for."""

_ENTRY = struct.Struct(f">{HASH_BYTES}s{HASH_BYTES}sII")
"""SHA-256 of the content and of the dictionary, the content's length, that of the stream, which follows."""


class PreviousContent(NamedTuple):
    """One content, as a Zstandard stream that was made with a newer one as dictionary."""

    hash: bytes
    base: bytes
    """The hash of the newer content."""
    size: int
    """Bytes of the content."""
    stream: bytes


@dataclass(frozen=True, slots=True)
class PreviousContents:
    """Previous contents, the newest last, as one bytes object. Raises ValueError for bytes that are none."""

    data: bytes = b""

    def __post_init__(self) -> None:
        if self.data and sum(1 for _ in self) > CONTENTS_MAX:
            raise ValueError("more previous contents than are kept")

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

    def __contains__(self, digest: object) -> bool:
        return bool(self.data) and any(entry.hash == digest for entry in self)

    def with_content(self, old: bytes, new: bytes, *, size_max: int) -> "PreviousContents":
        """Return these and `old`, which `new` has replaced; all together take `size_max` bytes at most."""
        current, replaced = hash_of(new), hash_of(old)
        if current == replaced or len(old) > CONTENT_BYTES_MAX:
            return self
        made = PreviousContent(replaced, current, len(old), compress(old, new, level=LEVEL))
        held = [entry for entry in self if entry.hash not in (current, replaced)]
        return _packed(_within([*held, made][-CONTENTS_MAX:], size_max))

    def content(self, digest: bytes, current: Iterable[bytes]) -> bytes | None:
        """Return the content with this hash, out of the `current` ones and the deltas; None where it is not known.

        A content that does not have its hash is not given.
        """
        known = {entry.hash: entry for entry in self}
        if digest not in known:
            return None
        path: list[PreviousContent] = []
        at_hand = {hash_of(content): content for content in current}
        wanted = digest
        while wanted not in at_hand:
            step = known.pop(wanted, None)  # each once: deltas that lead in a circle lead nowhere
            if step is None or step.size > CONTENT_BYTES_MAX:
                return None
            path.append(step)
            wanted = step.base
        content = at_hand[wanted]
        for step in reversed(path):
            try:
                content = decompress(step.stream, content, limit=step.size)
            except (Undecodable, TooLarge):
                return None
        return content if hash_of(content) == digest else None


NO_CONTENTS = PreviousContents()


def _within(contents: Sequence[PreviousContent], size_max: int) -> list[PreviousContent]:
    """The newest contents that fit: each but the newest is read by way of newer ones."""
    fitting: list[PreviousContent] = []
    size = 0
    for entry in reversed(contents):
        size += _ENTRY.size + len(entry.stream)
        if size > size_max:
            break
        fitting.append(entry)
    return fitting[::-1]


def _packed(contents: Iterable[PreviousContent]) -> PreviousContents:
    return PreviousContents(
        b"".join(
            part
            for entry in contents
            for part in (_ENTRY.pack(entry.hash, entry.base, entry.size, len(entry.stream)), entry.stream)
        )
    )
