"""XML of strangers, read safely: no network, no DTD, no entities, bounded depth and size, no exceptions.

Feeds are often nearly well-formed, so libxml2 recovers what it can and `well_formed` says whether it had to.
What makes hostile documents harmless:

- entities stay references (resolve_entities) and external ones are never opened (load_dtd, no_network). In
  attribute values libxml2 expands entities nevertheless; its own limit of amplification holds as long as
  huge_tree is off. The same switch bounds depth (256 elements) and single texts (10 MB).
- documents are read in pieces, and `pass_over` lets go of every item once it was seen, so that the tree in
  memory is that of the channel without items.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from typing import cast

from lxml import etree

from feedproxy.feed.charset import Text, to_utf8
from feedproxy.feed.detect import Nature, beginning, nature_of_text

ATOM = "http://www.w3.org/2005/Atom"
ATOM03 = "http://purl.org/atom/ns#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
SY = "http://purl.org/rss/1.0/modules/syndication/"

type Element = etree._Element

_CUSTOMARY = {"atom": ATOM, "atom10": ATOM, "a10": ATOM, "rdf": RDF, "sy": SY}
"""What a prefix means where its declaration was forgotten."""

_PIECE = 64 * 1024
"""Bytes handed to the parser at once: most feeds are one piece, and items are let go of by the piece."""

_LONGEST_TAG = 1024 * 1024
"""Bytes. An attribute exists four times over while it is read, in libxml2 and in Python."""

_TOO_LONG = re.compile(rb"<[^<>]{%d}" % _LONGEST_TAG)

_REFERENCE = re.compile(r"&\w+;")

_ERROR = 2
"""etree.ErrorLevels.ERROR: from here on a document is not (namespace-)well-formed."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a tree."""

    root: Element
    well_formed: bool


def parse(body: bytes, charset: str | None = None) -> Document | None:
    """The whole tree, comments included; None where `body` is no XML (nothing, HTML, JSON, a picture)."""
    text = to_utf8(body, charset)
    if nature_of_text(text.data) is not Nature.XML:
        return None
    return _parse(text, _parser(()), None)


def pass_over(text: Text, items: tuple[str, ...], seen: Callable[[Element], None]) -> Document | None:
    """Call `seen` for every item once complete, then drop it; returns the tree without items.

    `items` are local names. An item must be read within the call: afterwards it is taken from the tree.
    An item within an item is part of it. Comments are left out. None where nothing could be made of `text`.
    """
    return _parse(text, _parser(items), seen)


def _parser(items: tuple[str, ...]) -> etree.XMLPullParser:
    return etree.XMLPullParser(
        events=("end",) if items else (),
        tag=[f"{{*}}{item}" for item in items] or None,
        encoding="utf-8",  # which overrules the declaration
        recover=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        huge_tree=False,
        remove_comments=bool(items),
    )


def _parse(
    text: Text, parser: etree.XMLPullParser, seen: Callable[[Element], None] | None
) -> Document | None:
    start = beginning(text.data) or 0
    end = _endurable(text.data)
    last: Element | None = None
    try:
        for piece in _pieces(text.data[:end], start):
            parser.feed(piece)
            last = _consume(parser, seen, last)
        root = cast("Element | None", parser.close())
        _consume(parser, seen, last)
    except etree.LxmlError:
        return None
    if root is None:
        return None
    faultless = all(entry.level < _ERROR for entry in parser.feed_error_log)
    well_formed = faultless and text.sound and end == len(text.data) and not _displaced(text.data, start)
    return Document(root, well_formed)


def _pieces(data: bytes, start: int) -> Iterator[bytes]:
    view = memoryview(data)
    for at in range(start, len(data), _PIECE):
        yield bytes(view[at : at + _PIECE])


def _endurable(data: bytes) -> int:
    """Where reading ends: before a tag so long that only an attack has it, else at the end."""
    if len(data) <= _LONGEST_TAG:
        return len(data)
    found = _TOO_LONG.search(data)
    return found.start() if found else len(data)


def _consume(
    parser: etree.XMLPullParser, seen: Callable[[Element], None] | None, last: Element | None
) -> Element | None:
    if seen is None:
        return None
    for _, element in parser.read_events():
        if not isinstance(element, etree._Element) or _is_within_another(element):
            continue
        seen(element)
        # The parser may still need the item itself; the one before it is free to go.
        if last is not None and (parent := last.getparent()) is not None:
            parent.remove(last)
        last = element
    return last


def _is_within_another(element: Element) -> bool:
    return next(element.iterancestors(element.tag), None) is not None


def _displaced(data: bytes, start: int) -> bool:
    """Something stands before the document that XML does not allow there.

    "document ::= prolog element Misc*", and the declaration comes first in the prolog (XML 1.0, 2.1).
    """
    return start > 0 and (data.startswith(b"<?xml", start) or not data[:start].isspace())


def name(element: Element) -> tuple[str, str]:
    """Namespace and local name. A prefix that was not declared counts as what it customarily stands for."""
    tag = element.tag
    if tag.startswith("{"):
        namespace, _, local = tag[1:].partition("}")
        return namespace, local
    prefix, colon, local = tag.partition(":")
    return (_CUSTOMARY.get(prefix, prefix + ":"), local) if colon else ("", tag)


def children(element: Element) -> Iterator[tuple[str, str, Element]]:
    """Namespace, local name and element of every child element."""
    for child in element.iterchildren("*"):
        yield *name(child), child


def text_of(element: Element) -> str:
    """All character data within, without white space around it; CDATA counts, comments do not.

    An entity of HTML (RSS 0.91 has them from a DTD, which is not read) counts as its character.
    """
    if len(element) == 0:
        return (element.text or "").strip()
    pieces = (str(piece) for piece in element.itertext(etree.Element, etree.Entity))
    return "".join(unescape(piece) if _REFERENCE.fullmatch(piece) else piece for piece in pieces).strip()
