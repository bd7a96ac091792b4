"""Content digest: two documents with the same digest have the same content.

These parts are not content: the channel's lastBuildDate, pubDate and updated, the generator, comments, white space
between elements, and the order of attributes and namespace declarations. The `source` of an Atom entry, which describes
the feed that the entry was taken from, is treated like a channel. In an aggregated feed, `source` changes with every
new entry of that other feed. The input of the digest is the sequence of an XML processor's events, with expanded names
and sorted attributes.

Computing the digest takes longer than the rest of parsing, and it is needed only when a second version has different
bytes. Until then, the hash of the bytes represents the digest (`pending_digest`).

A recovering parser may drop an item of an ill-formed document, even the new one. The digest of such a document is
therefore made from its text. The parts that are not content are found by pattern and left out.
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
"""Length of the digest, in bytes. Sixteen bytes exclude accidental collisions. Deliberate collisions do no harm: a
publisher that forces one hides only its own update."""

_PATTERN_SEARCH_MAX = 2 * 1024 * 1024
"""Maximum size of an ill-formed text that is searched by pattern, in bytes. The largest ill-formed feed of the
corpus has 0.4 MB."""

_ENCODING_PIECE = 256 * 1024
"""Number of characters that are encoded in one call. If a whole text of 12 MB were encoded in one call, it would be in
memory three times."""

# Characters that cannot occur in XML separate the parts of the digested text.
START, ATTRIBUTE, VALUE, TEXT, END, REFERENCE = "\0\1", "\0\2", "\0\3", "\0\4", "\0\5", "\0\6"

_SPACE_BETWEEN_TAGS = re.compile(rb">\s+<")
_FIRST_ITEM = re.compile(rb"<(?:[\w.\-]+:)?(?:item|entry)[\s/>]", re.IGNORECASE)
_VOLATILE_TEXT = re.compile(
    rb"<((?:[\w.\-]+:)?(?:" + "|".join(sorted(VOLATILE)).encode() + rb"))(?:\s[^<>]*)?(?:/>|>[^<]*(?:</\1\s*>)?)"
)


_PENDING = "bytes:"


def pending_digest(content_hash: str) -> str:
    """Return a marker that stands for the digest until the digest is computed. `content_hash` is the hash of the
    content's bytes.
    """
    return _PENDING + content_hash


def pending_hash(digest: str) -> str | None:
    """Return the content hash in a marker made by `pending_digest`. Return None for a computed digest."""
    return digest.removeprefix(_PENDING) if digest.startswith(_PENDING) else None


class ContentDigest:
    """Incremental digest of a well-formed feed: first of its items, then of its channel."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def add_item(self, item: Element) -> None:
        """Add a complete item."""
        parts: list[str] = []
        _add_element(item, parts, is_item=True)
        self._update(parts)

    def finish(self, root: Element) -> str:
        """Return the digest in hexadecimal. The items must have been removed from `root`."""
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
    """Return the digest of an ill-formed document in UTF-8.

    In a document above _PATTERN_SEARCH_MAX, the parts that are not content are not left out.
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
    """Return the digest of a JSON Feed. The order of members and white space are ignored."""
    stable = {key: value for key, value in feed.items() if key not in _VOLATILE_KEYS}
    return hashlib.blake2b(canonical_json(stable), digest_size=_DIGEST_BYTES).hexdigest()


def canonical_json(value: object) -> bytes:
    """Return a JSON value as JSON in UTF-8, with sorted members and without white space."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _add_channel(element: Element, parts: list[str], depth: int) -> None:
    """Append the channel, or the root element around the channel, to `parts`. Text directly in these two elements is
    not content.
    """
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
    """Append a processing instruction or an entity reference to `parts`. Comments are ignored."""
    if not isinstance(node, etree._Comment):
        parts += (REFERENCE, getattr(node, "target", ""), node.text or "")
