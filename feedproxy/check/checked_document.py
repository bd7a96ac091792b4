"""A feed's document as the checks need it: the parsed channel, and details that lenient parsers ignore.

Texts and dates are stored as written. The limits of feed/xml_parser.py apply.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.parsers.expat import ErrorString, ExpatError, ParserCreate

from msgspec import Struct, field

from feedproxy.feed import feed_dates, xml_parser, xml_redirect
from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.convert.namespaces import CONTENT, DC, DCTERMS
from feedproxy.feed.document_syntax import DocumentSyntax, detect_utf8_syntax
from feedproxy.feed.encoding_detection import Utf8Text, to_utf8
from feedproxy.feed.json_scanner import parse_integer
from feedproxy.feed.parse import jsonfeed, link_elements
from feedproxy.feed.parse.channel_parser import read
from feedproxy.http.field_values import charset_of

ENTRIES_MAX = 10_000
"""Maximum number of items of a document that are checked."""
_TEXT_LENGTH_MAX = 20_000
"""Maximum number of characters of one text that the checks read."""
_CHUNK_SIZE = 64 * 1024
_DATES = frozenset({"pubdate", "date", "updated", "published", "modified", "issued", "created", "lastbuilddate"})


class WrittenDate(Struct, frozen=True):
    """A date as written: the element's name, its text, and the instant, or None if the text is not a date."""

    name: str
    text: str
    instant: int | None


class CheckedEntry(Struct, frozen=True):
    """An RSS item, Atom entry or JSON Feed item, with its texts as written."""

    id: str = ""
    is_permalink: bool = False
    title: str = ""
    link: str = ""
    dates: tuple[WrittenDate, ...] = ()
    content: str = ""
    """Texts of description, summary and content, joined by line feeds."""
    about: str = ""
    """Value of the attribute rdf:about, or "" if it is absent."""
    missing_attributes: tuple[str, ...] = ()
    """Attributes that RSS requires of enclosures, and that an enclosure of this item lacks."""

    @property
    def published(self) -> int | None:
        """Return the first valid date of `dates`, in Unix seconds, or None if no date is valid.

        `dates` has the order of the document (JSON Feed: date_published before date_modified).
        """
        return next((date.instant for date in self.dates if date.instant is not None), None)


class XmlError(Struct, frozen=True):
    """The position of the first syntax error in a document, with the parser's message."""

    line: int
    column: int
    message: str


class CheckedDocument(Struct, frozen=True):
    """A parsed document. `channel` is None if the document is not a feed."""

    body: bytes
    text: Utf8Text
    syntax: DocumentSyntax
    channel: Channel | None
    entries: tuple[CheckedEntry, ...] = ()
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Texts of the channel's elements, keyed by element name in lower case."""
    dates: tuple[WrittenDate, ...] = ()
    """Dates of the channel itself, not of its entries."""
    rdf_items: tuple[str, ...] = ()
    """Addresses of the items that an RSS 1.0 channel lists."""
    self_link_titles: tuple[str, ...] = ()
    """Values of the attribute title of self links."""
    wrong_namespaces: tuple[str, ...] = ()
    """Namespaces of self links other than Atom's two namespaces."""
    syntax_error: XmlError | None = None
    doctype: bool = False
    redirect: xml_redirect.Moved | xml_redirect.Gone | None = None


def parse(body: bytes, content_type: str | None = None) -> CheckedDocument:
    """Return the parsed document. Raises no exception."""
    charset = charset_of(content_type)
    text = to_utf8(body, charset)
    syntax, channel = detect_utf8_syntax(text.data), read(body, content_type)
    if channel is None:
        syntax_error = None
        if syntax is DocumentSyntax.XML:
            syntax_error, _ = find_xml_error(text.data)
        elif syntax is DocumentSyntax.JSON:
            syntax_error = _find_json_error(text.data)
        return CheckedDocument(body, text, syntax, None, redirect=xml_redirect.read(body), syntax_error=syntax_error)
    if channel.kind is Kind.JSON:
        return _json(body, text, channel)
    syntax_error, doctype = find_xml_error(text.data)
    entries: list[CheckedEntry] = []

    def add_entry(element: xml_parser.Element) -> None:
        if len(entries) < ENTRIES_MAX:
            entries.append(_read_entry(element))

    tree = xml_parser.parse(text, add_entry)
    if tree is None:
        return CheckedDocument(body, text, syntax, channel, syntax_error=syntax_error, doctype=doctype)
    channel_element = _find_channel(tree.root, channel.kind)
    texts, written_dates = _channel_texts(channel_element)
    return CheckedDocument(
        body,
        text,
        syntax,
        channel,
        tuple(entries),
        texts,
        written_dates,
        tuple(_rdf_items(channel_element)),
        tuple(_self_link_titles(channel_element)),
        tuple(_wrong_namespaces(channel_element)),
        syntax_error,
        doctype,
    )


def find_xml_error(utf8: bytes) -> tuple[XmlError | None, bool]:
    """Return the first syntax error, or None if there is none, and whether there is a document type declaration.

    Only a declaration before the error counts.
    """
    parser = ParserCreate("utf-8", "}")
    doctypes: list[str] = []
    parser.StartDoctypeDeclHandler = lambda name, *_: doctypes.append(name)
    # Without a default handler, expat would expand entities.
    parser.DefaultHandler = lambda _: None
    try:
        for at in range(0, len(utf8), _CHUNK_SIZE):
            parser.Parse(utf8[at : at + _CHUNK_SIZE], False)
        parser.Parse(b"", True)
    except ExpatError as error:
        message = ErrorString(error.code) or "not well-formed"
        message = message.removeprefix("not well-formed (").removesuffix(")")
        return XmlError(error.lineno, error.offset + 1, message), bool(doctypes)
    return None, bool(doctypes)


def _read_entry(element: xml_parser.Element) -> CheckedEntry:
    own_namespace, _ = xml_parser.qualified_name(element)
    texts: dict[str, str] = {}
    link = ""
    written_dates: list[WrittenDate] = []
    content: list[str] = []
    is_permalink = False
    missing_attributes: list[str] = []
    for namespace, local, child in xml_parser.children(element):
        name = local.lower()
        if name in _DATES and namespace in (own_namespace, DC, DCTERMS):
            written_dates.append(_to_date(local, xml_parser.text_of(child)))
            continue
        if name == "encoded" and namespace == CONTENT:
            content.append(xml_parser.text_of(child)[:_TEXT_LENGTH_MAX])
            continue
        if namespace != own_namespace:
            continue
        match name:
            case "description" | "summary" | "content":
                content.append(_text_with_markup(child)[:_TEXT_LENGTH_MAX])
            case "title":
                texts.setdefault(name, _text_with_markup(child))
            case "link":
                if child.get("rel", "alternate") == "alternate":
                    link = link or (child.get("href") or xml_parser.text_of(child)).strip()
            case "enclosure":
                missing_attributes += (key for key in ("url", "length", "type") if not (child.get(key) or "").strip())
            case "guid":
                # "isPermaLink is optional, its default value is true" -- RSS 2.0
                is_permalink = child.get("isPermaLink", "true").strip().lower() != "false"
                texts.setdefault(name, xml_parser.text_of(child))
            case _:
                texts.setdefault(name, xml_parser.text_of(child))
    about = element.get(f"{{{xml_parser.RDF}}}about", "").strip()
    return CheckedEntry(
        id=texts.get("id") or texts.get("guid") or about,
        is_permalink=is_permalink,
        title=texts.get("title", ""),
        link=link,
        dates=tuple(written_dates),
        content="\n".join(content),
        about=about,
        missing_attributes=tuple(missing_attributes),
    )


def _find_channel(root: xml_parser.Element, kind: Kind) -> xml_parser.Element:
    if kind not in (Kind.RSS, Kind.RDF):
        return root
    return next(iter(xml_parser.named_children(root, "channel")), root)


def _channel_texts(channel_element: xml_parser.Element) -> tuple[dict[str, list[str]], tuple[WrittenDate, ...]]:
    own_namespace, _ = xml_parser.qualified_name(channel_element)
    texts: dict[str, list[str]] = {}
    written_dates: list[WrittenDate] = []
    for namespace, local, child in xml_parser.children(channel_element):
        if namespace in (own_namespace, DC, DCTERMS):
            text = xml_parser.text_of(child)[:_TEXT_LENGTH_MAX]
            texts.setdefault(local.lower(), []).append(text)
            if local.lower() in _DATES:
                written_dates.append(_to_date(local, text))
    return texts, tuple(written_dates)


def _rdf_items(channel_element: xml_parser.Element) -> Iterator[str]:
    for item in channel_element.iter(f"{{{xml_parser.RDF}}}li"):
        if target := item.get(f"{{{xml_parser.RDF}}}resource") or item.get("resource"):
            yield target.strip()


def _self_link_titles(channel_element: xml_parser.Element) -> Iterator[str]:
    for _, link in link_elements.atom_links(xml_parser.children(channel_element)):
        if (title := (link.get("title") or "").strip()) and link_elements.SELF_RELATIONS & set(
            link_elements.relations(link)
        ):
            yield title[:_TEXT_LENGTH_MAX]


def _wrong_namespaces(channel_element: xml_parser.Element) -> Iterator[str]:
    for namespace, local, child in xml_parser.children(channel_element):
        if local == "link" and namespace not in (xml_parser.ATOM, xml_parser.ATOM03) and child.get("rel") == "self":
            yield namespace


def _text_with_markup(element: xml_parser.Element) -> str:
    """Return the text of an element. `<xhtml>` before the text tells the checks that the element contains XHTML."""
    marked = "<xhtml>" if len(element) and element.get("type") == "xhtml" else ""
    return marked + xml_parser.text_of(element)


def _to_date(name: str, text: str) -> WrittenDate:
    return WrittenDate(name, text.strip()[:80], feed_dates.parse(text))


def _json(body: bytes, text: Utf8Text, channel: Channel) -> CheckedDocument:
    feed, _ = jsonfeed.decode(text.data)
    items = [item for item in feed["items"] if isinstance(item, dict)]
    texts = {name: [value] for name, value in feed.items() if isinstance(value, str)}
    entries = tuple(_json_entry(item) for item in items[:ENTRIES_MAX])
    return CheckedDocument(
        body, text, DocumentSyntax.JSON, channel, entries, texts, syntax_error=_find_json_error(text.data)
    )


def _find_json_error(utf8: bytes) -> XmlError | None:
    try:
        json.loads(utf8.decode("utf-8", "replace").lstrip("\ufeff"), parse_int=parse_integer)
    except json.JSONDecodeError as error:
        return XmlError(error.lineno, error.colno, error.msg)
    except RecursionError:
        return XmlError(1, 1, "nested too deeply")
    return None


def _json_entry(item: dict[str, Any]) -> CheckedEntry:
    def text(name: str) -> str:
        value = item.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and name == "id":
            return str(value)
        return value.strip()[:_TEXT_LENGTH_MAX] if isinstance(value, str) else ""

    written_dates = [_to_date(name, text(name)) for name in ("date_published", "date_modified") if text(name)]
    content = "\n".join(text(name) for name in ("content_html", "content_text", "summary") if text(name))
    link = text("url") or text("external_url")
    return CheckedEntry(id=text("id"), title=text("title"), link=link, dates=tuple(written_dates), content=content)
