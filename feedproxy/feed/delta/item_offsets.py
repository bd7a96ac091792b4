"""Offsets, names and digests of the items of an XML feed. The digests follow the rules of feed/content_digest.py."""

import hashlib
from xml.parsers.expat import ExpatError, ParserCreate

from msgspec import Struct

from feedproxy.feed.channel import Kind
from feedproxy.feed.content_digest import ATTRIBUTE, END, REFERENCE, START, TEXT, VALUE, VOLATILE
from feedproxy.feed.edit.tag_offsets import EditRefused, refuse_declaration, tag_at
from feedproxy.feed.xml_parser import RDF

# expat reports a name as namespace, separator, local name, and accepts no namespace that contains the separator.
_SEPARATOR = "}"
_LI = RDF + _SEPARATOR + "li"
_MEMBER = RDF + _SEPARATOR + "_"
_ABOUT = RDF + _SEPARATOR + "about"
_RESOURCE = RDF + _SEPARATOR + "resource"
_MEMBERS_DEPTH = 5
"""Depth of the elements `rdf:li`, by which RSS 1.0 lists its items: in rdf:RDF, channel, items and rdf:Seq."""

_EXHAUSTIVE = frozenset(
    (
        # RFC 5005, section 2: "any entry not actually in the feed document SHOULD NOT be considered to be part
        # of that feed."
        "http://purl.org/syndication/history/1.0}complete",
        # Simple List Extensions: an entry that is missing was removed from the list.
        "http://www.microsoft.com/schemas/rss/core/2005}treatAs",
    )
)

HASH_BYTES = 8
"""Length of the identity of an entry in bytes. The digest of an entry has the same length."""


class ItemSpan(Struct, frozen=True):
    start: int
    end: int
    name: str
    """Kind and name of the item, such as `id urn:1` or `link https://…`. Empty if the item has no name."""
    digest: str
    """Digest of the item's whole content, in hexadecimal."""


class Member(Struct, frozen=True):
    """An rdf:li of RSS 1.0, which names an item by the item's rdf:about."""

    start: int
    end: int
    name: str
    """Name of the item, in the form of `ItemSpan.name`."""


class Outline(Struct, frozen=True):
    """The items of a document, and the elements that refer to items (`members`), in document order."""

    items: tuple[ItemSpan, ...]
    members: tuple[Member, ...] = ()
    is_exhaustive: bool = False
    """True if the document declares that it contains all entries of the feed."""


def hash_entry(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=HASH_BYTES).hexdigest()


def find(utf8: bytes, kind: Kind) -> Outline | None:
    """Return the items of a well-formed feed, with the elements that refer to them, or None if the items are not in the
    place and namespace of the format `kind`, or if the document declares entities or default attributes."""
    finder = _ItemFinder(utf8, kind)
    try:
        finder.parser.Parse(utf8, True)
    except (ExpatError, EditRefused):
        return None
    return finder.outline()


class _ItemFinder:
    """Handlers of expat's events outside items. The handlers collect the parts of an Outline."""

    def __init__(self, utf8: bytes, kind: Kind) -> None:
        self.utf8 = utf8
        self.parser = parser = ParserCreate("utf-8", _SEPARATOR)
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        # Declared entities and default attributes change the meaning of the rest of the document.
        parser.EntityDeclHandler = parser.AttlistDeclHandler = refuse_declaration
        self._kind = kind
        self._local = "entry" if kind is Kind.ATOM else "item"
        self._path: list[str] = []
        self._core: str | None = None
        self._item = _ItemReader(self)
        self._namespaces: set[str] = set()
        self._items: list[ItemSpan] = []
        self._member: tuple[int, int, str] | None = None
        self._members: list[Member] = []
        self._is_exhaustive = False

    def outline(self) -> Outline | None:
        if self._namespaces - {self._core}:
            return None  # items of another vocabulary, or of this one in another namespace
        return Outline(tuple(self._items), tuple(self._members), self._is_exhaustive)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(_SEPARATOR)
        path = self._path
        if local == self._local and self._may_have_items():
            self._namespaces.add(namespace)
            self._item.begin(namespace, attributes)
            return
        path.append(local)
        if len(path) == (1 if self._kind is Kind.ATOM else 2) and local in ("feed", "channel"):
            self._core = namespace if self._core is None else self._core
        elif name in _EXHAUSTIVE:
            self._is_exhaustive = True
        elif len(path) == _MEMBERS_DEPTH and (name == _LI or name.startswith(_MEMBER)):
            resource = attributes.get(_RESOURCE) or attributes.get("resource") or ""
            self._member = self.parser.CurrentByteIndex, self.end_of_tag(), qualify_name("id", resource)

    def _may_have_items(self) -> bool:
        """Return True if the current element can contain items.

        It is the root element of any format (RSS 1.0 and Atom have their items there), or its child `channel`, except
        in Atom.
        """
        path = self._path
        return len(path) == 1 or (len(path) == 2 and path[1] == "channel" and self._kind is not Kind.ATOM)

    def _end(self, _: str) -> None:
        if len(self._path) == _MEMBERS_DEPTH and self._member:
            start, behind_tag, name = self._member
            self._members.append(Member(start, self.end_of(start, behind_tag), name))
            self._member = None
        self._path.pop()

    def end_of_tag(self) -> int:
        """Return the offset after the current start tag."""
        start = self.parser.CurrentByteIndex
        return start + len(tag_at(self.utf8, start))

    def end_of(self, start: int, behind_tag: int) -> int:
        """Return the offset after the element that has just ended, with the start tag `utf8[start:behind_tag]`."""
        if self.utf8.endswith(b"/>", start, behind_tag):
            return behind_tag
        return self.utf8.index(b">", self.parser.CurrentByteIndex) + 1

    def finish(self, item: ItemSpan) -> None:
        """Add a complete item, and take over the handling of events from the `_ItemReader`."""
        self._items.append(item)
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = None
        self.parser.ProcessingInstructionHandler = self.parser.SkippedEntityHandler = None


class _ItemReader:
    """Handlers of expat's events within one item. The handlers collect the parts of an ItemSpan."""

    def __init__(self, finder: _ItemFinder) -> None:
        self._finder = finder
        self._is_atom = finder._kind is Kind.ATOM
        self._pieces: list[str] = []

    def begin(self, namespace: str, attributes: dict[str, str]) -> None:
        """Begin an item at its start tag, and take over the handling of events from the `_ItemFinder`."""
        finder, parser = self._finder, self._finder.parser
        prefix = namespace + _SEPARATOR if namespace else ""
        self._id, self._link = prefix + ("id" if self._is_atom else "guid"), prefix + "link"
        self._in_source, self._before_child = False, 0
        self._start_at, self._behind_tag = parser.CurrentByteIndex, finder.end_of_tag()
        self._content: list[str] = []
        self._level = -1
        self._names = {"id": attributes.get(_ABOUT, "") if finder._kind is Kind.RDF else "", "link": ""}
        self._start(prefix + finder._local, attributes)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._pieces.append
        parser.ProcessingInstructionHandler = self._instruction
        parser.SkippedEntityHandler = self._entity

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        content = self._content
        if self._pieces:
            self._add_text_between()
        self._level += 1
        if self._level == 1:
            self._in_source = name.rpartition(_SEPARATOR)[2] == "source"
        elif self._level == 2 and self._in_source:
            self._before_child = len(content)
        content.append(START)
        content.append(name)
        self._is_leaf = True
        if attributes:
            for key, value in sorted(attributes.items()):
                content += (ATTRIBUTE, key, VALUE, value)
            if self._level == 1 and name == self._link and self._is_atom and _is_alternate(attributes):
                self._set_name("link", attributes.get("href", ""))

    def _end(self, name: str) -> None:
        content = self._content
        if self._pieces:
            if self._is_leaf:
                text = "".join(self._pieces)
                self._pieces.clear()
                content += (TEXT, text)
                if self._level == 1:
                    if name == self._id:
                        self._set_name("id", text)
                    elif name == self._link:
                        self._set_name("link", text)
            else:
                self._add_text_between()
        content.append(END)
        if self._level == 2 and self._in_source and name.rpartition(_SEPARATOR)[2] in VOLATILE:
            del content[self._before_child :]
        self._level -= 1
        self._is_leaf = False
        if self._level < 0:
            self._finish()

    def _add_text_between(self) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        if not text.isspace():
            self._content += (TEXT, text)

    def _instruction(self, target: str, data: str) -> None:
        if self._pieces:
            self._add_text_between()
        self._content += (REFERENCE, target, data)
        self._is_leaf = False

    def _entity(self, name: str, _: bool) -> None:
        self._instruction("", name)

    def _set_name(self, kind: str, text: str) -> None:
        self._names[kind] = self._names[kind] or text.strip()

    def _finish(self) -> None:
        names, finder = self._names, self._finder
        finder.finish(
            ItemSpan(
                self._start_at,
                finder.end_of(self._start_at, self._behind_tag),
                qualify_name("id", names["id"]) or qualify_name("link", names["link"]),
                hash_entry("".join(self._content).encode()),
            )
        )


def _is_alternate(link: dict[str, str]) -> bool:
    """Return True if the link leads to a page. A missing `rel` means `alternate` (RFC 4287, section 4.2.7.2)."""
    return "alternate" in link.get("rel", "alternate").lower().split()


def qualify_name(kind: str, text: str) -> str:
    """Return the kind and the name as one text, so that no id equals a link. Return "" for an empty name."""
    return f"{kind} {text.strip()}" if text.strip() else ""
