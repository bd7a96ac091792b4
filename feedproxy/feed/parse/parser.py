"""The one entrance: bytes in, a Channel out, or None where they are no feed.

No feeds are: HTML and XHTML under whatever label, OPML, single Atom entries, RDF of other kinds, an XML
redirect (feed/xml_redirect.py), XML of other vocabularies (feed/parse/structure.py), JSON without JSON Feed's version
or items. Never raises on what a document contains.
"""

import dataclasses

from feedproxy.feed import xml
from feedproxy.feed.channel import Channel
from feedproxy.feed.charset import Text, to_utf8
from feedproxy.feed.content_digest import ContentDigest, digest_of_text
from feedproxy.feed.detect import Nature, nature_of_text
from feedproxy.feed.parse import atom, cdf, jsonfeed, rdf, rss
from feedproxy.feed.parse.structure import Items, names_in
from feedproxy.http.field_values import charset_of

_TEXT_MAX = 8192
"""Characters of a channel's title and link, which are kept with its copy. RFC 9110, section 4.1, wants addresses of
8000 to be managed; known titles have two hundred."""


def read(body: bytes, content_type: str | None, *, digest: bool = True) -> Channel | None:
    """What the feed in `body` (content codings removed) says of itself; None where `body` is no feed.

    Of `content_type` only the charset is used, and only where the document names no encoding. Without `digest` the
    content digest, which takes longer than all the rest, is left empty where it can be.
    """
    text = to_utf8(body, charset_of(content_type))
    match nature_of_text(text.data):
        case Nature.XML:
            return _read_whole(text, digest) or _read_xml(text)
        case Nature.JSON:
            return jsonfeed.read(text.data, sound=text.sound)
        case Nature.EMPTY | Nature.HTML | Nature.OTHER:
            return None


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
    first = names_in(items[0]) if items else None
    items.clear()
    whole.strip()
    found = Items(entries=count, first=first) if local == "entry" else Items(count, first=first)
    channel = channel_of(whole.document, found)
    if channel is None:
        return None
    counts = local == ("entry" if channel.kind == "atom" else "item")
    said = digest.finish(whole.document.root) if reckon else ""
    return dataclasses.replace(channel, items=count if counts else 0, content_digest=said)


def _read_xml(text: Text) -> Channel | None:
    digest = ContentDigest()
    counted = {"item": 0, "entry": 0}
    first: frozenset[str] | None = None

    def seen(item: xml.Element) -> None:
        nonlocal first
        first = names_in(item) if first is None else first
        counted[xml.name(item)[1].lower()] += 1
        digest.add_item(item)

    document = xml.pass_over(text, seen)
    if document is None:
        return None
    found = Items(counted["item"], counted["entry"], first)
    channel = channel_of(document, found)
    if channel is None:
        return None
    return dataclasses.replace(
        channel,
        items=found.entries if channel.kind == "atom" else found.items,
        content_digest=digest.finish(document.root) if document.well_formed else digest_of_text(text.data),
    )


def channel_of(document: xml.Document, items: Items) -> Channel | None:
    """What the document of a feed says; None for one that is none. `items` are those that are not in it any more."""
    channel = _channel_of(document, items)
    if channel is None or max(len(channel.title), len(channel.link)) <= _TEXT_MAX:
        return channel
    return dataclasses.replace(channel, title=channel.title[:_TEXT_MAX], link=channel.link[:_TEXT_MAX])


def _channel_of(document: xml.Document, items: Items) -> Channel | None:
    match xml.name(document.root)[1].lower():
        case "rss":
            return rss.read(document, items)
        case "rdf":
            return rdf.read(document, items)
        case "feed":
            return atom.read(document, items)
        case "channel":
            return cdf.read(document, items)
        case _:
            return None
