"""A feed read for its faults: the channel as everywhere, and beside it what is otherwise passed over in silence.

Entries are kept as they are written, since what is judged is the writing: a date that a lenient reader understands is
still no date of RFC 822. Bounded by the same means as every other reading (feed/xml.py).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any
from xml.parsers.expat import ErrorString, ExpatError, ParserCreate

from feedproxy.clock import Instant, Seconds
from feedproxy.feed import xml, xml_redirect
from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.charset import Utf8Text, to_utf8
from feedproxy.feed.convert import dates
from feedproxy.feed.detect import DocumentKind, detect_utf8_kind
from feedproxy.feed.parse import xml_elements
from feedproxy.feed.parse.parser import read
from feedproxy.http.field_values import parse_parameters

MOST_ENTRIES = 10_000
_RECENT = 20
"""Gaps between entries that count: what a feed did years ago says little of its pace."""
_LONGEST = 20_000
"""Characters of one text that are looked at."""
_PIECE = 64 * 1024
_DATES = frozenset({"pubdate", "date", "updated", "published", "modified", "issued", "created", "lastbuilddate"})
_DUBLIN_CORE = ("http://purl.org/dc/elements/1.1/", "http://purl.org/dc/terms/")
_CONTENT = "http://purl.org/rss/1.0/modules/content/"


@dataclass(frozen=True, slots=True)
class WrittenDate:
    """A date as it stands there: the element, its text, and the instant that a lenient reader takes it for."""

    name: str
    text: str
    instant: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """An item or entry, as it is written."""

    id: str = ""
    is_permalink: bool = False
    title: str = ""
    link: str = ""
    dates: tuple[WrittenDate, ...] = ()
    content: str = ""
    """Description, summary and content, one after another."""
    about: str = ""
    """rdf:about."""
    unsaid: tuple[str, ...] = ()
    """Attributes that an enclosure of RSS must have and does not."""

    @property
    def published(self) -> int | None:
        """The first of its dates that can be read."""
        return next((each.instant for each in self.dates if each.instant is not None), None)


@dataclass(frozen=True, slots=True)
class XmlError:
    """Where a document ceases to be well-formed, and why, in the parser's words."""

    line: int
    column: int
    words: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document and what was found in it. `channel` is None for what is no feed."""

    body: bytes
    text: Utf8Text
    nature: DocumentKind
    channel: Channel | None
    entries: tuple[Entry, ...] = ()
    said: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The channel's own elements that hold text, by their names in lower case."""
    dates: tuple[WrittenDate, ...] = ()
    """The channel's."""
    listed: tuple[str, ...] = ()
    """The items that an RSS 1.0 channel names."""
    titles: tuple[str, ...] = ()
    """Of the links that name the feed's address."""
    strays: tuple[str, ...] = ()
    """The namespaces of links that name the feed's address, and are in none of Atom's."""
    fault: XmlError | None = None
    doctype: bool = False
    redirect: xml_redirect.Moved | xml_redirect.Gone | None = None

    @property
    def pace(self) -> Seconds | None:
        """The usual time between two entries, by their dates; None where fewer than four have one."""
        times = sorted({each.published for each in self.entries if each.published is not None})[-_RECENT - 1 :]
        if len(times) < 4:
            return None
        return float(median(later - earlier for earlier, later in pairwise(times)))

    def newer_than(self, instant: Instant) -> int:
        """Entries with a date after this one."""
        return sum(each.published is not None and each.published > instant for each in self.entries)


def parse(body: bytes, content_type: str | None = None) -> Document:
    """Read a document, whatever it is. Never raises for what it contains."""
    charset = parse_parameters(content_type)[1].get("charset") if content_type else None
    text = to_utf8(body, charset)
    nature, channel = detect_utf8_kind(text.data), read(body, content_type)
    if channel is None:
        fault = find_xml_error(text.data)[0] if nature is DocumentKind.XML else None
        return Document(body, text, nature, None, redirect=xml_redirect.read(body), fault=fault)
    if channel.kind is Kind.JSON:
        return _json(body, text, channel)
    fault, doctype = find_xml_error(text.data)
    reading = _EntryReader()
    tree = xml.parse_streaming(text, reading.seen)
    if tree is None:
        return Document(body, text, nature, channel, fault=fault, doctype=doctype)
    top = _top(tree.root, channel.kind)
    said, written = _said(top)
    return Document(
        body,
        text,
        nature,
        channel,
        tuple(reading.entries),
        said,
        written,
        tuple(_listed(top)),
        tuple(_titles(top)),
        tuple(_strays(top)),
        fault,
        doctype,
    )


def find_xml_error(utf8: bytes) -> tuple[XmlError | None, bool]:
    """The first place at which this is not well-formed, and whether a document type was met."""
    parser = ParserCreate("utf-8", "}")
    met: list[str] = []
    parser.StartDoctypeDeclHandler = lambda name, *_: met.append(name)
    # Without a handler of its own expat would put entities in: nothing of them is wanted.
    parser.DefaultHandler = lambda _: None
    try:
        for at in range(0, len(utf8), _PIECE):
            parser.Parse(utf8[at : at + _PIECE], False)
        parser.Parse(b"", True)
    except ExpatError as error:
        words = ErrorString(error.code) or "not well-formed"
        words = words.removeprefix("not well-formed (").removesuffix(")")
        return XmlError(error.lineno, error.offset + 1, words), bool(met)
    return None, bool(met)


class _EntryReader:
    """The entries of a document of XML, one after another."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def seen(self, element: xml.Element) -> None:
        if len(self.entries) < MOST_ENTRIES:
            self.entries.append(self._entry(element))

    def _entry(self, element: xml.Element) -> Entry:
        own, _ = xml.qualified_name(element)
        texts: dict[str, str] = {}
        links: list[str] = []
        written: list[WrittenDate] = []
        content: list[str] = []
        is_permalink = False
        unsaid: list[str] = []
        for namespace, local, child in xml.children(element):
            name = local.lower()
            text = _markup_of(child) if name in ("title", "summary", "content", "description") else xml.text_of(child)
            if name in _DATES and namespace in (own, *_DUBLIN_CORE):
                written.append(_written(local, text))
            elif name == "encoded" and namespace == _CONTENT:
                content.append(text[:_LONGEST])
            elif namespace != own:
                continue
            elif name == "link":
                if child.get("rel", "alternate") == "alternate":
                    links.append((child.get("href") or text).strip())
            elif name == "enclosure":
                unsaid += (
                    attribute for attribute in ("url", "length", "type") if not (child.get(attribute) or "").strip()
                )
            elif name in ("description", "summary", "content"):
                content.append(text[:_LONGEST])
            else:
                texts.setdefault(name, text)
                if name == "guid":
                    # "isPermaLink is optional, its default value is true" -- RSS 2.0
                    is_permalink = child.get("isPermaLink", "true").strip().lower() != "false"
        about = element.get(f"{{{xml.RDF}}}about", "").strip()
        return Entry(
            id=texts.get("id") or texts.get("guid") or about,
            is_permalink=is_permalink,
            title=texts.get("title", ""),
            link=next((each for each in links if each), ""),
            dates=tuple(written),
            content="\n".join(content),
            about=about,
            unsaid=tuple(unsaid),
        )


def _top(root: xml.Element, kind: Kind) -> xml.Element:
    """The element that holds what the channel says."""
    if kind not in (Kind.RSS, Kind.RDF):
        return root
    return next((child for _, local, child in xml.children(root) if local.lower() == "channel"), root)


def _said(top: xml.Element) -> tuple[dict[str, list[str]], tuple[WrittenDate, ...]]:
    """The channel's own texts by name, and its dates."""
    own, _ = xml.qualified_name(top)
    said: dict[str, list[str]] = {}
    written: list[WrittenDate] = []
    for namespace, local, child in xml.children(top):
        if namespace in (own, *_DUBLIN_CORE):
            text = xml.text_of(child)[:_LONGEST]
            said.setdefault(local.lower(), []).append(text)
            if local.lower() in _DATES:
                written.append(_written(local, text))
    return said, tuple(written)


def _listed(top: xml.Element) -> Iterator[str]:
    for each in top.iter(f"{{{xml.RDF}}}li"):
        if named := each.get(f"{{{xml.RDF}}}resource") or each.get("resource"):
            yield named.strip()


def _titles(top: xml.Element) -> Iterator[str]:
    for _, link in xml_elements.atom_links(top):
        if (title := (link.get("title") or "").strip()) and xml_elements.SELF_RELATIONS & set(
            xml_elements.relations(link)
        ):
            yield title[:_LONGEST]


def _strays(top: xml.Element) -> Iterator[str]:
    for namespace, local, child in xml.children(top):
        if local == "link" and namespace not in (xml.ATOM, xml.ATOM03) and child.get("rel") == "self":
            yield namespace


def _markup_of(element: xml.Element) -> str:
    """The text within; XHTML's elements are marked, so that it is seen that there are some."""
    marked = "<xhtml>" if len(element) and element.get("type") == "xhtml" else ""
    return marked + xml.text_of(element)


def _written(name: str, text: str) -> WrittenDate:
    return WrittenDate(name, text.strip()[:80], dates.parse(text))


def _json(body: bytes, text: Utf8Text, channel: Channel) -> Document:
    try:
        feed, _ = json.JSONDecoder().raw_decode(text.data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n"))
    except (ValueError, RecursionError):
        feed = {}
    fault = None
    try:
        json.loads(text.data.decode("utf-8", "replace").lstrip("\ufeff"))
    except json.JSONDecodeError as error:
        fault = XmlError(error.lineno, error.colno, error.msg)
    except (ValueError, RecursionError) as error:
        fault = XmlError(1, 1, str(error))
    items = feed.get("items") if isinstance(feed, dict) else None
    found = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    said = {name: [value] for name, value in feed.items() if isinstance(value, str)} if isinstance(feed, dict) else {}
    entries = tuple(_of_json(each) for each in found[:MOST_ENTRIES])
    return Document(body, text, DocumentKind.JSON, channel, entries, said, fault=fault)


def _of_json(item: dict[str, Any]) -> Entry:
    def text(name: str) -> str:
        value = item.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and name == "id":
            return str(value)
        return value.strip()[:_LONGEST] if isinstance(value, str) else ""

    written = [_written(name, text(name)) for name in ("date_published", "date_modified") if text(name)]
    content = "\n".join(text(name) for name in ("content_html", "content_text", "summary") if text(name))
    link = text("url") or text("external_url")
    return Entry(id=text("id"), title=text("title"), link=link, dates=tuple(written), content=content)
