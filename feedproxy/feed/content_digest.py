"""What two documents must have in common to say the same: the content digest.

Content change means everything but the channel's lastBuildDate, pubDate and updated, the generator,
comments, white space between elements, and the order of attributes and namespace declarations. (The `source` of
an Atom entry is such a channel too: where entries are collected, it changes whenever another entry of it does.)
So what is digested is not the bytes but what an XML processor reports of them, with names in full (prefixes are the
writer's business) and attributes sorted.

It takes longer than all other reading together, and is of use only once there is a second version whose bytes differ.
So what is met for the first time goes by its bytes (`of_bytes`) until then.

An ill-formed document has no such report: a parser that recovers may have dropped the very item that
is new. There the text itself is digested, with the same things cut out of it by pattern.
"""

import hashlib
import json
import re

from lxml import etree

from feedproxy.feed.xml import Element, attributes, qualified_name

VOLATILE = frozenset(
    # RSS; Atom 1.0; Atom 0.3; and what RSS 1.0 has in their place: dc:date, admin:generatorAgent.
    ("lastBuildDate", "pubDate", "updated", "generator", "modified", "date", "generatorAgent")
)
_VOLATILE_ATTRIBUTES = frozenset(("LASTMOD", "lastmod"))  # of CDF's channel
_VOLATILE_KEYS = frozenset(("generator", "date_modified", "updated"))  # no part of JSON Feed, yet written

_NON_ELEMENTS = (etree._Comment, etree._ProcessingInstruction, etree._Entity)

_DIGEST_BYTES = 16
"""Bytes of the digest: nobody gains by a collision but a publisher who hides his own news."""

_PATTERN_SEARCH_MAX = 2 * 1024 * 1024
"""Bytes of ill-formed text that are searched by pattern. The largest such feed of the corpus has 0.4 MB."""

_ENCODING_PIECE = 256 * 1024
"""Characters encoded at once, so that a text of 12 MB is not held three times over."""

# Characters that cannot occur in XML keep the parts of the digested text apart.
START, ATTRIBUTE, VALUE, TEXT, END, REFERENCE = "\0\1", "\0\2", "\0\3", "\0\4", "\0\5", "\0\6"

_SPACE_BETWEEN_TAGS = re.compile(rb">\s+<")
_FIRST_ITEM = re.compile(rb"<(?:[\w.\-]+:)?(?:item|entry)[\s/>]", re.IGNORECASE)
_VOLATILE_TEXT = re.compile(
    rb"<((?:[\w.\-]+:)?(?:" + "|".join(sorted(VOLATILE)).encode() + rb"))(?:\s[^<>]*)?(?:/>|>[^<]*(?:</\1\s*>)?)"
)


_PENDING = "bytes:"


def pending_digest(content_hash: str) -> str:
    """Stands for the digest of a content that is kept under this tag, until somebody reckons it."""
    return _PENDING + content_hash


def pending_hash(digest: str) -> str | None:
    """The tag under which the content is kept whose digest is still to be reckoned; None where it is known."""
    return digest.removeprefix(_PENDING) if digest.startswith(_PENDING) else None


class ContentDigest:
    """Collects what a well-formed feed says: its items as they pass, then its channel."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def add_item(self, item: Element) -> None:
        parts: list[str] = []
        _add_element(item, parts, is_item=True)
        self._update(parts)

    def finish(self, root: Element) -> str:
        """The digest in hexadecimal, once the items were taken out of `root`."""
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
    """The digest of an ill-formed document; `data` is in UTF-8. A huge one is digested as it is."""
    if len(data) > _PATTERN_SEARCH_MAX:
        return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
    data = _strip_comments(data)
    first = _FIRST_ITEM.search(data)
    head, rest = (data[: first.start()], data[first.start() :]) if first else (data, b"")
    text = _SPACE_BETWEEN_TAGS.sub(b"><", _VOLATILE_TEXT.sub(b"", head) + rest)
    return hashlib.blake2b(text.strip(), digest_size=_DIGEST_BYTES).hexdigest()


def _strip_comments(data: bytes) -> bytes:
    parts, at = [], 0
    # By hand, since a pattern would look for the end of each of a million comments that have none.
    while (start := data.find(b"<!--", at)) >= 0 and (end := data.find(b"-->", start + 4)) >= 0:
        parts.append(data[at:start])
        at = end + 3
    return b"".join((*parts, data[at:]))


def digest_of_json(feed: dict[str, object]) -> str:
    """The digest of a JSON Feed: the order of members and white space do not count."""
    stable = {key: value for key, value in feed.items() if key not in _VOLATILE_KEYS}
    return hashlib.blake2b(canonical_json(stable), digest_size=_DIGEST_BYTES).hexdigest()


def canonical_json(value: object) -> bytes:
    """What a value of JSON says, in one way of writing it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _add_channel(element: Element, parts: list[str], depth: int) -> None:
    """The channel, or what is around it. Text that stands loose in it is no content of any format."""
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
    """A processing instruction or an entity reference. A comment says nothing."""
    if not isinstance(node, etree._Comment):
        parts += (REFERENCE, getattr(node, "target", ""), node.text or "")
