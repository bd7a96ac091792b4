"""Scan of a feed's channel without its items, which take most of the parsing time.

The bytes around the items form a short document, which is parsed alone. `Channel.well_formed` then says nothing about
the items. A document with other content between its items is not scanned.
"""

import re
from itertools import repeat

from msgspec.structs import replace

from feedproxy.feed import xml_parser
from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.encoding_detection import Utf8Text, to_utf8
from feedproxy.feed.parse import channel_parser
from feedproxy.feed.parse.feed_structure import Items
from feedproxy.http.field_values import charset_of

_DOCUMENT_STARTS = (b"<?xml ", b"<rss", b"<feed", b"<rdf:RDF")
_ITEM = re.compile(rb"<(item|entry)[\s>]")
_ITEM_NAMES = {kind: b"entry" if kind is Kind.ATOM else b"item" for kind in Kind}
_START_TAGS = {name: re.compile(rb"\s*+<%b[> \n\r\t]" % name) for name in (b"item", b"entry")}
"""Patterns of the beginning of an item, by element name, with white space before it."""
_NOT_MARKUP = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))
"""Beginnings and ends of comments, CDATA sections and instructions. They contain no items."""

SCANNED_MAX = 16 * 1024
"""Maximum number of bytes around the items of a scanned document. The scan blocks the event loop: 2 KB take 0.25 ms."""


def scan_channel(body: bytes, content_type: str | None, *, digest: str = "") -> Channel | None:
    """Return the same channel as `channel_parser.read`, without checking the items.

    Return None if the whole document must be parsed. `digest` becomes the channel's `content_digest`.
    """
    first = _ITEM.search(body) if body.startswith(_DOCUMENT_STARTS) else None
    if first is None:
        return None
    name = first[1]
    before = body[: first.start()]
    *items, after = body[first.start() :].split(b"</%b>" % name)
    if not items or not all(map(_START_TAGS[name].match, items)):
        return None
    if _ITEM.search(items[0], len(first[0])) or _ITEM.search(after):
        return None
    if len(before) + len(after) > SCANNED_MAX:
        return None
    if any(before.rfind(begin) > before.rfind(end) for begin, end in _NOT_MARKUP):
        return None
    if _has_end_tag_in_other_than_markup(body, items):
        return None
    text = to_utf8(body, charset_of(content_type))
    if text.data is not body:
        return None
    without_items = xml_parser.parse_small(Utf8Text(before + after, text.encoding, text.sound))
    if without_items is None or without_items[1]:
        return None
    count = len(items)
    channel = channel_parser.channel_of(
        xml_parser.XmlTree(without_items[0], well_formed=True),
        Items(entries=count) if name == b"entry" else Items(count),
    )
    if channel is None or _ITEM_NAMES[channel.kind] != name or not channel.version:
        return None  # without version and namespace, the structure of items decides (feed/parse/feed_structure.py)
    return replace(channel, items=count, content_digest=digest)


def _has_end_tag_in_other_than_markup(body: bytes, items: list[bytes]) -> bool:
    """Return True if a comment or CDATA section can contain an end tag of an item. `items` are the texts of the items
    in `body`, without their end tags."""
    # The loops of `map` run without Python code: an archive has 100,000 items.
    kinds = [kind for kind in _NOT_MARKUP[:2] if kind[0] in body]
    counts = [[list(map(bytes.count, items, repeat(mark))) for mark in kind] for kind in kinds]
    return any(begins != ends for begins, ends in counts)
