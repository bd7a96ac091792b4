"""Entries of a feed: identity, digest and byte range of each.

The identity of an entry is made from its name: `guid`, `id` or `rdf:about`, or else its link. The identity of an entry
without a name is made from its content. If several entries have the same name, the identity of the last one is made
from the name alone, and the identities of the others from name and content. A new entry, which usually comes first,
therefore leaves the identities of the others unchanged.

Identity and digest are hashes of eight bytes each. Sixteen bytes of each entry are stored (`pack`), and show later
whether the entry is new or changed. Only entries of one feed are compared. Two different entries agree in both hashes
once in 2¹²⁸ pairs; a publisher that forces a collision hides only its own entry.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.delta import item_offsets, json_item_offsets
from feedproxy.feed.delta.item_offsets import HASH_BYTES, ItemSpan, Outline, hash_entry
from feedproxy.feed.edit.splice import EncodedDocument, open_document, to_body_ranges

ENTRIES_MAX = 10_000
"""Maximum number of entries of a feed. Known feeds have a few hundred; a hostile feed could have millions."""


@dataclass(frozen=True, slots=True)
class IdentifiedEntry:
    """An entry of a feed. Its bytes are `body[start:end]`, in the document's own encoding."""

    identity: str
    """Identity in hexadecimal; unique in the document."""
    digest: str
    """Digest in hexadecimal; it stays the same as long as the content of the entry does."""
    start: int
    end: int


def find_entries(body: bytes, channel: Channel, *, charset: str | None = None) -> tuple[IdentifiedEntry, ...] | None:
    """Return the entries of a feed's document, in order.

    `channel` is the channel parsed from `body`. `charset` is the parameter of the origin's Content-Type, if there is
    one. Return None for CDF, for more than ENTRIES_MAX items, and for a document in which the byte ranges would not be
    exact. Such a document is ill-formed, declares entities, has items in an unexpected place, or has bytes that
    decoding and encoding do not restore.
    """
    document_and_outline = find_items(body, channel, charset)
    if document_and_outline is None:
        return None
    document, all_items = document_and_outline[0], document_and_outline[1].items
    ranges = to_body_ranges(document, [(item.start, item.end) for item in all_items])
    if ranges is None:
        return None
    return tuple(
        IdentifiedEntry(identity, item.digest, start, end)
        for identity, item, (start, end) in zip(assign_identities(all_items), all_items, ranges, strict=True)
    )


def find_items(body: bytes, channel: Channel, charset: str | None) -> tuple[EncodedDocument, Outline] | None:
    """Return the document and its items with their offsets in UTF-8. Return None if the offsets would not be exact."""
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


def assign_identities(all_items: Sequence[ItemSpan]) -> list[str]:
    """Return the identity of every item of a document."""
    identities: list[str] = []
    names: set[str] = {""}
    copies: Counter[tuple[str, str]] = Counter()
    for item in reversed(all_items):
        name = item.name
        if name in names:
            copy = name, item.digest
            name = f"{item.digest} {copies[copy]} {name}"
            copies[copy] += 1
        names.add(item.name)
        identities.append(hash_entry(name.encode("utf-8", "surrogatepass")))
    identities.reverse()
    return identities


def pack(version: Iterable[IdentifiedEntry]) -> bytes:
    """Return the identity and digest of each entry, sixteen bytes each, for storage with a version."""
    return b"".join(bytes.fromhex(entry.identity + entry.digest) for entry in version)


def unpack_identities(packed: bytes) -> tuple[str, ...]:
    """Return the identities of packed entries, in the document's order."""
    return tuple(packed[at : at + HASH_BYTES].hex() for at in range(0, len(packed), 2 * HASH_BYTES))


def unpack(packed: bytes) -> frozenset[tuple[str, str]]:
    """Return identity and digest of each packed entry. Raises ValueError if the length is no multiple of 16 bytes."""
    if len(packed) % (2 * HASH_BYTES):
        raise ValueError(f"invalid packed entries of {len(packed)} bytes: expected a multiple of {2 * HASH_BYTES}")
    hashes = [packed[at : at + HASH_BYTES].hex() for at in range(0, len(packed), HASH_BYTES)]
    return frozenset(zip(hashes[::2], hashes[1::2], strict=True))
