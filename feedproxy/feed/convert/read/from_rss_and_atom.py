"""Extraction of statements about a channel or an item from XML elements.

Documents mix vocabularies, so elements of RSS, Atom and modules are read in every format.
"""

import re
from base64 import b64decode
from dataclasses import dataclass, field, replace

from feedproxy.feed import feed_dates
from feedproxy.feed.channel import CLOUD_ATTRIBUTES, Cloud
from feedproxy.feed.convert import markup, namespaces
from feedproxy.feed.convert import persons as people
from feedproxy.feed.convert.duration import parse_duration
from feedproxy.feed.convert.model import (
    Category,
    Enclosure,
    Generator,
    Image,
    Link,
    Node,
    Person,
    Text,
    TextInput,
)
from feedproxy.feed.convert.xml_nodes import canonical_namespace, make_node
from feedproxy.feed.parse import link_elements, schedule_elements
from feedproxy.feed.xml_parser import Element, attribute_of, qualified_name, text_of
from feedproxy.feed.xml_well_formedness import valid_text

_ABOUT, _RESOURCE = f"{{{namespaces.RDF}}}about", f"{{{namespaces.RDF}}}resource"
_LANGUAGE = f"{{{namespaces.XML}}}lang"

UNKNOWN_TYPE = "application/octet-stream"
"""Media type of an enclosure without a stated type. RSS requires a type."""

STATEMENTS_MAX = 1_000
"""Maximum number of links read from one channel or item. The same limit applies separately to categories, enclosures,
extensions, and persons in each role."""


@dataclass(slots=True)
class Extract:
    """The values that a document states about one channel or item, in document order."""

    base: str
    is_item: bool
    language: str = ""
    direction: str = ""
    about: str = ""
    texts: dict[str, Text] = field(default_factory=dict)
    strings: dict[str, str] = field(default_factory=dict)
    dates: dict[str, int] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    persons: dict[str, list[Person | None]] = field(default_factory=dict)
    categories: list[Category] = field(default_factory=list)
    enclosures: dict[str, Enclosure] = field(default_factory=dict)
    """Enclosures keyed by address."""
    generator: Generator | None = None
    image: Image | None = None
    cloud: Cloud | None = None
    text_input: TextInput | None = None
    is_permalink: bool = False
    duration: int | None = None
    thumbnail: str = ""
    atom_source: "tuple[Element, str] | None" = None
    rss_source: tuple[str, str] = ("", "")
    extensions: list[Node] = field(default_factory=list)
    fallbacks: list[tuple[str, Node]] = field(default_factory=list)
    """Elements of Dublin Core with their local names. They are used if the format's own elements are missing."""


def extract(container: Element, *, core: str, is_atom: bool, base: str, is_item: bool) -> Extract:
    """Return the statements in `container`, the element of a channel or an item.

    `core` is the namespace of the format's own elements. `is_atom` is True for Atom. `base` is the parent's base URI.
    """
    statements = Extract(element_base(container, base), is_item)
    statements.language = valid_text(container.get(_LANGUAGE) or container.get("xml:lang") or "").strip()
    direction = (container.get("dir") or container.get(f"{{{namespaces.ITS}}}dir") or "").strip().lower()
    statements.direction = direction if direction in ("ltr", "rtl") else ""
    statements.about = valid_text(container.get(_ABOUT) or container.get("rdf:about") or "").strip()
    for child in container.iterchildren("*"):
        namespace, local = qualified_name(child)
        namespace = canonical_namespace(namespace)
        # An RSS feed may be in Atom's namespace by mistake. Its links with an `href` are then Atom's.
        is_link = local == "link" and namespace in (namespaces.ATOM, namespaces.ATOM03) and "href" in child.attrib
        if namespace in (namespaces.RSS1, namespaces.RSS2) or (namespace == core and not is_atom and not is_link):
            is_known = _rss(statements, local, child)
        elif namespace in (namespaces.ATOM, namespaces.ATOM03) or (namespace == core and is_atom):
            is_known = _atom(statements, local, child)
        else:
            is_known = _module(statements, namespace, local, child)
        if not is_known and len(statements.extensions) < STATEMENTS_MAX and (node := make_node(child)) is not None:
            statements.extensions.append(_with_absolute_addresses(node, element_base(child, statements.base)))
    return statements


def _with_absolute_addresses(node: Node, base: str) -> Node:
    """Return the node with absolute addresses if it is of Media RSS or iTunes. Return other nodes unchanged.

    Conversions take pictures and files from nodes of Media RSS and iTunes.
    """
    if not base or node.namespace not in (namespaces.MEDIA, namespaces.ITUNES):
        return node
    return replace(
        node,
        attributes=tuple(
            (name, markup.resolve(base, value) if name in ("url", "href") else value) for name, value in node.attributes
        ),
        content=tuple(part if isinstance(part, str) else _with_absolute_addresses(part, base) for part in node.content),
    )


def element_base(element: Element, base: str) -> str:
    """Return the base URI of an element: its xml:base (XML Base, section 4) resolved against `base`, or else `base`."""
    own = element.get(f"{{{namespaces.XML}}}base") or element.get("xml:base")
    return markup.resolve(base, own) if own else base


def _rss(statements: Extract, local: str, element: Element) -> bool:
    key = local.lower()
    match key:
        case "title" | "description" | "copyright":
            name = {"description": "summary", "copyright": "rights"}.get(key, key)
            _text(statements, name, _ambiguous(statements, element))
        case "link":
            address = _value(element) or attribute_of(element, "href")
            _link(statements, Link(markup.resolve(element_base(element, statements.base), address)))
        case "language" | "rating" if not statements.is_item:
            statements.strings.setdefault(key, _value(element))
        case "comments" if statements.is_item:
            # Some publishers write the number of comments, or a sentence.
            if not re.search(r"\s|\A[0-9]*\Z", address := _value(element)):
                statements.strings.setdefault(key, markup.resolve(statements.base, address))
        case "author" | "managingeditor":
            _person(statements, "author", people.parse(_value(element)))
        case "webmaster" if not statements.is_item:
            _person(statements, "webmaster", people.parse(_value(element)))
        case "pubdate" | "lastbuilddate":
            _date(statements, key, _value(element))
        case "category":
            _category(statements, Category(_value(element), valid_text(attribute_of(element, "domain")).strip()))
        case "generator" if not statements.is_item:
            statements.generator = statements.generator or Generator(_value(element))
        case "cloud" if not statements.is_item:
            values = (valid_text(attribute_of(element, name)) for name in CLOUD_ATTRIBUTES)
            statements.cloud = statements.cloud or Cloud(*values)
        case "image" if not statements.is_item:
            statements.image = _image(statements, element) or statements.image
        case "textinput" if not statements.is_item:
            statements.text_input = statements.text_input or _text_input(statements, element)
        case "guid" if statements.is_item:
            if "id" not in statements.strings and _value(element):
                statements.strings["id"] = _value(element)
                is_permalink = (attribute_of(element, "isPermaLink") or "true").strip().lower() != "false"
                statements.is_permalink = is_permalink and markup.is_web(statements.strings["id"])
        case "enclosure" if statements.is_item:
            # Some publishers name the attribute `size`.
            length = attribute_of(element, "length") or attribute_of(element, "size")
            _enclosure(statements, attribute_of(element, "url"), attribute_of(element, "type"), length)
        case "source" if statements.is_item:
            statements.rss_source = (markup.resolve(statements.base, attribute_of(element, "url")), _value(element))
        case "docs" | "ttl" | "skiphours" | "skipdays" | "items" | "item":
            pass  # docs, the schedule (feed/parse/schedule_elements.py) and items are not read here
        case _:
            return False
    return True


def _atom(statements: Extract, local: str, element: Element) -> bool:
    base = element_base(element, statements.base)
    match local:
        case "title" | "rights" | "copyright" | "subtitle" | "tagline" | "summary":
            name = {"copyright": "rights", "subtitle": "summary", "tagline": "summary"}.get(local, local)
            _text(statements, f"atom:{name}", _construct(element, base))
        case "content" if statements.is_item:
            _text(statements, "atom:content", _construct(element, base))
        case "id":
            statements.strings.setdefault("atom:id", _value(element))
        case "updated" | "published" | "modified" | "issued" | "created":
            name = {"modified": "updated", "issued": "published"}.get(local, local)
            _date(statements, f"atom:{name}", _value(element))
        case "author" | "contributor":
            _person(statements, local, _atom_person(element, base))
        case "category":
            term, label = element.get("term"), valid_text(element.get("label") or "").strip()
            term = valid_text(term or _value(element)).strip()
            _category(
                statements,
                Category(term, valid_text(element.get("scheme") or "").strip(), "" if label == term else label),
            )
        case "generator":
            uri = markup.resolve(base, element.get("uri") or element.get("url") or "")
            version = valid_text(element.get("version") or "").strip()
            name = "" if _value(element) == uri else _value(element)
            statements.generator = statements.generator or Generator(name, uri, version)
        case "logo":
            statements.image = statements.image or _picture(markup.resolve(base, _value(element)))
        case "icon":
            statements.strings.setdefault("icon", markup.resolve(base, _value(element)))
        case "link":
            _atom_link(statements, element, base)
        case "source" if statements.is_item:
            statements.atom_source = statements.atom_source or (element, base)
        case "entry" | "info":
            pass
        case _:
            return False
    return True


def _module(statements: Extract, namespace: str, local: str, element: Element) -> bool:
    match namespace, local:
        case namespaces.DC, "creator":
            _person(statements, "author", people.parse(_value(element)))
        case namespaces.DC, "contributor":
            _person(statements, "contributor", people.parse(_value(element)))
        case namespaces.DC, "subject":
            _category(statements, Category(_value(element)))
        case namespaces.DC, ("title" | "description" | "rights" | "language" | "date"):
            if (node := make_node(element)) is not None:
                statements.fallbacks.append((local, node))
        case namespaces.DCTERMS, ("issued" | "created" | "modified"):
            _date(statements, f"dcterms:{local}", _value(element))
        case (namespaces.CONTENT, "encoded") | (namespaces.XHTML, "body") if statements.is_item:
            _text(statements, "content", _ambiguous(statements, element))
        case namespaces.ADMIN, "generatorAgent" if not statements.is_item:
            uri = valid_text(element.get(_RESOURCE) or "").strip()
            if statements.generator is not None or not uri:
                return False
            statements.generator = Generator(uri=uri)
        case namespaces.ENC, "enclosure" if statements.is_item:
            kind, length = (element.get(f"{{{namespaces.ENC}}}{name}") for name in ("type", "length"))
            _enclosure(statements, element.get(_RESOURCE), kind, length)
        case namespaces.ITUNES, "duration" if statements.is_item:
            seconds = parse_duration(_value(element))
            if seconds is None or statements.duration is not None:
                return False
            statements.duration = seconds
        case namespaces.ITUNES, "complete" if not statements.is_item:
            return schedule_elements.states_end(element)  # it is part of the schedule
        case namespaces.MEDIA, "thumbnail" if statements.is_item:
            if statements.thumbnail or len(element.attrib) != 1 or "url" not in element.attrib or len(element):
                return False
            statements.thumbnail = markup.resolve(statements.base, element.get("url") or "")
        case namespaces.SY, _ if not statements.is_item:
            pass
        case _:
            return False
    return True


def _text(statements: Extract, key: str, text: Text | None) -> None:
    if text is not None:
        statements.texts.setdefault(key, text)


def _ambiguous(statements: Extract, element: Element) -> Text | None:
    return markup.make_text(markup.inner_html(element, element_base(element, statements.base)), is_html=True)


def _construct(element: Element, base: str) -> Text | None:
    """Return the text of an Atom element (RFC 4287, sections 3.1 and 4.1.3), or None if it is empty.

    In Atom 0.3, the attribute `mode` states whether the content is elements, escaped text, or Base64.
    """
    kind = (element.get("type") or "text").strip().lower()
    src = markup.resolve(base, element.get("src") or "")
    mode = (element.get("mode") or "").strip().lower()
    if src:
        return Text("", valid_text(kind), src)
    if mode == "base64" and (decoded := _decode_base64(element, kind)) is not None:
        return markup.make_text(markup.resolve_html(base, decoded), is_html=kind not in ("text", "text/plain"))
    has_elements = any(isinstance(child.tag, str) for child in element)
    is_markup = mode != "escaped" and has_elements and kind in ("text", "text/plain")
    if is_markup or kind in ("xhtml", "html", "text/html", "application/xhtml+xml"):
        return markup.make_text(markup.inner_html(element, base), is_html=True)
    if kind in ("text", "text/plain") or "/" not in kind:
        return markup.make_text(text_of(element), is_html=False)
    value = valid_text(markup.inner_xml(element)).strip()
    return Text(value, valid_text(kind)) if value else None


def _decode_base64(element: Element, kind: str) -> str | None:
    """Return the text of an Atom 0.3 element in Base64. `kind` is the type of the content. Return None if the Base64 is
    invalid, or if the content is neither text nor HTML."""
    if kind not in ("text", "html", "text/plain", "text/html", "application/xhtml+xml"):
        return None
    try:
        return b64decode("".join(text_of(element).split()), validate=True).decode()
    except ValueError:
        return None


def _date(statements: Extract, key: str, text: str) -> None:
    if (instant := feed_dates.parse(text)) is not None:
        statements.dates.setdefault(key, instant)


def _person(statements: Extract, role: str, person: Person | None) -> None:
    if len(statements.persons.setdefault(role, [])) < STATEMENTS_MAX:
        statements.persons[role].append(person)


def _category(statements: Extract, category: Category) -> None:
    if category.term and len(statements.categories) < STATEMENTS_MAX:
        statements.categories.append(category)


def _link(statements: Extract, link: Link) -> None:
    if link.href and len(statements.links) < STATEMENTS_MAX:
        statements.links.append(link)


def _atom_link(statements: Extract, element: Element, base: str) -> None:
    def attribute(name: str) -> str:
        return valid_text(element.get(name) or "").strip()

    href = markup.resolve(base, attribute("href"))
    for rel in map(valid_text, link_elements.relations(element)):
        if (
            rel == "replies"
            and statements.is_item
            and attribute("type").lower() == "text/html"
            and "comments" not in statements.strings
        ):
            statements.strings["comments"] = href
            continue
        if rel == "enclosure" and statements.is_item:
            _enclosure(
                statements, href, attribute("type"), attribute("length"), attribute("title"), attribute("hreflang")
            )
            continue
        media_type = "" if rel == "alternate" and attribute("type").lower() == "text/html" else attribute("type")
        length = _number(attribute("length")) or None
        _link(statements, Link(href, rel, media_type, attribute("hreflang"), attribute("title"), length))


def _enclosure(
    statements: Extract, url: str | None, kind: str | None, length: str | None, title: str = "", language: str = ""
) -> None:
    address = markup.resolve(statements.base, url or "")
    if not address or len(statements.enclosures) >= STATEMENTS_MAX:
        return
    # "When an enclosure's size cannot be determined, a publisher SHOULD use a length of 0" -- RSS profile.
    kind = valid_text(kind or "").strip()
    kind = "" if kind == UNKNOWN_TYPE else kind
    new = Enclosure(address, kind, _number(length or "") or None, title, language)
    previous = statements.enclosures.get(address, new)
    statements.enclosures[address] = Enclosure(
        previous.url,
        previous.type or new.type,
        previous.length or new.length,
        previous.title or new.title,
        previous.language or new.language,
    )


def _atom_person(element: Element, base: str) -> Person:
    own = (canonical_namespace(qualified_name(element)[0]), namespaces.ATOM, namespaces.ATOM03)
    values: dict[str, str] = {}
    avatar = ""
    extensions: list[Node] = []
    for child in element.iterchildren("*"):
        namespace, local = canonical_namespace(qualified_name(child)[0]), qualified_name(child)[1]
        if namespace in own:
            values.setdefault(local, _value(child))
        elif not avatar and (namespace, local) == (namespaces.MEDIA, "thumbnail") and child.attrib.keys() == ["url"]:
            avatar = markup.resolve(base, valid_text(child.get("url") or "").strip())
        elif len(extensions) < STATEMENTS_MAX and (node := make_node(child)) is not None:
            extensions.append(node)
    uri = markup.resolve(base, values.get("uri") or values.get("url") or values.get("homepage") or "")
    name = " ".join((values.get("name") or ("" if len(element) else _value(element))).split())
    email = values.get("email", "")
    return Person("" if name in (email, uri, avatar) else name, email, uri, avatar, tuple(extensions))


def _picture(url: str) -> Image | None:
    return Image(url) if url else None


def _image(statements: Extract, element: Element) -> Image | None:
    values = {qualified_name(child)[1].lower(): _value(child) for child in element.iterchildren("*")}
    url = values.get("url") or element.get(_RESOURCE) or ""
    if not url:
        return None
    return Image(
        markup.resolve(statements.base, url),
        markup.to_line(markup.make_text(values.get("title", ""), is_html=True)),
        markup.resolve(statements.base, values.get("link", "")),
        _number(values.get("width", "")) or None,
        _number(values.get("height", "")) or None,
        markup.to_line(markup.make_text(values.get("description", ""), is_html=True)),
    )


def _text_input(statements: Extract, element: Element) -> TextInput | None:
    values = {qualified_name(child)[1].lower(): _value(child) for child in element.iterchildren("*")}
    if not values.get("name") or not values.get("link"):
        return None
    link = markup.resolve(statements.base, values["link"])
    return TextInput(values.get("title", ""), values.get("description", ""), values["name"], link)


def _value(element: Element) -> str:
    return valid_text(text_of(element)).strip()


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None
