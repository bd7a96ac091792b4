"""Where is the feed of this page, and under which address does this feed want to be subscribed to?

A page names its feeds by links with `rel=alternate` and the media type of a feed, in its head or in the Link field of
its response: autodiscovery. A feed names its own address by its self link, and its page by the channel's link (USM).
Both may be followed in turn, feed → page → feed: "So, we can always find where the feed originated, even after we've
moved it."

A page is read without making a tree of it, no further than a megabyte, and nothing in it can do more than name
addresses: what is none that can be fetched is passed over.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lxml import etree

from feedproxy.errors import BadTarget
from feedproxy.feed.channel import Channel, SelfLink
from feedproxy.feed.charset import to_utf8
from feedproxy.feed.detect import DocumentKind, detect_kind
from feedproxy.http import negotiation, uri
from feedproxy.http.field_values import parse_parameters
from feedproxy.http.link import Link

FEED_TYPES = (
    "application/rss+xml",
    "application/atom+xml",
    "application/feed+json",
    "application/rdf+xml",
    "application/x-cdf",
)
"""What a link has to be of to count as a feed's, and what a reader has to prefer to be led to one."""

GENERIC_TYPES = ("application/xml", "text/xml", "application/json")
"""The types of feeds before they had their own, and of much else: good where nothing better is named."""

BYTES_MAX = 1024 * 1024
"""Of a page: links stand in its head, which in known pages ends within the first 200 KB."""

FEEDS_MAX = 32
"""Feeds of one page: known ones name a dozen, one for each section."""

_LINKS_MAX = 10_000
_PIECE = 32 * 1024
_TITLE_MAX = 200

_META = re.compile(rb"<meta\s[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9._:\-]{1,40})", re.IGNORECASE)
_META_SEARCH_MAX = 4096
_FEED_SCHEME = re.compile(r"(?i)\Afeed:(?://)?(?=https?:)")
_API = re.compile(r"/wp-json(?:/|$)|[?&]rest_route=")
"""WordPress names its API in every page, as application/json: no feed."""


@dataclass(frozen=True, slots=True)
class DiscoveredFeed:
    """A feed that a page names: its address, normalised, and what the page says of it."""

    address: str
    type: str = ""
    title: str = ""


def is_page(body: bytes) -> bool:
    """Whether this document is one of HTML, whatever its label."""
    return detect_kind(body) is DocumentKind.HTML


def discover_feeds(
    body: bytes, address: str, *, content_type: str | None = None, links: Iterable[Link] = ()
) -> tuple[DiscoveredFeed, ...]:
    """The feeds that a page names, in its own order; `links` are those of its response, and come first.

    `address` is where it was found, normalised; empty for a saved page, of which relative links are then unknown.
    """
    page = _parse_page(body, content_type)
    said = [_LinkElement(each.href, each.rels, each.type, each.title) for each in links]
    base = _resolve(address, page.base) if page.base else ""
    named = [(address, each) for each in said] + [(base or address, each) for each in page.links]
    feeds = _resolve_links(named, address, FEED_TYPES)
    return feeds or _resolve_links(named, address, GENERIC_TYPES)


def self_address(channel: Channel, base: str = "") -> str:
    """The address that a feed says to subscribe to; empty where it says none.

    "The value "self" is preferred … The value "start" is also acceptable." A relative one says nothing where nobody
    knows where the feed was found (`base`).
    """
    for link in sorted(channel.self_links, key=_rank):
        if found := _resolve(base, link.href):
            return found
    return ""


def page_address(channel: Channel, base: str = "") -> str:
    """The address of the page that a feed belongs to; empty where it says none that can be fetched."""
    return _resolve(base, channel.link)


def strip_feed_scheme(text: str) -> str:
    """An address without the scheme that browsers gave feeds once: `feed:https://…`, `feed://…` for http."""
    text = _FEED_SCHEME.sub("", text.strip(), count=1)
    return "http://" + text[len("feed://") :] if text.lower().startswith("feed://") else text


def prefers_feeds(accept: str | None) -> bool:
    """Whether who asks so would rather have a feed than a page (RFC 9110, section 12.5.1)."""
    if accept is None:
        return False
    return negotiation.best_type(accept, _OFFERS) in FEED_TYPES


_OFFERS = ("text/html", "application/xhtml+xml", *FEED_TYPES)
"""A page comes first: whoever takes anything gets what is there."""


# -- reading a page


@dataclass(frozen=True, slots=True)
class _LinkElement:
    """A link as it was written."""

    href: str
    rels: tuple[str, ...]
    type: str
    title: str


class _StopParsing(Exception):
    """No more of the page is wanted."""


class _PageTarget:
    """What the parser tells of a page goes in here; no tree is made."""

    def __init__(self) -> None:
        self.base = ""
        self.links: list[_LinkElement] = []
        self._links = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        if tag == "base":
            self.base = self.base or (attributes.get("href") or "").strip()
        elif tag in ("link", "a", "area") and "rel" in attributes:
            self._links += 1
            if self._links > _LINKS_MAX:
                raise _StopParsing
            rels = tuple((attributes.get("rel") or "").lower().split())
            if "alternate" in rels or "feed" in rels:
                href, kind = attributes.get("href") or "", attributes.get("type") or ""
                self.links.append(_LinkElement(href, rels, kind, attributes.get("title") or ""))

    def close(self) -> None:
        """The page is over."""


def _parse_page(body: bytes, content_type: str | None) -> _PageTarget:
    page = _PageTarget()
    head = body[:BYTES_MAX]
    charset = parse_parameters(content_type)[1].get("charset") if content_type else None
    if charset is None and (meta := _META.search(head, 0, _META_SEARCH_MAX)) is not None:
        charset = meta[1].decode("ascii")
    text = to_utf8(head, charset).data
    if not text.strip():
        return page
    # `huge_tree` off bounds depth and the length of attributes; nothing is ever loaded.
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
        pass  # what was read until then counts
    return page


def _resolve_links(
    named: Iterable[tuple[str, _LinkElement]], page: str, types: tuple[str, ...]
) -> tuple[DiscoveredFeed, ...]:
    found: dict[str, DiscoveredFeed] = {}
    for base, link in named:
        kind = parse_parameters(link.type)[0]
        if not _names_feed(link, kind, types):
            continue
        address = _resolve(base, link.href)
        if not address or address == page or (kind == "application/json" and _API.search(address)):
            continue
        title = " ".join(link.title.split())[:_TITLE_MAX]
        found.setdefault(address, DiscoveredFeed(address, kind if kind in FEED_TYPES else "", title))
        if len(found) == FEEDS_MAX:
            break
    return tuple(found.values())


def _names_feed(link: _LinkElement, kind: str, types: tuple[str, ...]) -> bool:
    if "stylesheet" in link.rels:
        return False  # `alternate stylesheet` is another style
    if "feed" in link.rels and types is FEED_TYPES:
        return kind in ("", *FEED_TYPES, *GENERIC_TYPES)
    return "alternate" in link.rels and kind in types


def _resolve(base: str, reference: str) -> str:
    """The address, normalised; empty for none that can be fetched."""
    reference = strip_feed_scheme(reference)
    if not reference:
        return ""
    try:
        return uri.resolve(base, reference)  # without a base only what is absolute comes to an address
    except BadTarget:
        return ""


def _rank(link: SelfLink) -> tuple[bool, bool]:
    kind = parse_parameters(link.type)[0]
    return link.rel != "self", kind not in ("", *FEED_TYPES, *GENERIC_TYPES)
