"""Content digest: documents with the same digest have the same content.

Dates of the channel, the generator, comments, white space between elements, the order of attributes, and namespace
prefixes are not content. Computing a digest is slow, so a hash of the bytes (`pending_digest`) stands for the digest
until a second version arrives.
"""

import hashlib
import json
import re

from lxml import etree

from feedproxy.feed.xml_parser import Element, attributes, qualified_name

VOLATILE = frozenset(
    # RSS; Atom 1.0; Atom 0.3; RSS 1.0: dc:date, admin:generatorAgent.
    ("lastBuildDate", "pubDate", "updated", "generator", "modified", "date", "generatorAgent")
)
_VOLATILE_ATTRIBUTES = frozenset(("LASTMOD", "lastmod"))  # attributes of CDF's channel
_VOLATILE_KEYS = frozenset(("generator", "date_modified", "updated"))  # these members are not in JSON Feed, but occur

_NON_ELEMENTS = (etree._Comment, etree._ProcessingInstruction, etree._Entity)

_DIGEST_BYTES = 16
"""Length of the digest, in bytes. Accidental collisions are practically impossible. A deliberate collision hides only
the publisher's own update."""

_PATTERN_SEARCH_MAX = 2 * 1024 * 1024
"""Maximum size, in bytes, of an ill-formed document in which the parts that are not content are searched for.

In a larger document, the search would take too long, so the digest includes these parts. The largest ill-formed
document in the test corpus has 0.4 MB.
"""

_ENCODING_PIECE = 256 * 1024
"""This many characters of a text are encoded in one call, which limits the memory for a large text."""

# Characters that cannot occur in XML separate the parts of the digested text.
START, ATTRIBUTE, VALUE, TEXT, END, REFERENCE = "\0\1", "\0\2", "\0\3", "\0\4", "\0\5", "\0\6"

_SPACE_BETWEEN_TAGS = re.compile(rb">\s+<")
_FIRST_ITEM = re.compile(rb"<(?:[\w.\-]+:)?(?:item|entry)[\s/>]", re.IGNORECASE)
_VOLATILE_TEXT = re.compile(
    rb"<((?:[\w.\-]+:)?(?:" + "|".join(sorted(VOLATILE)).encode() + rb"))(?:\s[^<>]*)?(?:/>|>[^<]*(?:</\1\s*>)?)"
)


_PENDING = "bytes:"


def pending_digest(content_hash: str) -> str:
    """Return a marker that stands for a digest that is not computed. `content_hash` is a hash of the bytes."""
    return _PENDING + content_hash


def pending_hash(digest: str) -> str | None:
    """Return the content hash of a marker from `pending_digest`, or None for a computed digest."""
    return digest.removeprefix(_PENDING) if digest.startswith(_PENDING) else None


class ContentDigest:
    """Incremental digest of a well-formed feed. All items are added first. `finish` adds the channel."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def add_item(self, item: Element) -> None:
        parts: list[str] = []
        _add_element(item, parts, is_item=True)
        self._update(parts)

    def finish(self, root: Element) -> str:
        """Return the digest in hexadecimal. The caller has removed the items from `root`."""
        parts: list[str] = []
        for before in root.itersiblings(preceding=True):
            _add_non_element(before, parts)
        _add_channel(root, parts, depth=0)
        self._update(parts)
        return self._hash.hexdigest()

    def _update(self, parts: list[str]) -> None:
        if sum(map(len, parts)) <= _ENCODING_PIECE:
            self._hash.update("".join(parts).encode("utf-8", "surrogatepass"))
            return
        for part in parts:
            for at in range(0, len(part), _ENCODING_PIECE):
                self._hash.update(part[at : at + _ENCODING_PIECE].encode("utf-8", "surrogatepass"))


def digest_of_text(data: bytes) -> str:
    """Return the digest of an ill-formed document in UTF-8. Patterns find the parts that are not content.

    A document of more than _PATTERN_SEARCH_MAX bytes is digested as a whole.
    """
    if len(data) > _PATTERN_SEARCH_MAX:
        return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
    data = _strip_comments(data)
    first = _FIRST_ITEM.search(data)
    head, items = (data[: first.start()], data[first.start() :]) if first else (data, b"")
    text = _SPACE_BETWEEN_TAGS.sub(b"><", _VOLATILE_TEXT.sub(b"", head) + items)
    return hashlib.blake2b(text.strip(), digest_size=_DIGEST_BYTES).hexdigest()


def _strip_comments(data: bytes) -> bytes:
    parts, at = [], 0
    # A pattern would search the rest of the document for the end of each unclosed comment, of which there may be many.
    while (start := data.find(b"<!--", at)) >= 0 and (end := data.find(b"-->", start + 4)) >= 0:
        parts.append(data[at:start])
        at = end + 3
    return b"".join((*parts, data[at:]))


def digest_of_json(feed: dict[str, object]) -> str:
    """Return the digest of a JSON Feed. The feed's dates and generator, and the order of members, have no effect."""
    stable = {key: value for key, value in feed.items() if key not in _VOLATILE_KEYS}
    return hashlib.blake2b(canonical_json(stable), digest_size=_DIGEST_BYTES).hexdigest()


def canonical_json(value: object) -> bytes:
    """Return a JSON value as JSON in UTF-8, with sorted members and without white space."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _add_channel(element: Element, parts: list[str], depth: int) -> None:
    _add_start(element, parts, without=_VOLATILE_ATTRIBUTES)
    for child in element:
        if isinstance(child, _NON_ELEMENTS):
            _add_non_element(child, parts)
            continue
        local = qualified_name(child)[1]
        if local in VOLATILE:
            continue
        if depth == 0 and local == "channel":
            _add_channel(child, parts, depth=1)
        else:
            _add_element(child, parts)
    parts.append(END)


def _add_element(element: Element, parts: list[str], *, is_item: bool = False) -> None:
    _add_start(element, parts)
    leaf = len(element) == 0
    _add_text(element.text, parts, between=not leaf)
    for child in element:
        if isinstance(child, _NON_ELEMENTS):
            _add_non_element(child, parts)
        elif is_item and len(child) and qualified_name(child)[1] == "source":
            _add_channel(child, parts, depth=1)
        else:
            _add_element(child, parts)
        _add_text(child.tail, parts, between=True)
    parts.append(END)


def _add_start(element: Element, parts: list[str], without: frozenset[str] = frozenset()) -> None:
    parts.append(START)
    parts.append(element.tag)
    if element.attrib:
        for key, value in sorted(attributes(element)):
            if key not in without:
                parts += (ATTRIBUTE, key, VALUE, value)


def _add_text(text: str | None, parts: list[str], *, between: bool) -> None:
    if text and not (between and text.isspace()):
        parts += (TEXT, text)


def _add_non_element(node: Element, parts: list[str]) -> None:
    if not isinstance(node, etree._Comment):
        parts += (REFERENCE, getattr(node, "target", ""), node.text or "")
