"""Parser of feeds of every format, from bytes to a Channel.

Some documents are not feeds: HTML under any media type, OPML, single Atom entries, RDF without a channel, XML redirects
(feed/xml_redirect.py), and XML or JSON of other vocabularies (feed/parse/feed_structure.py).
"""

import re

import msgspec.structs

from feedproxy.feed import xml_parser
from feedproxy.feed.channel import Channel
from feedproxy.feed.content_digest import ContentDigest, digest_of_text
from feedproxy.feed.document_syntax import BEGINNING, DocumentSyntax, detect_utf8_syntax, has_text_before_document
from feedproxy.feed.encoding_detection import Utf8Text, encoding_by_bytes, to_utf8
from feedproxy.feed.parse import atom, cdf, jsonfeed, rdf, rss
from feedproxy.feed.parse.feed_structure import Items, local_names
from feedproxy.http.field_values import charset_of

_TEXT_MAX = 8192
"""Maximum number of characters of a channel's title, and of its link. Longer ones are cut.

RFC 9110, section 4.1, recommends supporting URIs of 8000 octets.
"""

_MEDIA_TYPE = re.compile("xml|rss|atom|rdf|html")
"""Pattern of media types of feeds that text can precede. Programs that print a warning first often declare HTML."""


def read(body: bytes, content_type: str | None, *, digest: bool = True) -> Channel | None:
    """Return the channel of the feed in `body`, or None if `body` is not a feed. Raises no exception.

    `body` has no content coding. The charset of `content_type` counts only if the document names no encoding. The media
    type of `content_type` counts only if text precedes the document. If `digest` is False, the digest of a small
    well-formed XML document is omitted, because computing it takes most of the time.
    """
    charset = charset_of(content_type)
    if len(body) > BEGINNING and encoding_by_bytes(body) is None:
        # The conversion of a large picture or archive takes 80 ms for each MB.
        beginning = to_utf8(body[:BEGINNING], charset).data
        if not _may_be_feed(detect_utf8_syntax(beginning), beginning, content_type):
            return None
    text = to_utf8(body, charset)
    syntax = detect_utf8_syntax(text.data)
    if not _may_be_feed(syntax, text.data, content_type):
        return None
    if syntax is DocumentSyntax.JSON:
        return jsonfeed.read(text.data, sound=text.sound)
    channel = _read_xml(text, digest or len(text.data) > xml_parser.SMALL_DOCUMENT_MAX)
    if channel is not None and not channel.items and not channel.title and has_text_before_document(text.data):
        return None
    return channel


def _may_be_feed(syntax: DocumentSyntax, data: bytes, content_type: str | None) -> bool:
    if syntax is DocumentSyntax.XML:
        return _may_begin_with_text(content_type) or not has_text_before_document(data)
    return syntax is DocumentSyntax.JSON


def _may_begin_with_text(content_type: str | None) -> bool:
    """Return True if text such as a program's warning is permitted before a feed with this Content-Type.

    Program code, documentation and pictures can contain text that only looks like the beginning of a feed.
    """
    media_type = (content_type or "").partition(";")[0].strip().lower()
    return not media_type or _MEDIA_TYPE.search(media_type) is not None


def _read_xml(text: Utf8Text, with_digest: bool) -> Channel | None:
    digest = ContentDigest()
    counts_by_name = {"item": 0, "entry": 0}
    first: frozenset[str] | None = None

    def on_item(item: xml_parser.Element) -> None:
        nonlocal first
        first = local_names(item) if first is None else first
        counts_by_name[xml_parser.qualified_name(item)[1].lower()] += 1
        if with_digest:
            digest.add_item(item)

    document = xml_parser.parse(text, on_item)
    if document is None:
        return None
    removed_items = Items(counts_by_name["item"], counts_by_name["entry"], first)
    channel = channel_of(document, removed_items)
    if channel is None:
        return None
    if document.well_formed:
        content_digest = digest.finish(document.root) if with_digest else ""
    else:
        content_digest = digest_of_text(text.data)
    return msgspec.structs.replace(
        channel,
        items=removed_items.entries if channel.kind == "atom" else removed_items.items,
        content_digest=content_digest,
    )


def channel_of(document: xml_parser.XmlTree, items: Items) -> Channel | None:
    """Return the channel of a document, or None if the document is not a feed. `items` describes the items, which were
    removed from `document`."""
    channel = _channel_of(document, items)
    if channel is None or max(len(channel.title), len(channel.link)) <= _TEXT_MAX:
        return channel
    return msgspec.structs.replace(channel, title=channel.title[:_TEXT_MAX], link=channel.link[:_TEXT_MAX])


def _channel_of(document: xml_parser.XmlTree, items: Items) -> Channel | None:
    match xml_parser.qualified_name(document.root)[1].lower():
        case "rss":
            return rss.read(document, items)
        case "rdf":
            return rdf.read(document, items)
        case "feed":
            return atom.read(document, items)
        case "channel" if rdf.is_rss11(document.root):
            return rdf.read(document, items)
        case "channel":
            return cdf.read(document, items)
        case _:
            return None
