"""Conversion of a feed's document, in any format, to the model."""

import dataclasses
from typing import Any

from feedproxy.feed import xml_parser
from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.convert import markup
from feedproxy.feed.convert.model import Feed, Item, Link, Person
from feedproxy.feed.convert.namespaces import RSS2, XML
from feedproxy.feed.convert.read import element_precedence, from_cdf, from_json
from feedproxy.feed.convert.read.element_precedence import ITEMS_MAX
from feedproxy.feed.convert.read.from_rss_and_atom import element_base, extract
from feedproxy.feed.convert.xml_nodes import limit_namespaces
from feedproxy.feed.document_syntax import DocumentSyntax, detect_utf8_syntax
from feedproxy.feed.encoding_detection import to_utf8
from feedproxy.feed.parse import link_elements, schedule_elements
from feedproxy.feed.parse.channel_parser import read as read_channel
from feedproxy.http.field_values import charset_of


def read(body: bytes, content_type: str | None = None, *, address: str = "") -> Feed | None:
    """Return the model of the feed in `body`, or None if `body` is not a feed. `body` has no content coding.

    `address` is the feed's address. Relative links are resolved against it, unless the document gives another base.
    """
    parsed = read_channel(body, content_type)
    return read_parsed(parsed, body, content_type, address=address) if parsed is not None else None


def _limit_feed(feed: Feed) -> Feed:
    namespaces: set[str] = set()
    items = tuple(_with_namespaces(item, namespaces) for item in feed.items)
    return dataclasses.replace(_within_bounds(feed, namespaces), items=items)


def _with_namespaces(item: Item, namespaces: set[str]) -> Item:
    if item.source is not None:
        item = dataclasses.replace(item, source=_within_bounds(item.source, namespaces))
    return _within_bounds(item, namespaces)


def _within_bounds[T: (Feed, Item)](model: T, namespaces: set[str]) -> T:
    changed: dict[str, Any] = {}
    if model.extensions:
        changed["extensions"] = limit_namespaces(model.extensions, namespaces)
    for role in ("authors", "contributors"):
        persons: tuple[Person, ...] = getattr(model, role)
        if any(person.extensions for person in persons):
            changed[role] = tuple(
                dataclasses.replace(person, extensions=limit_namespaces(person.extensions, namespaces))
                for person in persons
            )
    return dataclasses.replace(model, **changed) if changed else model


def read_parsed(parsed: Channel, body: bytes, content_type: str | None, *, address: str) -> Feed | None:
    """Return the model of a document, or None if it cannot be parsed. `parsed` is the channel of the same document."""
    charset = charset_of(content_type)
    text = to_utf8(body, charset)
    if parsed.kind is Kind.JSON:
        return _limit_feed(from_json.read(text.data, parsed.version, address=address))
    if detect_utf8_syntax(text.data) is not DocumentSyntax.XML:
        return None
    reading = _ModelReader(parsed, address)
    document = xml_parser.parse(text, reading.on_element)
    return _limit_feed(reading.feed(document.root)) if document is not None else None


class _ModelReader:
    def __init__(self, parsed: Channel, address: str) -> None:
        self._parsed = parsed
        self._address = address
        self._local = "entry" if parsed.kind is Kind.ATOM else "item"
        self._base: str | None = None
        self._items: list[Item] = []

    def on_element(self, element: xml_parser.Element) -> None:
        if len(self._items) >= ITEMS_MAX or xml_parser.qualified_name(element)[1].lower() != self._local:
            return
        parent = element.getparent()
        base = self._base_of(parent) if parent is not None else self._address
        if self._parsed.kind is Kind.CDF:
            self._items.append(from_cdf.item(element, base))
            return
        core = xml_parser.qualified_name(element)[0]
        statements = extract(element, core=core, is_atom=self._parsed.kind is Kind.ATOM, base=base, is_item=True)
        self._items.append(element_precedence.item(statements))

    def feed(self, root: xml_parser.Element) -> Feed:
        """Return the feed. All items must have been passed to `on_element`."""
        kind = self._parsed.kind
        if kind is Kind.CDF:
            channel = from_cdf.channel(root, self._parsed, self._base_of(root))
        else:
            channel = self._channel(root, kind)
        items = tuple(element_precedence.drop_inherited(item, channel) for item in self._items)
        return dataclasses.replace(channel, items=items)

    def _channel(self, root: xml_parser.Element, kind: Kind) -> Feed:
        container = root if kind is Kind.ATOM else _channel_in(root)
        core = xml_parser.qualified_name(container)[0]
        schedule = self._parsed.schedule
        if kind is not Kind.RSS and schedule.ttl is None and not schedule.skip_hours and not schedule.skip_days:
            schedule = schedule_elements.schedule(xml_parser.children(container), RSS2)
        statements = extract(
            container, core=core, is_atom=kind is Kind.ATOM, base=self._base_of(container), is_item=False
        )
        statements.language = statements.language or _inherited_language(container)
        statements.direction = statements.direction or (root.get("dir") or "").strip().lower()
        if kind is Kind.RDF:
            root_statements = extract(root, core=core, is_atom=False, base=self._base_of(root), is_item=False)
            # RSS 1.0 has picture and text input beside the channel, which only refers to them.
            statements.image, statements.text_input = (
                root_statements.image or statements.image,
                root_statements.text_input or statements.text_input,
            )
        return element_precedence.channel(statements, kind, self._parsed.version, schedule)

    def _base_of(self, element: xml_parser.Element) -> str:
        base = self._fallback(element)
        for parent in [*reversed(list(element.iterancestors())), element]:
            base = element_base(parent, base)
        return base

    def _fallback(self, element: xml_parser.Element) -> str:
        """Return the base of relative links: the document's address, or else its self link, its web page, or "".

        The first result is kept, so that all items get the same base.
        """
        if self._base is None:
            root = next(reversed(list(element.iterancestors())), element)
            own = self._address
            if not own and self._parsed.kind is not Kind.CDF:
                links = link_elements.atom_links(
                    xml_parser.children(root), (xml_parser.qualified_name(root)[0], xml_parser.ATOM, xml_parser.ATOM03)
                )
                links += link_elements.atom_links(xml_parser.children(_channel_in(root)))
                own = next((link.href for link in link_elements.self_links(links) if markup.is_web(link.href)), "")
            if not own and markup.is_web(self._parsed.link):
                own = self._parsed.link
            self._base = own
        return self._base


def _channel_in(root: xml_parser.Element) -> xml_parser.Element:
    return next(iter(xml_parser.named_children(root, "channel")), root)


def _inherited_language(element: xml_parser.Element) -> str:
    key = f"{{{XML}}}lang"
    return next((ancestor.get(key) or "" for ancestor in element.iterancestors() if ancestor.get(key)), "").strip()


def with_rendering_address(feed: Feed, address: str) -> Feed:
    """Return the feed with the self link `address`, that of its conversion. The original self link gets rel="via"."""
    others = [link if link.rel != "self" else dataclasses.replace(link, rel="via") for link in feed.links]
    unique = {(link.href, link.rel): link for link in others if link.href != address or link.rel != "via"}
    return dataclasses.replace(feed, links=(*unique.values(), Link(address, "self")))


def with_source_address(feed: Feed, address: str, *, modified: int | None) -> Feed:
    """Return the feed with a self link and a date, if they are known.

    A missing self link becomes `address`, from which the feed was fetched. If neither the channel nor an item has a
    date, the channel gets `modified`, the time in Last-Modified.
    """
    dated = feed.updated is not None or feed.published is not None
    dated = dated or any(item.updated is not None or item.published is not None for item in feed.items)
    if not feed.address and address:
        feed = dataclasses.replace(feed, links=(*feed.links, Link(address, "self")))
    return feed if dated or modified is None else dataclasses.replace(feed, updated=modified)
