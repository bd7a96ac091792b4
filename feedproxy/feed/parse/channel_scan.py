"""What a feed says of itself, at a glance: its items are stepped over, not read.

Nearly all of a feed are its items, and nearly all the time of reading goes to them; yet of a feed that is met for the
first time nobody wants more of them than their number. What stands around them, put together, is a document too, and
a short one. It is read as any other, and says the same of the channel wherever the items follow one another with
nothing between, as they do in all feeds but a few: those, and what is uncommon in any other way, are left to parser.py.

Faults within the items are not seen here. `well_formed` then tells of all the rest, until somebody reads the feed.
"""

import re
from dataclasses import replace

from feedproxy.feed import xml
from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.charset import Utf8Text, to_utf8
from feedproxy.feed.parse import parser
from feedproxy.feed.parse.structure import Items
from feedproxy.http.field_values import charset_of

_DOCUMENT_STARTS = (b"<?xml ", b"<rss", b"<feed", b"<rdf:RDF")
_ITEM = re.compile(rb"<(item|entry)[\s>]")
_ITEM_NAMES = {kind: b"entry" if kind is Kind.ATOM else b"item" for kind in Kind}
_START_TAGS = {
    name: tuple(b"<" + name + end for end in (b">", b" ", b"\n", b"\r", b"\t")) for name in (b"item", b"entry")
}


SCANNED_MAX = 16 * 1024
"""Bytes around the items that are read where readers wait, a quarter of a millisecond for a usual channel of 2 KB. One
that is larger is read with the rest of the feed, elsewhere."""


def scan_channel(body: bytes, content_type: str | None, *, digest: str = "") -> Channel | None:
    """What `read.read` gives, the items' faults apart; None where they have to be looked at.

    `digest` stands for the content digest that was not reckoned.
    """
    first = _ITEM.search(body) if body.startswith(_DOCUMENT_STARTS) else None
    if first is None:
        return None
    name = first[1]
    before, *others = body.split(b"</%b>" % name)
    openings = _START_TAGS[name]
    if not others or _ITEM.search(before, first.end()) or _ITEM.search(others[-1]):
        return None
    if not all(each.lstrip().startswith(openings) for each in others[:-1]):
        return None
    if first.start() + len(others[-1]) > SCANNED_MAX:
        return None
    text = to_utf8(body, charset_of(content_type))
    if text.data is not body:
        return None
    around = xml.parse_small(Utf8Text(body[: first.start()] + others[-1], text.encoding, text.sound))
    if around is None or around.items:
        return None
    count = len(others)
    channel = parser.channel_of(around.document, Items(entries=count) if name == b"entry" else Items(count))
    if channel is None or _ITEM_NAMES[channel.kind] != name or not channel.version:
        return None  # without a version or namespace the items are to be looked at (feed/parse/structure.py)
    return replace(channel, items=count, content_digest=digest)
