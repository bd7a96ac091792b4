"""The identity and the digest of each entry of a feed.

The identity is a hash of the entry's name: `guid`, `id` or `rdf:about`, or else its link, or else its content. New
entries usually come first, so of several entries with the same name, the last has the hash of the name. The identities
of the others also depend on their digests. A publisher that forces a collision hides only its own entry.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.delta import item_offsets, json_item_offsets
from feedproxy.feed.delta.item_offsets import HASH_BYTES, ItemSpan, Outline, hash_entry
from feedproxy.feed.edit.splice import EncodedDocument, open_document

ENTRIES_MAX = 10_000
"""Maximum number of entries of a feed. Known feeds have a few hundred; a hostile feed could have millions."""


class IdentifiedEntry(NamedTuple):
    """An entry of a feed: its identity, unique in the document, and the digest of its content, in hexadecimal."""

    identity: str
    digest: str


def find_entries(body: bytes, channel: Channel, *, charset: str | None = None) -> tuple[IdentifiedEntry, ...] | None:
    """Return the entries of a feed's document, in order, or None if they cannot be determined exactly.

    `channel` is the channel of `body`, and `charset` the parameter of the origin's Content-Type. The result is None for
    CDF, for more than ENTRIES_MAX items, and for a document that is ill-formed, declares entities, has items in an
    unexpected place, or has bytes that are invalid in its encoding.
    """
    document_and_outline = find_items(body, channel, charset)
    return None if document_and_outline is None else identify(document_and_outline[1].items)


def find_items(body: bytes, channel: Channel, charset: str | None) -> tuple[EncodedDocument, Outline] | None:
    if not channel.well_formed or channel.kind is Kind.CDF or channel.items > ENTRIES_MAX:
        return None
    document = open_document(body, charset)
    if document is None:
        return None
    outline = (
        json_item_offsets.find(document.utf8)
        if channel.kind is Kind.JSON
        else item_offsets.find(document.utf8, channel.kind)
    )
    if outline is None or len(outline.items) != channel.items:
        return None
    return document, outline


def identify(all_items: Sequence[ItemSpan]) -> tuple[IdentifiedEntry, ...]:
    entries: list[IdentifiedEntry] = []
    names: set[str] = {""}
    copies: Counter[tuple[str, str]] = Counter()
    for item in reversed(all_items):
        name = item.name
        if name in names:
            copy = name, item.digest
            name = f"{item.digest} {copies[copy]} {name}"
            copies[copy] += 1
        names.add(item.name)
        entries.append(IdentifiedEntry(hash_entry(name.encode("utf-8", "surrogatepass")), item.digest))
    return tuple(reversed(entries))


def pack(version: Iterable[IdentifiedEntry]) -> bytes:
    """Return the identity and digest of each entry, sixteen bytes per entry."""
    return b"".join(bytes.fromhex(entry.identity + entry.digest) for entry in version)


def unpack_identities(packed: bytes) -> tuple[str, ...]:
    """Return the identities in the result of `pack`, in the document's order."""
    return tuple(packed[at : at + HASH_BYTES].hex() for at in range(0, len(packed), 2 * HASH_BYTES))


def unpack(packed: bytes) -> frozenset[tuple[str, str]]:
    """Return the identity and digest of each entry in the result of `pack`. Raises ValueError for a wrong length."""
    if len(packed) % (2 * HASH_BYTES):
        raise ValueError(f"invalid packed entries of {len(packed)} bytes: expected a multiple of {2 * HASH_BYTES}")
    hashes = [packed[at : at + HASH_BYTES].hex() for at in range(0, len(packed), HASH_BYTES)]
    return frozenset(zip(hashes[::2], hashes[1::2], strict=True))
