"""Scan of a feed's channel without its items. Items take most of the parsing time.

The bytes around the items form a short document, which is parsed alone. `Channel.well_formed` then says nothing about
the items. A document with other content between its items is not scanned: channel_parser.py parses it.
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
_END_TAGS = {name: re.compile(rb"</%b>(?:\s*+(<%b)[> \n\r\t])?" % (name, name)) for name in (b"item", b"entry")}
"""Patterns of the end tag of an item, by element name. The group is not empty if another item follows directly."""
_NOT_MARKUP = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))
"""Beginnings and ends of comments, CDATA sections and instructions. Text in them that looks like an item is not an
item."""

SCANNED_MAX = 16 * 1024
"""A document with more than this many bytes around its items is not scanned, because the scan runs in the event loop.

A channel of 2 KB takes a quarter of a millisecond.
"""


def scan_channel(body: bytes, content_type: str | None, *, digest: str = "") -> Channel | None:
    """Return the same channel as `channel_parser.read`, without checking the items. Return None if the whole document
    must be parsed.

    `digest` becomes the channel's `content_digest`.
    """
    first = _ITEM.search(body) if body.startswith(_DOCUMENT_STARTS) else None
    if first is None:
        return None
    name = first[1]
    next_items = _END_TAGS[name].findall(body, first.end())
    if not next_items or not all(next_items[:-1]):
        return None
    end_tag = b"</%b>" % name
    end = body.rfind(end_tag) + len(end_tag)
    if _ITEM.search(body, first.end(), body.find(end_tag)) or _ITEM.search(body, end):
        return None
    if first.start() + len(body) - end > SCANNED_MAX:
        return None
    if any(body.rfind(begin, 0, first.start()) > body.rfind(end, 0, first.start()) for begin, end in _NOT_MARKUP):
        return None
    if _has_end_tag_in_other_than_markup(body[first.start() : end], end_tag):
        return None
    text = to_utf8(body, charset_of(content_type))
    if text.data is not body:
        return None
    without_items = xml_parser.parse_small(Utf8Text(body[: first.start()] + body[end:], text.encoding, text.sound))
    if without_items is None or without_items[1]:
        return None
    count = len(next_items)
    channel = channel_parser.channel_of(
        xml_parser.XmlTree(without_items[0], well_formed=True),
        Items(entries=count) if name == b"entry" else Items(count),
    )
    if channel is None or _ITEM_NAMES[channel.kind] != name or not channel.version:
        return None  # without version and namespace, the structure of items decides (feed/parse/feed_structure.py)
    return replace(channel, items=count, content_digest=digest)


def _has_end_tag_in_other_than_markup(items: bytes, end_tag: bytes) -> bool:
    """Return True if an end tag of an item can lie in a comment or a CDATA section."""
    # The loops of `map` run without Python code: an archive has 100,000 items.
    kinds = [kind for kind in _NOT_MARKUP[:2] if kind[0] in items]
    pieces = items.split(end_tag) if kinds else []
    counts = [[list(map(bytes.count, pieces, repeat(mark))) for mark in kind] for kind in kinds]
    return any(begins != ends for begins, ends in counts)
