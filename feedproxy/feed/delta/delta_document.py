"""What is new in a feed since a version that a reader has: the same document without the entries he knows.

This is the instance manipulation `feed` (RFC 3229): a complete, well-formed document in the format and the encoding of
the whole, so that a reader who merges entries by their ids, as readers do, needs nothing else. Every byte stays as
it is but those of the entries that are cut, with the white space (in JSON the comma) that set them apart; and in
RSS 1.0 those of the `rdf:li` that name an item which is cut, since the document must have every item they name.

Entries that were taken out of the feed are not told: a delta has no word for it. So there is none of a feed
which says that it is all there is (RFC 5005, complete feeds; Simple List Extensions): a reader would drop what he
has. And none of a signed one, whose signature is over what would be cut.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.delta.entries import assign_identities, find_items
from feedproxy.feed.delta.item_offsets import Item, Member, Outline
from feedproxy.feed.edit.splice import Edit, splice
from feedproxy.feed.edit.tag_offsets import SIGNATURES

_SPACE = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Delta:
    """A feed's document with new and changed entries only, and their number."""

    body: bytes
    entries: int


def make_delta(
    body: bytes, channel: Channel, base: Collection[tuple[str, str]], *, charset: str | None = None
) -> Delta | None:
    """The entries of `body` that are not in `base`, identities and digests of a version's entries.

    `channel` is what was read from `body`, `charset` the parameter of Content-Type. With nothing new the delta is
    the channel alone; with nothing old it is `body`. None where there can be none: see above, and `entries`.
    """
    found = find_items(body, channel, charset)
    if found is None:
        return None
    document, outline = found
    if outline.is_exhaustive or SIGNATURES in document.utf8:
        return None
    known = frozenset(base)
    all_items = outline.items
    keeps = [
        (identity, item.digest) not in known
        for identity, item in zip(assign_identities(all_items), all_items, strict=True)
    ]
    if all(keeps):
        return Delta(body, len(keeps))
    cuts = _json_cuts(all_items, keeps) if channel.kind is Kind.JSON else _xml_cuts(document.utf8, outline, keeps)
    cut = splice(document, [Edit(start, end, "") for start, end in cuts])
    return None if cut is None else Delta(cut, sum(keeps))


def _xml_cuts(utf8: bytes, outline: Outline, keeps: list[bool]) -> Iterator[tuple[int, int]]:
    """What to cut: items and members, with the white space in front of each."""
    kept_names = {item.name for item, keep in zip(outline.items, keeps, strict=True) if keep}
    cut_names = {item.name for item in outline.items} - kept_names
    cut: list[Item | Member] = [item for item, keep in zip(outline.items, keeps, strict=True) if not keep]
    cut += [member for member in outline.members if member.name and member.name in cut_names]
    for element in cut:
        start = element.start
        while utf8[start - 1] in _SPACE:
            start -= 1
        yield start, element.end


def _json_cuts(items: tuple[Item, ...], keeps: list[bool]) -> Iterator[tuple[int, int]]:
    """What to cut: items, each with the comma behind it as long as none was kept, then with the one in front."""
    first = keeps.index(True) if True in keeps else len(items)
    if first:
        end = items[first].start if first < len(items) else items[-1].end
        yield items[0].start, end
    for number in range(first + 1, len(items)):
        if not keeps[number]:
            yield items[number - 1].end, items[number].end
