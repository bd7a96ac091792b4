"""Offsets, names and digests of the items of a JSON Feed.

The standard library's decoder does not report where inner values end. This module therefore scans the outer object and
its list of items, and decodes the values.
"""

import json
import re
from collections.abc import Callable, Sequence

from feedproxy.feed.content_digest import canonical_json
from feedproxy.feed.delta.item_offsets import ItemSpan, Outline, hash_entry, qualify_name

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()

type _Span = tuple[int, int, object]


def find(utf8: bytes) -> Outline | None:
    """Return the items of a well-formed feed, or None if the document is not a JSON Feed."""
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

    def member(at: int) -> int:
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _expect(text, at, ":"))
        if key != "items":
            return _DECODER.raw_decode(text, at)[1]
        spans: list[_Span] = []
        item_lists.append(spans)

        def item(start: int) -> int:
            value, end = _DECODER.raw_decode(text, start)
            spans.append((start, end, value))
            return end

        return _scan_list(text, at, "[]", item)

    _scan_list(text, 0, "{}", member)
    if len(item_lists) > 1:
        raise ValueError("invalid feed: two members named items")
    return item_lists[0] if item_lists else []


def _scan_list(text: str, at: int, brackets: str, read: Callable[[int], int]) -> int:
    opening, closing = brackets[0], brackets[1]
    at = _skip(text, _expect(text, at, opening))
    if text.startswith(closing, at):
        return at + 1
    while True:
        at = _skip(text, read(at))
        if text.startswith(closing, at):
            return at + 1
        at = _skip(text, _expect(text, at, ","))


def _expect(text: str, at: int, sign: str) -> int:
    at = _skip(text, at)
    if not text.startswith(sign, at):
        raise ValueError(f"invalid JSON at character {at}: expected {sign}")
    return at + 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _to_utf8_offsets(text: str, offsets: Sequence[int]) -> list[int]:
    """Return offsets in the UTF-8 form for ascending offsets in characters."""
    if text.isascii():
        return list(offsets)
    utf8_offsets, position, previous = [], 0, 0
    for offset in offsets:
        position += len(text[previous:offset].encode())
        previous = offset
        utf8_offsets.append(position)
    return utf8_offsets
