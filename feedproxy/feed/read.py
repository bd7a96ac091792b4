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


def read(body: bytes, content_type: str | None) -> Channel | None:
    """What the feed in `body` (content codings removed) says of itself; None where `body` is no feed.

    Of `content_type` only the charset is used, and only where the document names no encoding.
    """
    charset = parse_parameters(content_type)[1].get("charset") if content_type else None
    text = to_utf8(body, charset)
    match nature_of_text(text.data):
        case Nature.XML:
            return _read_xml(text)
        case Nature.JSON:
            return jsonfeed.read(text.data, sound=text.sound)
        case Nature.EMPTY | Nature.HTML | Nature.OTHER:
            return None


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
