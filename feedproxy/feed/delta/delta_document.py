"""Delta of a feed: the document without the items that the client already has (docs/explanation/deltas.md).

The delta is the instance manipulation `feed` of RFC 3229: a complete document in the format and encoding of the feed.
There is no delta of a signed feed, or of a feed that declares itself complete (RFC 5005; Simple List Extensions).
"""

from collections.abc import Collection, Iterator

from msgspec import Struct

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.delta.entry_identities import find_items, identify
from feedproxy.feed.delta.item_offsets import ItemSpan, Member, Outline
from feedproxy.feed.edit.splice import Edit, splice
from feedproxy.feed.edit.tag_offsets import SIGNATURES

_SPACE = b" \t\r\n"


class Delta(Struct, frozen=True):
    """A feed's document with only the new and changed entries (`body`), and their number (`entries`)."""

    body: bytes
    entries: int


def make_delta(
    body: bytes, channel: Channel, base: Collection[tuple[str, str]], *, charset: str | None = None
) -> Delta | None:
    """Return `body` without the entries in `base`, or None if the feed has no delta.

    A feed has no delta if it is signed, if it declares itself complete, or if its entries cannot be removed exactly
    (`find_entries`). `base` contains the identities and digests of the entries that the client has. `channel` is the
    channel of `body`, and `charset` the parameter of Content-Type.
    """
    document_and_outline = find_items(body, channel, charset)
    if document_and_outline is None:
        return None
    document, outline = document_and_outline
    if outline.is_exhaustive or SIGNATURES in document.utf8:
        return None
    base_entries = frozenset(base)
    all_items = outline.items
    keeps = [entry not in base_entries for entry in identify(all_items)]
    if all(keeps):
        return Delta(body, len(keeps))
    cuts = _json_cuts(all_items, keeps) if channel.kind is Kind.JSON else _xml_cuts(document.utf8, outline, keeps)
    cut = splice(document, [Edit(start, end, "") for start, end in cuts])
    return None if cut is None else Delta(cut, sum(keeps))


def _xml_cuts(utf8: bytes, outline: Outline, keeps: list[bool]) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges to remove, with the white space before each: items for which `keeps` is False, and each
    `rdf:li` that names such an item."""
    kept_names = {item.name for item, keep in zip(outline.items, keeps, strict=True) if keep}
    cut_names = {item.name for item in outline.items} - kept_names
    cut: list[ItemSpan | Member] = [item for item, keep in zip(outline.items, keeps, strict=True) if not keep]
    cut += [member for member in outline.members if member.name and member.name in cut_names]
    for element in cut:
        start = element.start
        while utf8[start - 1] in _SPACE:
            start -= 1
        yield start, element.end


def _json_cuts(items: tuple[ItemSpan, ...], keeps: list[bool]) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges to remove: every item for which `keeps` is False, with one comma.

    The comma follows an item before the first kept item, and precedes a later item.
    """
    first = keeps.index(True) if True in keeps else len(items)
    if first:
        end = items[first].start if first < len(items) else items[-1].end
        yield items[0].start, end
    for number in range(first + 1, len(items)):
        if not keeps[number]:
            yield items[number - 1].end, items[number].end
