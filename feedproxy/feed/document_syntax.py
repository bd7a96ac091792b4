"""Detection of a document's syntax (XML, JSON, HTML) from its first bytes, whatever its media type."""

import re
from enum import StrEnum

from feedproxy.feed.encoding_detection import to_utf8

SEARCH_MAX = 64 * 1024
"""Number of bytes at the beginning that are searched for the root element. Comments such as licences can precede it."""

BEGINNING = SEARCH_MAX + 1024
"""Number of bytes from which the syntax is detected: SEARCH_MAX, and the rest of a root element's name."""

_SPACE = re.compile(rb"\s*")
_INVISIBLE = re.compile(rb"(?:\s|\0|\xc2\xa0|\xe2\x80\x8b|\xef\xbb\xbf)*")
"""Pattern of white space, and of characters that many publishers send before a feed by mistake: NUL, no-break space,
zero-width space, and further byte order marks. Such marks come from scripts that consist of several files."""
_JSON_START = re.compile(rb"(?:\s|\xef\xbb\xbf)*+[{\[]")
_PROLOG = re.compile(rb"(?:\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*", re.DOTALL | re.IGNORECASE)
_HTML_DOCTYPE = re.compile(rb"<!doctype\s+html\b", re.IGNORECASE)
_HTML_ROOT = re.compile(rb"<(?:html|head|body|script|meta|title|frameset)[\s/>]", re.IGNORECASE)
_HTML_PIECE = re.compile(rb"</?(?:html|body|div|p|br|b|h1|center|table|span)[\s/>]", re.IGNORECASE)
_XML_START = re.compile(rb"<(?:!DOCTYPE\b|[A-Za-z_:\x80-\xff])")
_FEED_ROOT = re.compile(rb"<(?:[A-Za-z_][\w.\-]*:)?(?:rss|feed|rdf|opml|redirect)[\s/>]", re.IGNORECASE)
_HIDDEN_START = re.compile(rb"<\?xml\s|" + _FEED_ROOT.pattern, re.IGNORECASE)


class DocumentSyntax(StrEnum):
    """Syntaxes of documents. A document in XML or JSON can be a feed."""

    EMPTY = "empty"
    XML = "xml"
    JSON = "json"
    HTML = "html"
    OTHER = "other"


def detect_syntax(body: bytes) -> DocumentSyntax:
    """Return the syntax of a document in any encoding, from its first 65 KiB."""
    return detect_utf8_syntax(to_utf8(body[:BEGINNING]).data)


def detect_utf8_syntax(data: bytes) -> DocumentSyntax:
    if not data[:SEARCH_MAX].strip(b"\0 \t\r\n\f\v"):
        return DocumentSyntax.EMPTY
    if _JSON_START.match(data):
        return DocumentSyntax.JSON
    start = find_document_start(data)
    if start is None:
        return DocumentSyntax.HTML if _HTML_PIECE.search(data, 0, SEARCH_MAX) else DocumentSyntax.OTHER
    return DocumentSyntax.HTML if _is_html(data, start) else DocumentSyntax.XML


def find_document_start(data: bytes) -> int | None:
    """Return the offset of the XML or HTML document in `data` (UTF-8), or None if `data` contains neither.

    White space or other text, such as a program's warning, can precede the document.
    """
    start = _skip_space(data)
    root = skip_prolog(data, start)
    if _is_html(data, start):
        return start
    if _XML_START.match(data, root) and not _HTML_PIECE.match(data, root):
        return start
    hidden = _HIDDEN_START.search(data, 0, SEARCH_MAX)
    if hidden is None or _HTML_ROOT.search(data, 0, hidden.start()):
        return None
    return hidden.start()


def has_text_before_document(data: bytes) -> bool:
    """Return True if visible text precedes the XML or HTML document in `data` (UTF-8)."""
    start = find_document_start(data)
    return start is not None and not _INVISIBLE.fullmatch(data, 0, start)


def _is_html(data: bytes, start: int) -> bool:
    root = skip_prolog(data, start)
    if _HTML_ROOT.match(data, root):
        return True
    # A feed may have a wrong document type. Any other document with the document type of HTML is a page.
    return bool(_HTML_DOCTYPE.search(data, start, root)) and not _FEED_ROOT.match(data, root)


def _skip_space(data: bytes) -> int:
    match = _SPACE.match(data)
    return match.end() if match else 0


def skip_prolog(data: bytes, start: int) -> int:
    """Return the offset of the root element: the end of the prolog that begins at `start`."""
    match = _PROLOG.match(data, start, SEARCH_MAX)
    return match.end() if match else start
