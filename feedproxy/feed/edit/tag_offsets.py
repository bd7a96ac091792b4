"""Offsets of a channel's start tag, first `link` and self links in a document.

expat parses the UTF-8 form, usually up to the first item, without resolving namespaces. The document must be
well-formed (`Channel.well_formed`).
"""

import re
from collections.abc import Mapping
from xml.parsers.expat import ExpatError, ParserCreate

from msgspec import Struct

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.parse.link_elements import RELATION_REGISTRY
from feedproxy.feed.xml_parser import ATOM, ATOM03

SIGNATURES = b"http://www.w3.org/2000/09/xmldsig#"
# libxml2's own limit for untrusted documents.
_DEPTH_MAX = 256

_TAG = re.compile(rb"""<[^\s/>"'=]++(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")


class LinkTag(Struct, frozen=True):
    start: int
    end: int
    name: str
    prefix: str
    namespace: str
    rel: str
    """Relation of the link: `self` or `start`."""
    href: str | None
    type: str | None
    title: str | None


class ChannelOffsets(Struct, frozen=True):
    """Offsets in a channel, in bytes of the UTF-8 form."""

    prefix: str
    """Namespace prefix of `channel` or, in Atom, of `feed`."""
    namespace: str
    scope: Mapping[str, str]
    """Namespaces by prefix inside the channel. The default namespace has the prefix ""."""
    start: int | None
    """Offset after the channel's start tag, or None if the channel has no content."""
    own_link: int | None
    """Offset after the first `link` in the channel's own namespace, or None if there is none."""
    self_links: tuple[LinkTag, ...]


class EditRefused(Exception):
    """Error for a document that must not be edited. The message is the reason, such as "the document is signed"."""


def tag_at(utf8: bytes, start: int) -> bytes:
    """Return the start tag or empty-element tag at the offset `start`. Raises EditRefused if no tag begins there."""
    match = _TAG.match(utf8, start)
    if match is None:
        raise EditRefused("invalid tag")
    return match[0]


def refuse_declaration(*_: object) -> None:
    """Raise EditRefused. expat calls this function if the document declares entities or default attributes."""
    raise EditRefused("the document type has declarations of its own")


class _StopParsing(Exception):
    """Exception that ends the parsing of a document early."""


def find_channel(utf8: bytes, channel: Channel, *, every_self_link: bool = False) -> ChannelOffsets | None:
    """Return the offsets of the channel's tags and self links. `channel` is the parsed channel of the document.

    Return None for other formats than RSS and Atom, and for a document that must not be edited, such as a signed one.
    Unless `every_self_link` is True, the search ends at the first self link with the format's own relation (`start` in
    Atom 0.3, otherwise `self`). If `channel` has no self link, the search ends at the first item after a `link` in the
    channel's namespace. Otherwise it ends with the channel. A document that may be signed is searched as a whole.
    """
    finder = _ChannelFinder(utf8, channel, every_self_link=every_self_link)
    try:
        finder.parser.Parse(utf8, True)
    except _StopParsing:
        pass
    except (ExpatError, EditRefused):
        return None
    return finder.offsets()


class _ChannelFinder:
    """Handlers of expat's events. The handlers collect the parts of ChannelOffsets."""

    def __init__(self, utf8: bytes, channel: Channel, *, every_self_link: bool) -> None:
        self.utf8 = utf8
        self.parser = parser = ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        # Declared entities and default attributes change the meaning of the rest of the document.
        parser.EntityDeclHandler = parser.AttlistDeclHandler = refuse_declaration
        self._level, self._item = (1, "entry") if channel.kind is Kind.ATOM else (2, "item")
        self._is_signed = SIGNATURES in utf8
        self._reads_whole = bool(channel.self_links) or self._is_signed
        self._reads_every_link = every_self_link or self._is_signed
        self._depth = 0
        self._scope: dict[str, str] = {}
        self._prefix: str | None = None
        self._namespace = ""
        self._in_channel = False
        self._start_tag: int | None = None
        self._own_link: int | None = None
        self._in_own_link = False
        self._links: list[LinkTag] = []

    def offsets(self) -> ChannelOffsets | None:
        if self._prefix is None:
            return None
        return ChannelOffsets(
            self._prefix, self._namespace, self._scope, self._start_tag, self._own_link, tuple(self._links)
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        depth, level = self._depth, self._level
        if self._is_signed and name.rpartition(":")[2] == "Signature":
            raise EditRefused("the document is signed")
        if depth > _DEPTH_MAX:
            raise EditRefused("the document is nested too deeply")
        if depth > level + 1:
            return
        if depth < level:
            self._scope |= _declarations(attributes)
        elif depth == level:
            self._channel(name, attributes)
        elif self._in_channel:
            self._child(name, attributes)

    def _channel(self, name: str, attributes: dict[str, str]) -> None:
        prefix, _, local = name.rpartition(":")
        if self._prefix is not None or local != ("feed" if self._level == 1 else "channel"):
            return
        self._scope |= _declarations(attributes)
        self._prefix, self._namespace, self._in_channel = prefix, self._scope.get(prefix, ""), True
        tag = self._current_tag()
        if not tag.endswith(b"/>"):
            self._start_tag = self.parser.CurrentByteIndex + len(tag)

    def _child(self, name: str, attributes: dict[str, str]) -> None:
        prefix, _, local = name.rpartition(":")
        if local == self._item and self._own_link is not None and not self._reads_whole:
            raise _StopParsing
        if local != "link":
            return
        own = _declarations(attributes)
        namespace = own[prefix] if prefix in own else self._scope.get(prefix, "")
        rel = _relation(attributes.get("rel", ""))
        if rel and namespace in (ATOM, ATOM03):
            start, tag = self.parser.CurrentByteIndex, self._current_tag()
            values = (attributes.get("href"), attributes.get("type"), attributes.get("title"))
            self._links.append(LinkTag(start, start + len(tag), name, prefix, namespace, rel, *values))
            if rel == ("start" if self._namespace == ATOM03 else "self") and not self._reads_every_link:
                raise _StopParsing
        if namespace == self._namespace and self._own_link is None:
            tag = self._current_tag()
            if tag.endswith(b"/>"):
                self._own_link = self.parser.CurrentByteIndex + len(tag)
            else:
                self._in_own_link = True

    def _end(self, name: str) -> None:
        depth, level = self._depth, self._level
        self._depth -= 1
        if depth == level + 1 and self._in_own_link:
            self._own_link = self.utf8.index(b">", self.parser.CurrentByteIndex) + 1
            self._in_own_link = False
        elif depth == level and self._in_channel:
            self._in_channel = False
            if not self._is_signed:
                raise _StopParsing

    def _current_tag(self) -> bytes:
        return tag_at(self.utf8, self.parser.CurrentByteIndex)


def _relation(rel: str) -> str:
    """Return the relation `self` or `start` if the attribute `rel` contains it, else ""."""
    relations = [relation.removeprefix(RELATION_REGISTRY) for relation in rel.lower().split()]
    return next((relation for relation in ("self", "start") if relation in relations), "")


def _declarations(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name[6:]: value for name, value in attributes.items() if name == "xmlns" or name.startswith("xmlns:")}
