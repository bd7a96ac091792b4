"""Scan of a feed's channel without its items. Items take most of the parsing time.

The bytes around the items form a short document, which is parsed alone. `Channel.well_formed` then says nothing about
the items. A document with other content between its items is not scanned: channel_parser.py parses it.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

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
"""Beginnings and ends of comments, CDATA sections and instructions. What looks like an item in them is none."""

SCANNED_MAX = 16 * 1024
"""A document with more than this many bytes around its items is not scanned, because the scan runs in the event loop.

A channel of 2 KB takes a quarter of a millisecond.
"""


def scan_channel(body: bytes, content_type: str | None, *, digest: str = "") -> Channel | None:
    """Return the channel as `channel_parser.read` does, without a check of the items.

    Return None if the whole document must be parsed. `digest` becomes the channel's `content_digest`.
    """
    first = _ITEM.search(body) if body.startswith(_DOCUMENT_STARTS) else None
    if first is None:
        return None
    name = first[1]
    ends = list(_END_TAGS[name].finditer(body, first.end()))
    if not ends or [match for match in ends[:-1] if not match[1]]:
        return None
    end_tag = b"</%b>" % name
    end = ends[-1].start() + len(end_tag)
    if _ITEM.search(body, first.end(), body.find(end_tag)) or _ITEM.search(body, end):
        return None
    if first.start() + len(body) - end > SCANNED_MAX:
        return None
    if any(body.rfind(begin, 0, first.start()) > body.rfind(end, 0, first.start()) for begin, end in _NOT_MARKUP):
        return None
    if _has_end_tag_in_other_than_markup(body, (first.start(), *[match.start() for match in ends])):
        return None
    text = to_utf8(body, charset_of(content_type))
    if text.data is not body:
        return None
    without_items = xml_parser.parse_small(Utf8Text(body[: first.start()] + body[end:], text.encoding, text.sound))
    if without_items is None or without_items[1]:
        return None
    count = len(ends)
    channel = channel_parser.channel_of(
        xml_parser.XmlTree(without_items[0], well_formed=True),
        Items(entries=count) if name == b"entry" else Items(count),
    )
    if channel is None or _ITEM_NAMES[channel.kind] != name or not channel.version:
        return None  # without version and namespace, the structure of items decides (feed/parse/feed_structure.py)
    return replace(channel, items=count, content_digest=digest)


def _has_end_tag_in_other_than_markup(body: bytes, bounds: Sequence[int]) -> bool:
    """Return True if an end tag may lie in a comment or a CDATA section. `bounds` are the starts of the first item and
    of all end tags."""
    kinds = [kind for kind in _NOT_MARKUP[:2] if body.find(kind[0], bounds[0], bounds[-1]) >= 0]
    for begin, end in kinds:
        begins = [body.count(begin, *item) for item in pairwise(bounds)]
        if begins != [body.count(end, *item) for item in pairwise(bounds)]:
            return True
    return False
