"""Autodiscovery of the feeds that a page names.

A link names a feed by `rel=feed`, or by `rel=alternate` and the media type of a feed. Links are elements of the page,
or parts of the response field Link. Addresses that are not valid http or https URLs are ignored.
"""

import re
from collections.abc import Iterable, Mapping

from lxml import etree
from msgspec import Struct

from feedproxy.feed.channel import READER_MEDIA_TYPES, Kind
from feedproxy.feed.document_syntax import DocumentSyntax, detect_syntax
from feedproxy.feed.encoding_detection import to_utf8
from feedproxy.feed.feed_scheme import resolve_address
from feedproxy.http import content_negotiation
from feedproxy.http.field_values import charset_of, parse_parameters
from feedproxy.http.link_field import Link, parse_links
from feedproxy.http.memoize import memoize_short
from feedproxy.http.message import NO_FIELDS, Fields

FEED_TYPES = (*READER_MEDIA_TYPES, *Kind.CDF.media_types)
"""Media types of feeds, in a page's links and in a client's Accept field."""

GENERIC_TYPES = ("application/xml", "text/xml", "application/json")
"""Media types that feeds share with other documents. They count only if no link has one of FEED_TYPES."""

BYTES_MAX = 1024 * 1024
"""Maximum number of bytes parsed at the beginning of a page. In known pages, the head ends within 200 KB."""

FEEDS_MAX = 32
"""Maximum number of feeds read from one page. Known pages name a dozen feeds, such as one for each section."""

_LINKS_MAX = 10_000
_PIECE = 32 * 1024
_TITLE_MAX = 200

_META = re.compile(rb"<meta\s[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9._:\-]{1,40})", re.IGNORECASE)
_META_SEARCH_MAX = 4096
_API = re.compile(r"/wp-json(?:/|$)|[?&]rest_route=")
"""Pattern of addresses of WordPress's API. Pages link to the API as application/json, but the API has no feeds."""


class DiscoveredFeed(Struct, frozen=True):
    """A feed that a page names. `address` is normalised."""

    address: str
    type: str = ""
    """One of FEED_TYPES, or "" for a link with another type or without a type."""
    title: str = ""


def is_page(body: bytes) -> bool:
    """Return True if the document is HTML, whatever its media type."""
    return detect_syntax(body) is DocumentSyntax.HTML


def discover_feeds(body: bytes, address: str, fields: Fields = NO_FIELDS) -> tuple[DiscoveredFeed, ...]:
    """Return the feeds that a page names: those in the field Link, then those in the page, in document order.

    `fields` are the fields of the response. `address` is the page's normalised address, or "" for a saved page. In a
    saved page that states no base address, relative links are ignored.
    """
    page = _parse_page(body, fields.get("content-type"))
    base = resolve_address(address, page.base) if page.base else ""
    links_with_base = [(address, link) for link in parse_links(fields)]
    links_with_base += [(base or address, link) for link in page.links]
    feeds = _resolve_links(links_with_base, address, FEED_TYPES)
    return feeds or _resolve_links(links_with_base, address, GENERIC_TYPES)


def prefers_feeds(accept: str | None) -> bool:
    """Return True if Accept prefers a feed to a page (RFC 9110, section 12.5.1), and False if it has no preference."""
    if accept is None:
        return False
    return content_negotiation.choose_media_type(accept, _OFFERS) in FEED_TYPES


def prefers_pages(accept: str | None) -> bool:
    """Return True if Accept prefers an HTML page to a feed, and False if it has no preference."""
    return _prefers_pages(accept) if accept else False


@memoize_short()
def _prefers_pages(accept: str) -> bool:
    return content_negotiation.choose_media_type(accept, (*FEED_TYPES, *GENERIC_TYPES, "text/html")) == "text/html"


_OFFERS = ("text/html", "application/xhtml+xml", *FEED_TYPES)
"""Media types to choose from. Those of pages are first, so a client without a preference gets the page."""


# -- parsing a page


class _StopParsing(Exception):
    """Exception that ends the parsing of a page early."""


class _PageTarget:
    """Parser target that collects the links of a page without building a tree."""

    def __init__(self) -> None:
        self.base = ""
        self.links: list[Link] = []
        self._links = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Collect the base address, and the links with `rel=alternate` or `rel=feed`."""
        if tag == "base":
            self.base = self.base or (attributes.get("href") or "").strip()
        elif tag in ("link", "a", "area") and "rel" in attributes:
            self._links += 1
            if self._links > _LINKS_MAX:
                raise _StopParsing
            rels = tuple((attributes.get("rel") or "").lower().split())
            if "alternate" in rels or "feed" in rels:
                href, kind = attributes.get("href") or "", attributes.get("type") or ""
                self.links.append(Link(href, rels, kind, attributes.get("title") or ""))

    def close(self) -> None:
        """Do nothing. The parser requires this method."""


def _parse_page(body: bytes, content_type: str | None) -> _PageTarget:
    page = _PageTarget()
    head = body[:BYTES_MAX]
    charset = charset_of(content_type)
    if charset is None and (meta := _META.search(head, 0, _META_SEARCH_MAX)) is not None:
        charset = meta[1].decode("ascii")
    text = to_utf8(head, charset).data
    if not text.strip():
        return page
    # `huge_tree=False` limits depth and the length of attributes; nothing is ever loaded.
    parser = etree.HTMLParser(
        target=page,  # type: ignore[arg-type]  # the stub asks for methods that lxml does not
        encoding="utf-8",
        no_network=True,
        huge_tree=False,
    )
    try:
        for at in range(0, len(text), _PIECE):
            parser.feed(text[at : at + _PIECE])
        parser.close()
    except (_StopParsing, etree.LxmlError):
        pass  # links before the error are kept
    return page


def _resolve_links(
    links_with_base: Iterable[tuple[str, Link]], page: str, types: tuple[str, ...]
) -> tuple[DiscoveredFeed, ...]:
    feeds: dict[str, DiscoveredFeed] = {}
    for base, link in links_with_base:
        kind = parse_parameters(link.type)[0]
        if not _names_feed(link, kind, types):
            continue
        address = resolve_address(base, link.href)
        if not address or address == page or (kind == "application/json" and _API.search(address)):
            continue
        title = " ".join(link.title.split())[:_TITLE_MAX]
        feeds.setdefault(address, DiscoveredFeed(address, kind if kind in FEED_TYPES else "", title))
        if len(feeds) == FEEDS_MAX:
            break
    return tuple(feeds.values())


def _names_feed(link: Link, kind: str, types: tuple[str, ...]) -> bool:
    if "stylesheet" in link.rels:
        return False  # `alternate stylesheet` is another style
    if "feed" in link.rels and types is FEED_TYPES:
        return kind in ("", *FEED_TYPES, *GENERIC_TYPES)
    return "alternate" in link.rels and kind in types
