"""The one entrance: bytes in, a Channel out, or None where they are no feed.

No feeds are: HTML and XHTML under whatever label, OPML, single Atom entries, RDF of other kinds, an XML
redirect (feed/relocation.py), JSON that reports an error. Never raises on what a document contains.
"""

import dataclasses

from feedproxy.feed import atom, cdf, jsonfeed, rdf, rss, xml
from feedproxy.feed.channel import Channel
from feedproxy.feed.charset import Text, to_utf8
from feedproxy.feed.detect import Nature, nature_of_text
from feedproxy.feed.identity import ContentDigest, digest_of_text
from feedproxy.http.field import parse_parameters

_PLAIN = (b"<?xml ", b"<rss", b"<feed", b"<rdf:RDF")


def read(body: bytes, content_type: str | None, *, digest: bool = True) -> Channel | None:
    """What the feed in `body` (content codings removed) says of itself; None where `body` is no feed.

    Of `content_type` only the charset is used, and only where the document names no encoding. Without `digest` the
    content digest, which takes longer than all the rest, is left empty where it can be.
    """
    charset = parse_parameters(content_type)[1].get("charset") if content_type else None
    text = to_utf8(body, charset)
    match nature_of_text(text.data):
        case Nature.XML:
            return _read_whole(text, digest) or _read_xml(text)
        case Nature.JSON:
            return jsonfeed.read(text.data, sound=text.sound)
        case Nature.EMPTY | Nature.HTML | Nature.OTHER:
            return None


def read_plain(body: bytes, content_type: str | None) -> Channel | None:
    """What `read` gives without digest of a small, plain document, in a moment; None for what takes longer.

    Plain is what begins as a feed does, has no document type, and no fault. That is known before a parser sees it, so
    that what is uncommon, and may be hostile, is left to `read`.
    """
    if not body.startswith(_PLAIN) or b"<!DOCTYPE" in body:
        return None
    charset = parse_parameters(content_type)[1].get("charset") if content_type else None
    return _read_whole(to_utf8(body, charset), reckon=False)


def _read_whole(text: Text, reckon: bool) -> Channel | None:
    """What `_read_xml` gives, in a third of the time; None for what has to be read piece by piece."""
    whole = xml.at_once(text)
    if whole is None:
        return None
    items, digest = whole.items, ContentDigest()
    local = xml.name(items[0])[1].lower() if items else ""
    if reckon:
        for item in items:
            digest.add_item(item)
    count = len(items)
    items.clear()
    whole.strip()
    channel = _channel(whole.document, count if local == "item" else 0)
    if channel is None:
        return None
    counts = local == ("entry" if channel.kind == "atom" else "item")
    said = digest.finish(whole.document.root) if reckon else ""
    return dataclasses.replace(channel, items=count if counts else 0, content_digest=said)


def _read_xml(text: Text) -> Channel | None:
    digest = ContentDigest()
    counted = {"item": 0, "entry": 0}

    def seen(item: xml.Element) -> None:
        counted[xml.name(item)[1].lower()] += 1
        digest.add_item(item)

    document = xml.pass_over(text, seen)
    if document is None:
        return None
    channel = _channel(document, counted["item"])
    if channel is None:
        return None
    return dataclasses.replace(
        channel,
        items=counted["entry" if channel.kind == "atom" else "item"],
        content_digest=digest.finish(document.root) if document.well_formed else digest_of_text(text.data),
    )


def _channel(document: xml.Document, items: int) -> Channel | None:
    match xml.name(document.root)[1].lower():
        case "rss":
            return rss.read(document)
        case "rdf":
            return rdf.read(document)
        case "feed":
            return atom.read(document)
        case "channel":
            return cdf.read(document, items)
        case _:
            return None
