"""Text that can be HTML: detection, conversion to plain text, and resolution of links."""

import re
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from html import escape, unescape
from urllib.parse import quote, urljoin, urlsplit

from lxml import etree

from feedproxy.feed.convert.model import Text
from feedproxy.feed.convert.namespaces import XHTML, XML
from feedproxy.feed.xml_parser import Element, text_of
from feedproxy.feed.xml_well_formedness import valid_text

_ELEMENTS = (
    "a abbr acronym address area article aside audio b base bdi bdo big blockquote body br button canvas caption "
    "center cite code col colgroup dd del details dfn div dl dt em embed fieldset figcaption figure font footer form "
    "frame h1 h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd label legend li link main map mark math "
    "menu meta meter nav nobr noscript object ol optgroup option p param picture pre progress q rp rt ruby s samp "
    "script section select small source span strike strong style sub summary sup svg table tbody td textarea tfoot th "
    "thead time title tr track tt u ul var video wbr"
)
_TAG = re.compile(rf"</?(?:{_ELEMENTS.replace(' ', '|')})(?:[\s/][^<>]*)?>|<(?:a|img|iframe)\s|<!--", re.IGNORECASE)
"""Pattern of an HTML tag. It does not match `List<String>`, which occurs in titles."""

_ANY_TAG = re.compile(r"<(?:!--.*?(?:-->|\Z)|/?[a-zA-Z][^<>]*>)", re.DOTALL)
_SILENT = re.compile(r"<(script|style|template|noscript)\b.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_BREAK = re.compile(
    r"<(?:/?(?:p|div|li|tr|h[1-6]|ul|ol|table|blockquote|pre|section|article)\b|br\b)[^<>]*>", re.IGNORECASE
)
_ATTRIBUTE = re.compile(r"""([^\s/>][^\s/>=]*+)(?:(\s*+=\s*+)("[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\s>]*+))?+""")
_START = re.compile(rf"<[a-zA-Z][^\s/>]*+((?:[\s/]++|{_ATTRIBUTE.pattern})*+)")
"""Pattern of a start tag up to the closing `>`, as a browser reads it (HTML, section 13.2.5)."""
_ADDRESSES = frozenset(["href", "src", "srcset", "poster", "cite", "longdesc", "background", "data", "action"])
_IMAGE = re.compile(r"([^\s,]\S*?)(,(?=\s|\Z)|\s[^,]*+|\Z)")
"""Pattern of one image in the attribute `srcset`: its address, and the descriptors or the comma after the address."""
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*:")
_NOT_IN_IRI = re.compile(r'[\s<>"{}|\\^`]')
_LINE_BREAKS = re.compile(r"[\t\r\n]")
_quote = lru_cache(64)(quote)  # an address may have a million of the few characters in _NOT_IN_IRI

_PLAIN_MAX = 2 * 1024 * 1024
"""At most this many characters of one text are searched by pattern: ten times the largest item of the test corpus.
`to_plain` cuts a longer text, and `resolve_html` leaves it unchanged."""


_NAMESPACES_TIMES_ELEMENTS = 100_000
"""Maximum product of the namespaces and the child elements of one text. A text above this limit loses its markup.

Each child element is serialised with all namespaces, so the product determines the size of the result.
"""


def _unescape(value: str) -> str:
    """Return the text with references replaced, or unchanged if a reference has thousands of digits."""
    try:
        return unescape(value)
    except ValueError:
        return value


def make_text(value: str, *, is_html: bool) -> Text | None:
    """Return the value as a text of the model, or None if it is empty. HTML without a tag becomes plain text."""
    value = valid_text(value).strip()
    if not value:
        return None
    if is_html and not _TAG.search(value):
        value, is_html = _unescape(value).strip(), False
    return Text(valid_text(value), "html" if is_html else "text") if value else None


def as_html(text: Text) -> str:
    """Return the text as HTML. Line breaks do not become `<br>`."""
    return text.value if text.type == "html" else escape(text.value, quote=False)


def escape_ambiguous(text: Text) -> str:
    """Return the text for an element that can contain plain text or HTML, such as RSS's description.

    Plain text that looks like HTML is escaped.
    """
    if text.type == "html" or (not _TAG.search(text.value) and _unescape(text.value) == text.value):
        return text.value
    return escape(text.value, quote=False)


def to_plain(text: Text | None) -> str:
    """Return the text without markup, or "" for None. Paragraphs become lines."""
    if text is None:
        return ""
    if text.type != "html":
        return text.value
    value = _SILENT.sub("", text.value[:_PLAIN_MAX])
    value = _unescape(_ANY_TAG.sub("", _BREAK.sub("\n", re.sub(r"[ \t\r\n]+", " ", value))))
    lines = (" ".join(line.split()) for line in value.split("\n"))
    return valid_text("\n".join(line for line in lines if line))


def to_line(text: Text | None) -> str:
    """Return the text in one line, without markup, or "" for None."""
    return " ".join(to_plain(text).split())


def resolve(base: str, reference: str) -> str:
    """Return `reference` resolved against `base` (RFC 3986, section 5), or `reference` itself if `base` is empty.

    In an absolute address, characters that an IRI must not have are percent-encoded. Line breaks and tabs are dropped.
    """
    address = _join(base, reference)
    if not _SCHEME.match(address) or is_iri(address):
        return address
    return _NOT_IN_IRI.sub(_percent_encode, _LINE_BREAKS.sub("", address))


def _percent_encode(found: re.Match[str]) -> str:
    return _quote(found[0])


def _join(base: str, reference: str) -> str:
    reference = valid_text(reference).strip()
    if not base or not reference or _SCHEME.match(reference):
        return reference
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference


def resolve_html(base: str, html: str) -> str:
    """Return the HTML with absolute addresses, or unchanged if `base` is "" or the HTML is longer than _PLAIN_MAX."""
    if not base or len(html) > _PLAIN_MAX:
        return html

    def resolve_tag(tag: re.Match[str]) -> str:
        start = tag.start(1) - tag.start()
        return tag[0][:start] + _ATTRIBUTE.sub(resolve_attribute, tag[1]) if "=" in tag[1] else tag[0]

    def resolve_attribute(attribute: re.Match[str]) -> str:
        name, equals, written = attribute.groups()
        resolved = _resolve_written(base, name, written) if written and name.lower() in _ADDRESSES else None
        return attribute[0] if resolved is None else f"{name}{equals}{resolved}"

    return _START.sub(resolve_tag, html)


def _resolve_written(base: str, attribute: str, written: str) -> str | None:
    """Return an attribute's value as HTML with absolute addresses, or None to leave it unchanged. `written` is the
    value as in the HTML, with its quotation marks."""
    quote = written[0] if written[0] in "\"'" else ""
    if quote and not (len(written) > 1 and written.endswith(quote)):
        return None  # the tag has no end
    inside = written.strip(quote) if quote else written
    value = _unescape(inside).strip()
    absolute = _resolve_value(base, attribute, value)
    if absolute == value or not (quote or re.fullmatch(r"\S+", absolute)):
        return None
    replacement = absolute.replace("&", "&amp;")
    # The match may lie in a comment or in the value of another attribute. With more or fewer of these characters, that
    # comment or value could end elsewhere, and its text would become tags or attributes.
    for mark in "\"'<>":
        if mark not in inside:
            replacement = replacement.replace(mark, f"&#{ord(mark)};")
        elif replacement.count(mark) != inside.count(mark):
            return None
    return f"{quote}{replacement}{quote}"


def _resolve_value(base: str, attribute: str, value: str) -> str:
    if attribute.lower() == "srcset":
        return _IMAGE.sub(lambda image: _join(base, image[1]) + image[2], value)
    return value if value.startswith("#") else _join(base, value)


def is_web(address: str) -> bool:
    """Return True for an http or https address."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.netloc)


def is_iri(address: str) -> bool:
    """Return True for an IRI as Atom requires it: it has a scheme, and no spaces or other forbidden characters."""
    return bool(_SCHEME.match(address)) and not _NOT_IN_IRI.search(address)


def inner_html(element: Element, base: str) -> str:
    """Return the content of an element as HTML with absolute addresses. `base` is the base URI of the element. If the
    element has no child elements, its text is the HTML."""
    return resolve_html(base, _inner_html(element, base))


def _inner_html(element: Element, base: str) -> str:
    if not any(isinstance(child.tag, str) for child in element):
        return text_of(element)
    copy = deepcopy(element)
    copy.tail = None
    # HTML elements in the format's own namespace occur when the publisher forgot a declaration. A recovered document
    # may have tags with an undeclared prefix, which etree.QName refuses.
    html = {f"{{{XHTML}", element.tag.rpartition("}")[0] or f"{{{XHTML}"}
    for child in copy.iter("*"):
        namespace, _, name = child.tag.rpartition("}")
        if namespace in html:
            with suppress(ValueError):  # the name is invalid, such as `b:` in a recovered document
                child.tag = name
    _resolve_by_bases_of_elements(copy, base)
    etree.cleanup_namespaces(copy)
    divs = copy.xpath("self::*[count(*)=1]/div[not(preceding-sibling::text()[normalize-space()])]")
    if isinstance(divs, list) and divs and isinstance(divs[0], etree._Element) and not divs[0].attrib:
        copy = divs[0]
    if len(copy) * len(copy.nsmap) > _NAMESPACES_TIMES_ELEMENTS:
        return escape(text_of(element), quote=False)
    pieces = [escape(copy.text or "", quote=False)]
    pieces += [etree.tostring(child, encoding="unicode", method="html") for child in copy]
    return "".join(pieces).strip()


def _resolve_by_bases_of_elements(parent: Element, base: str) -> None:
    """Resolve the addresses in elements with an xml:base. Remove the xml:base, which HTML lacks."""
    if not parent.xpath("boolean(.//@xml:base)"):
        return
    bases: dict[Element | None, str] = {}
    for element in parent.iterdescendants("*"):
        outer = bases.get(element.getparent(), base)
        own = element.attrib.pop(f"{{{XML}}}base", "")
        bases[element] = resolve(outer, str(own)) if own else outer
        if bases[element] != base:
            for name, value in element.attrib.items():
                if str(name).lower() in _ADDRESSES:
                    element.set(name, _resolve_value(bases[element], str(name), str(value).strip()))


def inner_xml(element: Element) -> str:
    """Return the content of an element as XML, or its text if it has no child elements."""
    if not any(isinstance(child.tag, str) for child in element):
        return text_of(element)
    pieces = [escape(element.text or "", quote=False)]
    # A copy of a child element declares only the namespaces that the child uses.
    pieces += [etree.tostring(deepcopy(child), encoding="unicode") for child in element]
    return "".join(pieces)
