"""Addition or correction of the self link of a feed (USM, Atom Link Construct).

The mode `add` adds a missing link, and replaces a relative address, which does not work in a saved file. The mode
`correct` also corrects href, type, namespace and rel, and in RSS a wrong title (USM: "The title attribute should be set
to the title of the RSS channel"). An equivalent address (RFC 3986, section 6.2.2) counts as correct.
docs/decisions/self-link-placement.md describes where a new link is placed, and which documents are not edited.
"""

import re
from collections.abc import Iterator
from html import unescape

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.edit.splice import Edit, EncodedDocument, open_document, splice
from feedproxy.feed.edit.tag_offsets import ChannelOffsets, LinkTag, find_channel
from feedproxy.feed.xml_parser import ATOM, ATOM03
from feedproxy.feed.xml_well_formedness import valid_text
from feedproxy.http.uri import is_same

NOT_EXTENSIBLE = frozenset({"0.9", "0.90", "0.91"})
_TITLE_MAX = 255
_PREFIXES = ("atom", "atom10", "a10", "atom2005", "feedproxy-atom")

_MARKUP = re.compile(r"<!--.*?(?:-->|\Z)|</?[A-Za-z][^<>]*>", re.DOTALL)
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_ABSOLUTE = re.compile(r"https?://[^/]", re.IGNORECASE)
_ATTRIBUTE = re.compile(rb"""(?<![^\s=<>"'/])([^\s=<>"'/]++)\s*+=\s*+("[^"]*+"|'[^']*+')""")


class _LinkForm(Struct, frozen=True):
    """The correct form of a self link in one format.

    Links with a relation in `rels` are self links. A new or corrected link gets the relation `rel`.
    """

    namespace: str
    rel: str
    rels: tuple[str, ...]


_RSS = _LinkForm(ATOM, "self", ("self", "start"))
# "Use rel='self' in Atom 1.0 and later and rel='start' in Atom 0.3." In Atom 1.0 `start` is the first page.
_ATOM = {
    ATOM: _LinkForm(ATOM, "self", ("self",)),
    ATOM03: _LinkForm(ATOM03, "start", ("start", "self")),
}


def apply_self_link(
    body: bytes,
    channel: Channel,
    *,
    href: str,
    mode: str,
    link_text: bool = False,
    charset: str | None = None,
) -> bytes:
    """Return the document with a self link to `href`, an absolute URI, or `body` itself if it is not edited.

    `channel` is the channel of `body`, and `charset` the parameter of the origin's Content-Type. `mode` is `add`,
    `correct` or `off`. If `link_text` is True, a link that is added to RSS contains the page's address as text.
    """
    if is_self_link_correct(body, channel, href=href, mode=mode):
        return body
    every = mode == "correct" and len(channel.self_links) > 1
    document = open_document(body, charset)
    if document is None:
        return body
    offsets = find_channel(document.utf8, channel, every_self_link=every)
    form = _link_form(channel.kind, offsets) if offsets else None
    if offsets is None or form is None:
        return body
    present = [link for link in offsets.self_links if link.rel in form.rels]
    if mode == "add" and any(_is_usable(link.href) for link in present):
        return body
    if present:
        first = next((link for link in present if link.rel == form.rel), present[0])
        title = plain_title(channel.title) if mode == "correct" and channel.kind is not Kind.ATOM else None
        # A further link keeps its rel, because both values name the feed's address.
        others = [(link, replace(form, rel=link.rel)) for link in present if every and link is not first]
        edits = [
            _set_attribute(document.utf8[link.start : link.end], link, name, document.character_data(value))
            for link, form in [(first, form), *others]
            for name, value in _corrections(link, form, href, title, channel.kind.media_types)
        ]
    else:
        edits = _add_link(document, offsets, form, channel, href=href, link_text=link_text)
    edited = splice(document, edits) if edits else None
    return body if edited is None else edited


def is_self_link_correct(body: bytes, channel: Channel, *, href: str, mode: str) -> bool:
    """Return True if `apply_self_link` would certainly change nothing.

    The document is not parsed, so the result can be False although the link is correct.
    """
    return not _permits_change(channel, href, mode) or _is_verbatim(body, channel, href, mode)


def _permits_change(channel: Channel, href: str, mode: str) -> bool:
    """Return True if `mode` and the format permit a new or corrected self link, and XML allows the text `href`."""
    if mode not in ("add", "correct") or not channel.well_formed or not href or valid_text(href) != href:
        return False
    if channel.kind not in (Kind.RSS, Kind.RDF, Kind.ATOM):
        return False
    if channel.kind is not Kind.ATOM and channel.version in NOT_EXTENSIBLE:
        return False
    return mode == "correct" or not any(link.rel == "self" and _is_usable(link.href) for link in channel.self_links)


def _is_verbatim(body: bytes, channel: Channel, href: str, mode: str) -> bool:
    at = body.find(b'rel="self"')
    if len(channel.self_links) != 1 or at < 0:
        return False
    (link,) = channel.self_links
    if (link.rel, link.namespace, link.href) != ("self", ATOM, href):
        return False
    # Atom 0.3 uses rel="start"; in RDF, either type is correct.
    types = channel.kind.media_types
    if channel.kind is Kind.ATOM:
        return channel.version == "1.0" and link.type in ("", *types)
    if mode == "add":
        return link.type in ("", *types)
    tag = body[body.rfind(b"<", 0, at) : body.find(b">", at)]
    # A title with references is not compared, because references have several forms.
    title = channel.title.encode() if channel.title == plain_title(channel.title) else b"&"
    is_title_correct = b"title=" not in tag or (not set(title) & set(b"&<>\"'") and b'title="%b"' % title in tag)
    return link.type in types and is_title_correct


def _link_form(kind: Kind, offsets: ChannelOffsets) -> _LinkForm | None:
    if kind is Kind.ATOM:
        return _ATOM.get(offsets.namespace)
    return _RSS


# -- adding


def _add_link(
    document: EncodedDocument, offsets: ChannelOffsets, form: _LinkForm, channel: Channel, *, href: str, link_text: bool
) -> list[Edit]:
    position = offsets.own_link or offsets.start
    if position is None:
        return []
    prefix, declaration, title, text = offsets.prefix, "", "", ""
    if channel.kind is not Kind.ATOM:
        prefix, declaration = atom_prefix(offsets)
        title = plain_title(channel.title)
        text = " ".join(valid_text(channel.link).split()) if link_text else ""
    attributes = {"rel": form.rel, "type": channel.kind.media_types[0], "title": title, "href": href}
    attributes = {name: value for name, value in attributes.items() if value}
    return [Edit(position, position, document.element(prefix, "link", attributes, declaration, text))]


def atom_prefix(offsets: ChannelOffsets) -> tuple[str, str]:
    """Return a prefix for Atom's namespace, and its declaration ("" if the document has this declaration)."""
    for prefix, namespace in offsets.scope.items():
        if prefix and namespace == ATOM:
            return prefix, ""
    prefix = next((prefix for prefix in _PREFIXES if prefix not in offsets.scope), _PREFIXES[-1])
    return prefix, f' xmlns:{prefix}="{ATOM}"'


def plain_title(title: str) -> str:
    """Return a channel's title as one line without markup and references, cut to 255 characters."""
    text = _REFERENCE.sub(lambda match: unescape(match[0]), _MARKUP.sub(" ", title[: 16 * _TITLE_MAX]))
    return " ".join(valid_text(text).split())[:_TITLE_MAX].rstrip()


# -- correcting


def _corrections(
    link: LinkTag, form: _LinkForm, href: str, title: str | None, types: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield the name and the correct value of each wrong attribute of `link`."""
    if link.href is None or not is_same(link.href, href):
        yield "href", href
    if title is not None if link.type is None else link.type.partition(";")[0].strip().lower() not in types:
        yield "type", types[0]
    if title and link.title is not None and title not in (link.title, plain_title(link.title)):
        yield "title", title
    if link.rel != form.rel:
        yield "rel", form.rel
    if link.namespace != form.namespace:
        yield f"xmlns:{link.prefix}" if link.prefix else "xmlns", form.namespace


def _set_attribute(tag: bytes, link: LinkTag, name: str, value: str) -> Edit:
    """Return the edit that sets an attribute. A new attribute is placed after the element's name."""
    name_end = 1 + len(link.name.encode())
    for match in _ATTRIBUTE.finditer(tag, name_end):
        if match[1] == name.encode():
            start, end = match.span(2)
            return Edit(link.start + start + 1, link.start + end - 1, value)
    position = link.start + name_end
    return Edit(position, position, f' {name}="{value}"')


def _is_usable(href: str | None) -> bool:
    """Return True for an absolute address, which works in a saved file."""
    return _ABSOLUTE.match((href or "").strip()) is not None
