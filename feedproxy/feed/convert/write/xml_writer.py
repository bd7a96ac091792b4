"""Writer of XML elements for all XML formats.

Parts that RSS lacks are written as elements of Atom. Parts that Atom lacks are written as elements of RSS (namespace
`RSS2`). Many feed readers support both in all formats.
"""

from collections.abc import Callable, Iterable
from typing import Any

from lxml import etree

from feedproxy.feed.channel import Cloud, Schedule
from feedproxy.feed.convert import markup
from feedproxy.feed.convert.headlines import heading
from feedproxy.feed.convert.model import (
    Category,
    Enclosure,
    Feed,
    Generator,
    Image,
    Item,
    Link,
    Node,
    Person,
    Text,
    TextInput,
)
from feedproxy.feed.convert.namespaces import ATOM, CONTENT, DC, ITS, ITUNES, MEDIA, PREFIXES, RSS1, RSS2, SY, XML
from feedproxy.feed.convert.xml_nodes import add, assign_prefixes, clark_name
from feedproxy.feed.xml_parser import Element
from feedproxy.http.date import WEEKDAYS, format_rfc3339


def document(namespace: str, local: str, feed: Feed, default: str | None = None) -> Element:
    """Return the root element of a document. Elements of the namespace `default` are written without a prefix."""
    customary = {prefix: uri for uri, prefix in PREFIXES.items() if uri != default}
    others = {prefix: uri for prefix, uri in assign_prefixes(_all(feed)).items() if prefix not in customary}
    names: dict[Any, str] = {**customary, **others}
    if default is not None:
        names[None] = default
    return etree.Element(clark_name(namespace, local), nsmap=names)


def _all(feed: Feed) -> Iterable[Node]:
    for channel in (feed, *feed.items, *(item.source for item in feed.items if item.source is not None)):
        yield from channel.extensions
        for person in (*channel.authors, *channel.contributors):
            yield from person.extensions


def finish(root: Element) -> bytes:
    etree.cleanup_namespaces(root)
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True)


def put(parent: Element, namespace: str, local: str, text: str = "", **attributes: str | int | None) -> Element:
    """Write an element and return it. Attributes without a value are left out."""
    element = etree.SubElement(parent, clark_name(namespace, local))
    if text:
        element.text = text
    for key, value in attributes.items():
        if value not in (None, ""):
            element.set(key, str(value))
    return element


def put_nonempty(
    parent: Element, namespace: str, local: str, text: str | int | None, **attributes: str | int | None
) -> None:
    """Write an element unless its text is empty."""
    if text not in (None, ""):
        put(parent, namespace, local, str(text), **attributes)


def put_date(
    parent: Element,
    namespace: str,
    local: str,
    instant: int | None,
    format_date: Callable[[float], str] = format_rfc3339,
) -> None:
    """Write an element with a date, unless `instant` is None."""
    if instant is not None:
        put(parent, namespace, local, format_date(instant))


def comments(element: Element, item: Item) -> None:
    """Write a link to the page with an item's comments (RFC 4685, section 4)."""
    if item.comments:
        atom_link(element, Link(item.comments, "replies", "text/html"))


def atom_text(parent: Element, local: str, text: Text | None) -> None:
    if text is not None:
        put(parent, ATOM, local, text.value, type="" if text.type == "text" else text.type, src=text.src)


def atom_people(parent: Element, local: str, persons: Iterable[Person]) -> None:
    """Write persons as elements of Atom. The picture becomes a Media RSS thumbnail.

    Atom requires a name. A missing name is replaced by the email address, the URI or the picture's address.
    """
    for person in persons:
        element = put(parent, ATOM, local)
        put(element, ATOM, "name", person.name or person.email or person.uri or person.avatar)
        put_nonempty(element, ATOM, "email", person.email)
        put_nonempty(element, ATOM, "uri", person.uri)
        put_image(element, person.avatar)
        for node in person.extensions:
            add(element, node, RSS2)


def atom_link(parent: Element, link: Link) -> None:
    put(
        parent,
        ATOM,
        "link",
        rel="" if link.rel == "alternate" and parent.tag.startswith(f"{{{ATOM}}}") else link.rel,
        type=link.type,
        hreflang=link.language,
        href=link.href,
        title=link.title,
        length=link.length,
    )


def atom_category(parent: Element, category: Category) -> None:
    put(parent, ATOM, "category", term=category.term, scheme=category.scheme, label=category.label)


def atom_generator(parent: Element, generator: Generator) -> None:
    name = generator.name or generator.uri
    put(parent, ATOM, "generator", name, uri=generator.uri, version=generator.version)


def language_attributes(element: Element, language: str, direction: str, *, atom: bool = False) -> None:
    """Set xml:lang and the text direction of an element: `dir` in Atom, and its:dir in other formats."""
    if language:
        element.set(f"{{{XML}}}lang", language)
    if direction:
        element.set("dir" if atom else f"{{{ITS}}}dir", direction)


def schedule(parent: Element, hints: Schedule, core: str) -> None:
    """Write the schedule with elements of RSS (in the namespace `core`), the syndication module and iTunes."""
    put_nonempty(parent, core, "ttl", hints.ttl)
    if hints.skip_hours:
        hours = put(parent, core, "skipHours")
        for hour in sorted(hints.skip_hours):
            put(hours, core, "hour", str(hour))
    if hints.skip_days:
        days = put(parent, core, "skipDays")
        for day in sorted(hints.skip_days):
            put(days, core, "day", WEEKDAYS[day])
    if hints.period is not None:
        put(parent, SY, "updatePeriod", hints.period.value)
        put(parent, SY, "updateFrequency", str(hints.frequency))
        if hints.base is not None:
            put(parent, SY, "updateBase", format_rfc3339(int(hints.base)).replace("Z", "+00:00"))
    if hints.finished:
        put(parent, ITUNES, "complete", "Yes")


def cloud(parent: Element, values: Cloud | None, core: str) -> None:
    """Write the element `cloud` (rssCloud), in the namespace `core`."""
    if values is not None:
        element = put(parent, core, "cloud")
        for name, value in values.attributes.items():
            element.set(name, value)


def text_input(parent: Element, values: TextInput | None, core: str) -> None:
    if values is not None:
        element = put(parent, core, "textInput")
        for local in ("title", "description", "name", "link"):
            put(element, core, local, getattr(values, local))


def image(parent: Element, picture: Image, feed: Feed, core: str, about: str = "") -> None:
    """Write a picture as RSS's element `image`, in the namespace `core`.

    A missing title or link is replaced by that of the channel, because the element requires both. `about` is the name
    of an attribute for the picture's address (rdf:about), or "" for none.
    """
    element = put(parent, core, "image")
    if about:
        element.set(about, picture.url)
    put(element, core, "url", picture.url)
    title = picture.title or heading(feed)
    put(element, core, "title", markup.escape_ambiguous(Text(title)))
    put(element, core, "link", picture.link or feed.link or feed.address)
    if not core:
        put_nonempty(element, core, "width", picture.width)
        put_nonempty(element, core, "height", picture.height)
    put_nonempty(
        element, DC if core == RSS1 else core, "description", markup.escape_ambiguous(Text(picture.description))
    )


def image_size(channel: Element, picture: Image | None) -> None:
    """Write the size of the channel's picture as a Media RSS thumbnail. Atom and RSS 1.0 have no element for it."""
    if picture is not None and (picture.width or picture.height):
        put(channel, MEDIA, "thumbnail", url=picture.url, width=picture.width, height=picture.height)


def identifier(element: Element, item: Item, name: str) -> None:
    """Write the item's id, unless feedproxy can read it from `name`, the item's IRI in atom:id or rdf:about.

    A permalink becomes RSS's `guid`, and any other id becomes dc:identifier. In an item that already has a
    dc:identifier, every id becomes `guid`.
    """
    others = any((node.namespace, node.name) == (DC, "identifier") for node in item.extensions)
    if not item.id or not (others or item.id != name or item.is_permalink != (item.links[:1] == (Link(item.id),))):
        return
    if others or item.is_permalink:
        put(element, RSS2, "guid", item.id, isPermaLink=str(item.is_permalink).lower())
    else:
        put(element, DC, "identifier", item.id)


def people(parent: Element, persons: Iterable[Person]) -> None:
    """Write the names of authors as dc:creator, and authors with further values or no name also as atom:author."""
    for person in persons:
        put_nonempty(parent, DC, "creator", person.name)
        if person != Person(person.name) or not person.name:
            atom_people(parent, "author", (person,))


def item_body(element: Element, item: Item, core: str) -> None:
    """Write the item's texts: the summary as description, and the content as content:encoded.

    If there is no summary, the content is the description. If there is no content, the summary is also written as
    atom:summary. Feed readers interpret description and content:encoded as HTML, so plain text is escaped. Content that
    is neither text nor HTML, and content at another address, is written as atom:content.
    """
    content, summary = item.content, item.summary
    if content is not None and (content.src or content.type not in ("text", "html")):
        put_nonempty(element, core, "description", markup.as_html(summary) if summary is not None else "")
        atom_text(element, "summary", summary)
        atom_text(element, "content", content)
    elif content is not None and summary is not None:
        put(element, core, "description", markup.as_html(summary))
        put(element, CONTENT, "encoded", markup.as_html(content))
    elif content is not None:
        put(element, core, "description", markup.as_html(content))
    elif summary is not None:
        put(element, core, "description", markup.as_html(summary))
        atom_text(element, "summary", summary)


def item_modules(element: Element, item: Item, bare: str = "") -> None:
    """Write an item's duration, picture and extensions, which are the same in all XML formats.

    Extensions without a namespace get the namespace `bare`.
    """
    if item.enclosures and item.enclosures[0].duration is not None:
        put(element, ITUNES, "duration", str(item.enclosures[0].duration))
    put_image(element, item.image)
    for node in item.extensions:
        add(element, node, bare)


def put_image(element: Element, url: str) -> None:
    if url:
        put(element, MEDIA, "thumbnail", url=url)


def extra_links(element: Element, links: Iterable[Link], page: str) -> None:
    """Write all links except a plain link to `page`, which has its own element in RSS."""
    for link in links:
        if link != Link(page):
            atom_link(element, link)


def atom_enclosure(element: Element, enclosure: Enclosure) -> None:
    values = enclosure.type, enclosure.language, enclosure.title, enclosure.length
    atom_link(element, Link(enclosure.url, "enclosure", *values))


def channel_beyond_rss(channel: Element, feed: Feed) -> None:
    """Write elements of Atom for the parts of a channel that RSS lacks."""
    put_nonempty(channel, ATOM, "id", feed.id)
    put_nonempty(channel, ATOM, "icon", feed.icon)
    atom_people(channel, "contributor", feed.contributors)


def atom_channel(element: Element, feed: Feed, bare: str) -> None:
    """Write the elements that atom:feed and atom:source (RFC 4287, section 4.2.11) have in common.

    Extensions without a namespace get the namespace `bare`.
    """
    put_nonempty(element, ATOM, "id", feed.id)
    atom_text(element, "title", feed.title)
    atom_text(element, "subtitle", feed.summary)
    for link in feed.links:
        atom_link(element, link)
    put_date(element, ATOM, "updated", feed.updated)
    atom_people(element, "author", feed.authors)
    atom_people(element, "contributor", feed.contributors)
    for category in feed.categories:
        atom_category(element, category)
    if feed.generator is not None:
        atom_generator(element, feed.generator)
    put_nonempty(element, ATOM, "icon", feed.icon)
    if feed.image is not None:
        put(element, ATOM, "logo", feed.image.url)
    image_size(element, feed.image)
    atom_text(element, "rights", feed.rights)
    language_attributes(element, feed.language, feed.direction, atom=True)
    for node in feed.extensions:
        add(element, node, bare)
