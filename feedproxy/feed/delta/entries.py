"""The entries of a feed: what each is known by, what it says, and where it stands.

An entry is known by what its format names it by: `guid`, `id`, `rdf:about`; else by its link; else by what
it says. Where several entries have one name, the last has it, and the others are known by what they say as
well: so a new one, which mostly comes in front, leaves the others what they are.

Identity and digest are hashes of eight bytes: sixteen bytes are all that has to be kept of an entry to know
later whether it is new or changed (`pack`). Entries of one feed only are compared.
Two that differ are taken for the same when they agree in both hashes, by chance once in 2¹²⁸ pairs; and who makes
them agree on purpose hides nothing but his own entry.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.delta import item_offsets, json_item_offsets
from feedproxy.feed.delta.item_offsets import HASH_BYTES, Item, Outline, hash_entry
from feedproxy.feed.edit.splice import Document, open_document, to_body_ranges

ENTRIES_MAX = 10_000
"""Entries. Known feeds have a few hundred at most; a hostile one could have millions."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a feed. Its bytes are `body[start:end]`, in the document's own encoding."""

    identity: str
    """Hexadecimal; no two entries of one document have the same."""
    digest: str
    """Hexadecimal; the same as long as the entry says the same."""
    start: int
    end: int


def find_entries(body: bytes, channel: Channel, *, charset: str | None = None) -> tuple[Entry, ...] | None:
    """The entries of a feed's document, in order; `channel` is what was read from `body`.

    `charset` is the parameter of Content-Type, where the origin sent one. None where it cannot be done exactly:
    the document is ill-formed, has entities of its own, is in an encoding that cannot be read back, has items
    where its format knows none, or more than 10,000. CDF's are not read.
    """
    found = find_items(body, channel, charset)
    if found is None:
        return None
    document, all_items = found[0], found[1].items
    ranges = to_body_ranges(document, [(item.start, item.end) for item in all_items])
    if ranges is None:
        return None
    return tuple(
        Entry(identity, item.digest, start, end)
        for identity, item, (start, end) in zip(assign_identities(all_items), all_items, ranges, strict=True)
    )


def find_items(body: bytes, channel: Channel, charset: str | None) -> tuple[Document, Outline] | None:
    """The document and where its items stand in its UTF-8 form; None as for `entries`."""
    if not channel.well_formed or channel.kind is Kind.CDF or channel.items > ENTRIES_MAX:
        return None
    document = open_document(body, charset)
    if document is None:
        return None
    found = (
        json_item_offsets.find(document.utf8)
        if channel.kind is Kind.JSON
        else item_offsets.find(document.utf8, channel.kind)
    )
    if found is None or len(found.items) != channel.items:
        return None
    return document, found


def assign_identities(all_items: Sequence[Item]) -> list[str]:
    """The identity of every item of a document."""
    identities: list[str] = []
    taken: set[str] = {""}
    copies: Counter[tuple[str, str]] = Counter()
    for item in reversed(all_items):
        name = item.name
        if name in taken:
            copy = name, item.digest
            name = f"{item.digest} {copies[copy]} {name}"
            copies[copy] += 1
        taken.add(item.name)
        identities.append(hash_entry(name.encode("utf-8", "surrogatepass")))
    identities.reverse()
    return identities


def pack(version: Iterable[Entry]) -> bytes:
    """What to keep of a version's entries: identity and digest of each, sixteen bytes."""
    return b"".join(bytes.fromhex(entry.identity + entry.digest) for entry in version)


def unpack_identities(packed: bytes) -> tuple[str, ...]:
    """What the entries that were packed are known by, in the document's order."""
    return tuple(packed[at : at + HASH_BYTES].hex() for at in range(0, len(packed), 2 * HASH_BYTES))


def unpack(packed: bytes) -> frozenset[tuple[str, str]]:
    """Identity and digest of each entry that was packed. Raises ValueError for what is no whole number of them."""
    if len(packed) % (2 * HASH_BYTES):
        raise ValueError("not a whole number of entries")
    hashes = [packed[at : at + HASH_BYTES].hex() for at in range(0, len(packed), HASH_BYTES)]
    return frozenset(zip(hashes[::2], hashes[1::2], strict=True))
