"""Offsets, names and digests of the items of a JSON Feed."""

from collections.abc import Sequence

from feedproxy.feed.content_digest import canonical_json
from feedproxy.feed.delta.item_offsets import ItemSpan, Outline, hash_entry, qualify_name
from feedproxy.feed.json_scanner import DECODER, scan_list, scan_object

type _Span = tuple[int, int, object]


def find(utf8: bytes) -> Outline | None:
    """Return the items of a JSON Feed, or None if the document is invalid.

    A document is invalid if it is not a JSON object, if it repeats `items`, or if `items` is not a list of objects.
    """
    try:
        return _find(utf8.decode())
    except (ValueError, RecursionError):
        return None


def _find(text: str) -> Outline:
    spans = _item_spans(text)
    offsets = iter(_to_utf8_offsets(text, [offset for start, end, _ in spans for offset in (start, end)]))
    items = []
    for _, _, value in spans:
        if not isinstance(value, dict):
            raise ValueError("invalid item: expected an object")
        items.append(ItemSpan(next(offsets), next(offsets), _name(value), hash_entry(canonical_json(value))))
    return Outline(tuple(items))


def _name(item: dict[str, object]) -> str:
    return qualify_name("id", _text(item.get("id"))) or qualify_name("link", _text(item.get("url")))


def _text(value: object) -> str:
    return str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _item_spans(text: str) -> list[_Span]:
    item_lists: list[list[_Span]] = []

    def member(name: str, at: int) -> int:
        if name != "items":
            return DECODER.raw_decode(text, at)[1]
        spans: list[_Span] = []
        item_lists.append(spans)

        def item(start: int) -> int:
            value, end = DECODER.raw_decode(text, start)
            spans.append((start, end, value))
            return end

        return scan_list(text, at, item)

    scan_object(text, member)
    if len(item_lists) > 1:
        raise ValueError("invalid feed: two members named items")
    return item_lists[0] if item_lists else []


def _to_utf8_offsets(text: str, offsets: Sequence[int]) -> list[int]:
    """Convert offsets in characters, in ascending order, to offsets in bytes of UTF-8."""
    if text.isascii():
        return list(offsets)
    utf8_offsets, position, previous = [], 0, 0
    for offset in offsets:
        position += len(text[previous:offset].encode())
        previous = offset
        utf8_offsets.append(position)
    return utf8_offsets
