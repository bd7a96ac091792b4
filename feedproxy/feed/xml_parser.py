"""Safe parser of untrusted XML. It reads no external entities, uses no network, and raises no exceptions.

libxml2 recovers from syntax errors in a document. `XmlTree.well_formed` is then False. Declared entities are expanded
within limits (feed/entity_references.py), and frequent errors are repaired (feed/xml_repairs.py). The option huge_tree
is off, so libxml2 limits the depth (256 elements) and single texts (10 MB). Large documents are parsed in pieces, and
each item is removed after its processing.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

from lxml import etree
from msgspec import Struct

from feedproxy.feed.document_syntax import SEARCH_MAX, find_document_start, skip_prolog
from feedproxy.feed.encoding_detection import Utf8Text
from feedproxy.feed.entity_references import resolve_references
from feedproxy.feed.xml_repairs import close_void_elements, escape_bare, repair_nesting, replace_surrogates
from feedproxy.feed.xml_well_formedness import is_well_formed, remembering_check

ATOM = "http://www.w3.org/2005/Atom"
ATOM03 = "http://purl.org/atom/ns#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
SY = "http://purl.org/rss/1.0/modules/syndication/"
RSS11 = "http://purl.org/net/rss1.1#"

_ITUNES = "//www.itunes.com/dtds/podcast-1.0.dtd"

type Element = etree._Element

_CUSTOMARY_PREFIXES = {"atom": ATOM, "atom10": ATOM, "a10": ATOM, "rdf": RDF, "sy": SY}
"""Namespaces of prefixes that a document uses without declaring them."""

SMALL_DOCUMENT_MAX = 256 * 1024
"""A document of at most this many bytes is parsed into one tree. Parsing it as a stream takes three times as long."""

_PIECE = 64 * 1024
"""Number of bytes passed to the parser in one call. Then all complete items except the last are removed from the
tree."""

_TAG_CHECK_LENGTH = 64 * 1024
"""After this many bytes without a `>`, the limits _TAG_MAX and _OPEN_TAGS_MAX of a tag are checked. For
`<a b='<a b='…`, libxml2's time grows with the square of the length: a tenth of a second for 64 KiB, two for 256."""

_TAG_MAX = 4 * 1024 * 1024
"""Maximum length of one tag, in bytes. Attributes can contain pictures. Parsing takes four times their size."""

_OPEN_TAGS_MAX = 10_000
"""Maximum number of `<` before the next `>`. Well-formed tags have one. CDATA sections and comments can have more."""

_TREE_MAX = 100_000
"""Maximum number of nodes and attributes of a tree without items. The largest known channel has a few hundred."""

_BYTES_PER_NODE = 8
"""The nodes of the tree are counted again after this many further bytes per node of the last count. The time for all
counts is therefore proportional to the document's size."""

ATTRIBUTES_MAX = 256
"""Maximum number of attributes read of one element. Known feeds have a dozen.

lxml finds a value by a linear search, so the time grows with the square of this number.
"""

_LIMIT_ERRORS = frozenset({etree.ErrorTypes.ERR_RESOURCE_LIMIT, etree.ErrorTypes.ERR_INTERNAL_ERROR})
"""Types of errors by which libxml2 reports that a document exceeds its limits. They depend on libxml2's version."""

_NAMESPACE_MAX = 256
"""Maximum length of a namespace name, in bytes. Each element in the tree repeats the name of its namespace."""

_NAMESPACES_MAX = 10_000
"""Maximum number of prefix declarations in one document. Feeds with declarations in each entry have some thousands."""

_DECLARATION = re.compile(
    rb"""xmlns(?P<prefix>:[^\s=<>"'/]*+)?+\s*+=\s*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)')"""
)

_COUNT_NODES = etree.XPath("count(//node()) + count(//@*)")

ROOTS = ("rss", "RSS", "rdf", "RDF", "feed", "channel", "Channel", "CHANNEL", "rdf:RDF")
ITEMS = ("item", "entry", "Item", "ITEM")
_ROOT_TAGS = [f"{{*}}{name}" for name in ROOTS]
_ITEM_TAGS = [f"{{*}}{name}" for name in ITEMS]
_ROOT_NAMES = frozenset(ROOTS)

PARSER_OPTIONS: dict[str, Any] = {
    "encoding": "utf-8",  # overrides the declaration
    "recover": True,
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "dtd_validation": False,
    "attribute_defaults": False,
    "huge_tree": False,
    "remove_comments": True,
}
"""Options of lxml's parsers for untrusted documents."""

_REFERENCE = re.compile(r"&\w+;")

_ERROR_LEVEL = 2
"""Value of etree.ErrorLevels.ERROR. A document with an error of at least this level counts as ill-formed."""


class XmlTree(Struct, frozen=True):
    root: Element
    well_formed: bool


def parse(text: Utf8Text, on_item: Callable[[Element], None]) -> XmlTree | None:
    """Call `on_item` with every complete item, and remove the item. Return the tree without items.

    Return None if the root element is not that of a feed. `on_item` must not keep the item. A nested item in a
    well-formed document is part of the outer item. Comments are left out.
    """
    small = parse_small(text)
    if small is None:
        return _parse_streaming(text, on_item)
    root, items = small
    for item in items:
        on_item(item)
        del item[:]
    items.clear()
    etree.strip_elements(root, *_ITEM_TAGS, with_tail=True)
    return XmlTree(root, well_formed=True)


def parse_small(text: Utf8Text) -> tuple[Element, list[Element]] | None:
    """Return the root and the items of a small document, or None if the document must be parsed as a stream.

    The result is None for a document with more than SMALL_DOCUMENT_MAX bytes, a syntax error, a document type, items in
    two places, or nested items. Parsing as a stream can give another result for these.
    """
    data = text.data
    start = find_document_start(data) or 0
    if len(data) > SMALL_DOCUMENT_MAX or not text.sound or data.rfind(b"<!DOCTYPE") >= 0 or _is_displaced(data, start):
        return None
    if _safe_namespaces_length(data) < len(data):
        return None
    parser = etree.XMLParser(**PARSER_OPTIONS)
    try:
        root = etree.fromstring(data[start:], parser)
    except (etree.LxmlError, ValueError):
        return None
    if (
        root is None
        or any(entry.level >= _ERROR_LEVEL for entry in parser.error_log)
        or qualified_name(root)[1] not in _ROOT_NAMES
    ):
        return None
    items = list(root.iter(*_ITEM_TAGS))
    if items:
        parent = items[0].getparent()
        if parent is None or len(list(parent.iterchildren(items[0].tag))) < len(items):
            return None
    return root, items


def _parse_streaming(text: Utf8Text, on_item: Callable[[Element], None]) -> XmlTree | None:
    start = find_document_start(text.data) or 0
    end = safe_length(text.data)
    parser = _StreamParser(on_item)
    escaped = escape_bare(text.data[start:end])
    check = remembering_check()
    resolved, has_fault = resolve_references(escaped, skip_prolog(escaped, 0), check)
    replaced = close_void_elements(replace_surrogates(resolved), check)
    # The texts of entities may contain tags.
    data = replaced if replaced is escaped else replaced[: safe_length(replaced)]
    faultless = parser.feed_all(data)
    if parser.found_nested_item or parser.exceeded_limit:
        repaired = repair_nesting(data, check)
        if parser.found_nested_item or repaired is not data:
            # The items before this place have been passed on.
            parser = _StreamParser(_skip(parser.items, on_item), allows_nested=True)
            faultless, has_fault, data = parser.feed_all(repaired), has_fault or repaired is not data, repaired
    if parser.root is None:
        return None
    whole = end == len(text.data) and text.sound and not _is_displaced(text.data, start)
    has_fault = has_fault or replaced is not resolved
    is_faultless = faultless and not has_fault and len(escaped) == end - start and len(data) == len(replaced)
    return XmlTree(parser.root, well_formed=is_faultless and whole)


def _skip(count: int, on_item: Callable[[Element], None]) -> Callable[[Element], None]:
    numbers = itertools.count()
    return lambda item: on_item(item) if next(numbers) >= count else None


class _StreamParser:
    """Parser of a document in pieces.

    An item within another item belongs to the outer item if `allows_nested` is True. Otherwise the parser stops at it.
    """

    def __init__(self, on_item: Callable[[Element], None], *, allows_nested: bool = False) -> None:
        self.root: Element | None = None
        self.items = 0
        """Number of items that were passed on."""
        self.exceeded_limit = False
        """True if libxml2 stopped at one of its own limits."""
        self.found_nested_item = False
        """True if the parser stopped at an item within another item."""
        self._allows_nested = allows_nested
        self._on_item = on_item
        self._last: Element | None = None
        self._bytes_since_count = 0
        self._bytes_until_count = 0
        self._parser = etree.XMLPullParser(events=("start", "end"), tag=[*_ROOT_TAGS, *_ITEM_TAGS], **PARSER_OPTIONS)

    def feed_all(self, data: bytes) -> bool:
        """Parse a whole document. Return True if it has no syntax error."""
        for at in range(0, len(data), _PIECE):
            if not self._feed(data[at : at + _PIECE]):
                break
        is_faultless = self._close()
        self.exceeded_limit = any(entry.type in _LIMIT_ERRORS for entry in self._parser.feed_error_log)
        return is_faultless

    def _feed(self, piece: bytes) -> bool:
        """Parse the next piece. Return True if parsing must continue, and False at a nested item or a limit."""
        self._parser.feed(piece)
        self._consume()
        if self.found_nested_item:
            return False
        self._bytes_since_count += len(piece)
        if self.root is None:
            # The root element begins in the searched bytes (feed/document_syntax.py), but its tag may end later.
            return self._bytes_since_count <= SEARCH_MAX
        if len(piece) < _PIECE or self._bytes_since_count < self._bytes_until_count:
            return True
        size = float(str(_COUNT_NODES(self.root)))
        self._bytes_since_count, self._bytes_until_count = 0, int(size) * _BYTES_PER_NODE
        return size <= _TREE_MAX

    def _close(self) -> bool:
        """End the document. Return True if it has no syntax error."""
        try:
            self._parser.close()
        except etree.LxmlError:
            return False
        self._consume()
        self._drop(None)
        return all(entry.level < _ERROR_LEVEL for entry in self._parser.feed_error_log)

    def _consume(self) -> None:
        for event, element in () if self.found_nested_item else self._parser.read_events():
            if not isinstance(element, etree._Element):
                continue
            if self.root is None:
                if element.getparent() is not None:
                    continue
                self.root = element
            if qualified_name(element)[1] not in ITEMS:
                continue
            if event == "start":
                if not self._allows_nested and _is_within_another(element):
                    self.found_nested_item = True
                    return
            elif not _is_within_another(element):
                self.items += 1
                self._on_item(element)
                self._drop(element)

    def _drop(self, item: Element | None) -> None:
        # The parser may still need the current item, so the previous one is removed, and the last one at the end. lxml
        # searches all namespaces of the document for each element in a removed item, so the item is emptied first.
        if self._last is not None and (parent := self._last.getparent()) is not None:
            del self._last[:]
            parent.remove(self._last)
        self._last = item


def _is_within_another(element: Element) -> bool:
    return next(element.iterancestors(*_ITEM_TAGS), None) is not None


def attributes(element: Element) -> list[tuple[str, str]]:
    """Return the names and values of an element's first ATTRIBUTES_MAX attributes."""
    all_attributes = element.attrib
    if len(all_attributes) <= ATTRIBUTES_MAX:
        return [(str(key), str(value)) for key, value in all_attributes.items()]
    return [(str(key), element.get(key) or "") for key in itertools.islice(all_attributes, ATTRIBUTES_MAX)]


def attribute_of(element: Element, name: str) -> str:
    """Return the value of the attribute `name`, or "". Case is ignored, because some feeds have names in capitals."""
    value = element.get(name)
    if value is None and element.attrib:
        value = next((value for key, value in attributes(element) if key.lower() == name.lower()), None)
    return value or ""


def safe_length(data: bytes) -> int:
    """Return the number of bytes before the first construct that occurs only in attacks, or else the length of `data`.

    Such a construct is a huge tag, an attribute default in a document type, or a namespace declaration that exceeds a
    limit or refers to an entity. A huge tag would need much memory. A default would be added to every element.
    """
    tags_end, end = _safe_tags_length(data), _safe_namespaces_length(data)
    if end < len(data) == tags_end and data.find(b"<!DOCTYPE") < 0 and _has_only_safe_declarations(data):
        end = len(data)
    if (doctype := data.find(b"<!DOCTYPE", 0, end)) >= 0 and (declared := data.find(b"<!ATTLIST", doctype, end)) >= 0:
        end = declared
    return min(end, tags_end)


def _has_only_safe_declarations(data: bytes) -> bool:
    """Return True if a document is well-formed, and no namespace declaration in it exceeds a limit.

    The document is parsed, because `_safe_namespaces_length` also finds texts that only look like a declaration.
    """
    prefixes = 0

    def count_declarations(_: str, attributes: dict[str, str]) -> None:
        nonlocal prefixes
        names = [name for name in attributes if name.startswith("xmlns")]
        prefixes += sum(":" in name for name in names)
        if prefixes > _NAMESPACES_MAX or any(len(attributes[name].encode()) > _NAMESPACE_MAX for name in names):
            raise ValueError("a namespace declaration exceeds a limit")

    try:
        return is_well_formed(data, count_declarations)
    except ValueError:
        return False


def _safe_namespaces_length(data: bytes) -> int:
    """Return the offset of the first namespace declaration that exceeds a limit or refers to a declared entity, or the
    length of `data` if there is none."""
    at, prefixes, has_entities = 0, 0, None
    # Searching backwards takes a third of the time, and in most feeds the last declaration is near the beginning.
    last = data.rfind(b"xmlns") + len(b"xmlns")
    while (at := data.find(b"xmlns", at, last)) >= 0:
        match = _DECLARATION.match(data, at)
        if match is None:
            at += 5
            continue
        start, end = match.span("double") if match["double"] is not None else match.span("single")
        prefixes += match["prefix"] is not None
        if prefixes > _NAMESPACES_MAX or end - start > _NAMESPACE_MAX:
            return at
        if data.find(b"&", start, end) >= 0:
            if has_entities is None:
                has_entities = data.rfind(b"<!ENTITY") >= 0
            if has_entities:
                return at
        at = end
    return len(data)


def _safe_tags_length(data: bytes) -> int:
    at = 0
    while at + _TAG_CHECK_LENGTH <= len(data):
        tag_end = data.rfind(b">", at, at + _TAG_CHECK_LENGTH) + 1
        if tag_end:
            at = tag_end
            continue
        end = data.find(b">", at + _TAG_CHECK_LENGTH)
        end = len(data) if end < 0 else end
        if end - at > _TAG_MAX or data.count(b"<", at, end) > _OPEN_TAGS_MAX:
            return at
        at = end + 1
    return len(data)


def _is_displaced(data: bytes, start: int) -> bool:
    """Return True if text, or white space before an XML declaration, precedes the document (XML 1.0, section 2.1)."""
    return start > 0 and (data.startswith(b"<?xml", start) or not data[:start].isspace())


def qualified_name(element: Element) -> tuple[str, str]:
    """Return the namespace and the local name of an element.

    The namespace of an undeclared prefix is the customary one (_CUSTOMARY_PREFIXES), or else the prefix with its colon.
    """
    tag = element.tag
    if tag.startswith("{"):
        namespace, _, local = tag[1:].partition("}")
        return namespace, local
    prefix, colon, local = tag.partition(":")
    return (_CUSTOMARY_PREFIXES.get(prefix, prefix + ":"), local) if colon else ("", tag)


type Child = tuple[str, str, Element]
"""A child element with its namespace and local name."""


def children(element: Element) -> Iterator[Child]:
    for child in element.iterchildren("*"):
        yield *qualified_name(child), child


def named_children(parent: Element, name: str) -> list[Element]:
    """Return the child elements with this local name, in any case and any namespace. `name` must be in lower case."""
    return [child for _, local, child in children(parent) if local.lower() == name]


def is_itunes(namespace: str) -> bool:
    """Return True for the namespace of iTunes, in any spelling in use."""
    return namespace.partition(":")[2].lower() == _ITUNES


def text_of(element: Element) -> str:
    """Return all character data of an element, without surrounding white space.

    An HTML entity counts as its character even if undeclared: the DTD of RSS 0.91, which declares it, is not loaded.
    """
    if len(element) == 0:
        return (element.text or "").strip()
    pieces = (str(piece) for piece in element.itertext(etree.Element, etree.Entity))
    return "".join(unescape(piece) if _REFERENCE.fullmatch(piece) else piece for piece in pieces).strip()
