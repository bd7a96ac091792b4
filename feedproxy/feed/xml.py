"""XML of strangers, read safely: no network, no DTD, no entities, bounded depth and size, no exceptions.

Feeds are often nearly well-formed, so libxml2 recovers what it can and `well_formed` says whether it had to.
What makes hostile documents harmless:

- entities stay references (resolve_entities) and external ones are never opened (load_dtd, no_network). In
  attribute values libxml2 expands entities nevertheless; its own limit of amplification holds as long as
  huge_tree is off. The same switch bounds depth (256 elements) and single texts (10 MB).
- documents are read in pieces, and `pass_over` lets go of every item once it was seen, so that the tree in
  memory is that of the channel without items. Where that grows beyond reason, reading ends.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from itertools import islice
from typing import Any

from lxml import etree

from feedproxy.feed.charset import Utf8Text
from feedproxy.feed.detect import find_document_start

ATOM = "http://www.w3.org/2005/Atom"
ATOM03 = "http://purl.org/atom/ns#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
SY = "http://purl.org/rss/1.0/modules/syndication/"

type Element = etree._Element

_CUSTOMARY_PREFIXES = {"atom": ATOM, "atom10": ATOM, "a10": ATOM, "rdf": RDF, "sy": SY}
"""What a prefix means where its declaration was forgotten."""

_SMALL_DOCUMENT_MAX = 256 * 1024
"""Bytes of a document that may be a tree as a whole: most feeds, in a third of the time."""

_PIECE = 64 * 1024
"""Bytes handed to the parser at once: most feeds are one piece, and items are let go of by the piece."""

_TAG_CHECK_LENGTH = 256 * 1024
"""Bytes without a `>`: from here on a tag is looked at more closely."""

_TAG_MAX = 4 * 1024 * 1024
"""Bytes. Pictures are embedded in attributes; and an attribute exists four times over while it is read."""

_OPEN_TAGS_MAX = 10_000
"""Tags that may begin before one ends: in sound XML a second `<` is in CDATA or a comment only."""

_TREE_MAX = 100_000
"""Nodes and attributes that are kept, items not counted. The largest known channel has a few hundred."""

_BYTES_PER_NODE = 8
"""Bytes that are read for each node of the tree before its size is looked at again: so looking takes a small part of
the time of reading, however large the tree."""

ATTRIBUTES_MAX = 256
"""Attributes of one element that are looked at, the first ones: lxml seeks the value of each from the first one on.
Known feeds have a dozen."""

_NAMESPACE_MAX = 256
"""Bytes of a namespace's name: each element of it repeats it in full. Known ones have less than a hundred."""

_NAMESPACES_MAX = 10_000
"""Declarations of prefixes in one document. Those that declare them anew in each entry have some thousands."""

_DECLARATION = re.compile(
    rb"""xmlns(?P<prefix>:[^\s=<>"'/]*+)?+\s*+=\s*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)')"""
)

_COUNT_NODES = etree.XPath("count(//node()) + count(//@*)")

ROOTS = ("rss", "RSS", "rdf", "RDF", "feed", "channel", "Channel", "CHANNEL", "rdf:RDF")
ITEMS = ("item", "entry", "Item", "ITEM")
_ROOT_TAGS = [f"{{*}}{name}" for name in ROOTS]
_ITEM_TAGS = [f"{{*}}{name}" for name in ITEMS]
_ROOT_NAMES = frozenset(ROOTS)

_PARSER_OPTIONS: dict[str, Any] = {
    "encoding": "utf-8",  # which overrules the declaration
    "recover": True,
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "dtd_validation": False,
    "attribute_defaults": False,
    "huge_tree": False,
    "remove_comments": True,
}

_REFERENCE = re.compile(r"&\w+;")

_ERROR_LEVEL = 2
"""etree.ErrorLevels.ERROR: from here on a document is not (namespace-)well-formed."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a tree, without its items."""

    root: Element
    well_formed: bool


@dataclass(frozen=True, slots=True)
class SmallDocument:
    """A document and its items. They are in its tree until `strip` is called, and gone afterwards."""

    document: Document
    items: list[Element]

    def strip(self) -> None:
        """Leave what `pass_over` leaves: the channel without items."""
        etree.strip_elements(self.document.root, *_ITEM_TAGS, with_tail=True)


def parse_small(text: Utf8Text) -> SmallDocument | None:
    """What `pass_over` gives, in one go, of a small document in which nothing is uncommon; else None.

    Uncommon is whatever the two could see differently: a fault, a document type, items in two places or in one
    another.
    """
    data = text.data
    start = find_document_start(data) or 0
    if len(data) > _SMALL_DOCUMENT_MAX or not text.sound or data.rfind(b"<!DOCTYPE") >= 0 or _is_displaced(data, start):
        return None
    if _safe_namespaces_length(data) < len(data):
        return None
    parser = etree.XMLParser(**_PARSER_OPTIONS)
    try:
        root = etree.fromstring(data[start:], parser)
    except (etree.LxmlError, ValueError):
        return None
    if (
        root is None
        or qualified_name(root)[1] not in _ROOT_NAMES
        or any(entry.level >= _ERROR_LEVEL for entry in parser.error_log)
    ):
        return None
    items = list(root.iter(*_ITEM_TAGS))
    if items:
        parent = items[0].getparent()
        if parent is None or len(list(parent.iterchildren(items[0].tag))) < len(items):
            return None
    return SmallDocument(Document(root, well_formed=True), items)


def parse_streaming(text: Utf8Text, on_item: Callable[[Element], None]) -> Document | None:
    """Call `seen` for every item once complete, then drop it; returns the tree without items.

    An item must be read within the call: afterwards it is taken from the tree. An item within an item is part
    of it. Comments are left out. None where the root element is that of no feed.
    """
    start = find_document_start(text.data) or 0
    end = safe_length(text.data)
    parser = _StreamParser(on_item)
    view = memoryview(text.data)[:end]
    for at in range(start, end, _PIECE):
        if not parser.feed(bytes(view[at : at + _PIECE])):
            break
    faultless = parser.close()
    if parser.root is None:
        return None
    whole = end == len(text.data) and text.sound and not _is_displaced(text.data, start)
    return Document(parser.root, well_formed=faultless and whole)


class _StreamParser:
    """One document on its way through the parser."""

    def __init__(self, on_item: Callable[[Element], None]) -> None:
        self.root: Element | None = None
        self._on_item = on_item
        self._last: Element | None = None
        self._bytes_since_count = 0
        self._bytes_until_count = 0
        self._parser = etree.XMLPullParser(events=("start", "end"), tag=[*_ROOT_TAGS, *_ITEM_TAGS], **_PARSER_OPTIONS)

    def feed(self, piece: bytes) -> bool:
        """Take the next piece; False when no more is wanted."""
        self._parser.feed(piece)
        self._consume()
        if self.root is None:
            # Prologs longer than a piece are possible, but the prologs of feeds are not (feed/detect.py).
            return False
        self._bytes_since_count += len(piece)
        if len(piece) < _PIECE or self._bytes_since_count < self._bytes_until_count:
            return True
        size = float(str(_COUNT_NODES(self.root)))
        self._bytes_since_count, self._bytes_until_count = 0, int(size) * _BYTES_PER_NODE
        return size <= _TREE_MAX

    def close(self) -> bool:
        """The end of the document; whether there was no fault in it."""
        try:
            self._parser.close()
        except etree.LxmlError:
            return False
        self._consume()
        self._drop(None)
        return all(entry.level < _ERROR_LEVEL for entry in self._parser.feed_error_log)

    def _consume(self) -> None:
        for event, element in self._parser.read_events():
            if not isinstance(element, etree._Element):
                continue
            if self.root is None:
                if element.getparent() is not None:
                    continue
                self.root = element
            if event == "end" and qualified_name(element)[1] in ITEMS and not _is_within_another(element):
                self._on_item(element)
                self._drop(element)

    def _drop(self, item: Element | None) -> None:
        # The parser may still need the item itself; the one before it is free to go, and the last one at the end.
        if self._last is not None and (parent := self._last.getparent()) is not None:
            parent.remove(self._last)
        self._last = item


def _is_within_another(element: Element) -> bool:
    return next(element.iterancestors(element.tag), None) is not None


def attributes(element: Element) -> list[tuple[str, str]]:
    """Names and values of an element's attributes, the first ATTRIBUTES_MAX of them."""
    found = element.attrib
    if len(found) <= ATTRIBUTES_MAX:
        return [(str(key), str(value)) for key, value in found.items()]
    return [(str(key), element.get(key) or "") for key in islice(found, ATTRIBUTES_MAX)]


def safe_length(data: bytes) -> int:
    """Where reading ends: before what only an attack has, else at the end.

    A parser waits for the `>` of a tag, holds everything up to there, and then does all at once what it was
    to do piece by piece. What an internal subset says of attributes would be said of every element again.
    """
    end = _safe_namespaces_length(data)
    if (doctype := data.find(b"<!DOCTYPE", 0, end)) >= 0 and (declared := data.find(b"<!ATTLIST", doctype, end)) >= 0:
        end = declared
    return min(end, _safe_tags_length(data))


def _safe_namespaces_length(data: bytes) -> int:
    """The offset of the first declaration of a namespace that is one too many, or too long."""
    at, prefixes, has_entities = 0, 0, None
    # Searched from the end, bytes are found in a third of the time; and in most feeds the last is near the beginning.
    last = data.rfind(b"xmlns") + len(b"xmlns")
    while (at := data.find(b"xmlns", at, last)) >= 0:
        found = _DECLARATION.match(data, at)
        if found is None:
            at += 5
            continue
        start, end = found.span("double") if found["double"] is not None else found.span("single")
        prefixes += found["prefix"] is not None
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
        behind = data.rfind(b">", at, at + _TAG_CHECK_LENGTH) + 1
        if behind:
            at = behind
            continue
        end = data.find(b">", at + _TAG_CHECK_LENGTH)
        end = len(data) if end < 0 else end
        if end - at > _TAG_MAX or data.count(b"<", at, end) > _OPEN_TAGS_MAX:
            return at
        at = end + 1
    return len(data)


def _is_displaced(data: bytes, start: int) -> bool:
    """Something stands before the document that XML does not allow there.

    "document ::= prolog element Misc*", and the declaration comes first in the prolog (XML 1.0, 2.1).
    """
    return start > 0 and (data.startswith(b"<?xml", start) or not data[:start].isspace())


def qualified_name(element: Element) -> tuple[str, str]:
    """Namespace and local name. A prefix that was not declared counts as what it customarily stands for."""
    tag = element.tag
    if tag.startswith("{"):
        namespace, _, local = tag[1:].partition("}")
        return namespace, local
    prefix, colon, local = tag.partition(":")
    return (_CUSTOMARY_PREFIXES.get(prefix, prefix + ":"), local) if colon else ("", tag)


def children(element: Element) -> Iterator[tuple[str, str, Element]]:
    """Namespace, local name and element of every child element."""
    for child in element.iterchildren("*"):
        yield *qualified_name(child), child


def text_of(element: Element) -> str:
    """All character data within, without white space around it; CDATA counts, comments do not.

    An entity of HTML (RSS 0.91 has them from a DTD, which is not read) counts as its character.
    """
    if len(element) == 0:
        return (element.text or "").strip()
    pieces = (str(piece) for piece in element.itertext(etree.Element, etree.Entity))
    return "".join(unescape(piece) if _REFERENCE.fullmatch(piece) else piece for piece in pieces).strip()
