"""Writer of RSS 1.0 with its modules, and with elements of Atom and RSS 2.0 for parts that RSS 1.0 lacks."""

from collections import Counter

from feedproxy.feed.convert import markup, persons
from feedproxy.feed.convert.headlines import heading, headline
from feedproxy.feed.convert.model import Category, Feed, Item
from feedproxy.feed.convert.namespaces import ADMIN, ATOM, DC, DCTERMS, RDF, RSS1, RSS2
from feedproxy.feed.convert.write import xml_writer as out
from feedproxy.feed.convert.write.to_atom import atom_id, item_id
from feedproxy.feed.convert.write.xml_writer import put, put_date, put_nonempty
from feedproxy.feed.convert.xml_nodes import add
from feedproxy.feed.xml_parser import Element

_ABOUT, _RESOURCE = f"{{{RDF}}}about", f"{{{RDF}}}resource"


def render(feed: Feed) -> bytes:
    root = out.document(RDF, "RDF", feed, default=RSS1)
    channel = put(root, RSS1, "channel")
    channel.set(_ABOUT, feed.address or atom_id(feed))
    names = _names(feed)
    _channel(channel, feed)
    if feed.image is not None:
        put(channel, RSS1, "image").set(_RESOURCE, feed.image.url)
    sequence = put(put(channel, RSS1, "items"), RDF, "Seq")
    for name in names:
        put(sequence, RDF, "li").set(_RESOURCE, name)
    if feed.text_input is not None:
        put(channel, RSS1, "textinput").set(_RESOURCE, feed.text_input.link)
    out.image_size(channel, feed.image)
    for node in feed.extensions:
        add(channel, node, RSS2)
    if feed.image is not None:
        out.image(root, feed.image, feed, RSS1, about=_ABOUT)
    for name, item in zip(names, feed.items, strict=True):
        _item(root, item, name)
    if feed.text_input is not None:
        field = put(root, RSS1, "textinput")
        field.set(_ABOUT, feed.text_input.link)
        for local in ("title", "description", "name", "link"):
            put(field, RSS1, local, getattr(feed.text_input, local))
    return out.finish(root)


def _names(feed: Feed) -> list[str]:
    """Return the rdf:about of each item: its IRI (`item_id`), with a suffix if an earlier item has the same IRI.

    RSS 1.0: each rdf:about "must be unique".
    """
    names: list[str] = []
    previous_names: set[str] = set()
    copies: Counter[str] = Counter()
    for item in feed.items:
        name = first = item_id(item, feed)
        while name in previous_names:
            copies[first] += 1
            name = f"{first}#" if copies[first] == 1 else f"{first}#{copies[first]}"
        previous_names.add(name)
        names.append(name)
    return names


def _channel(channel: Element, feed: Feed) -> None:
    put(channel, RSS1, "title", markup.escape_ambiguous(feed.title) if feed.title else heading(feed))
    put(channel, RSS1, "link", feed.link or feed.address)
    put(channel, RSS1, "description", markup.escape_ambiguous(feed.summary) if feed.summary else "")
    put_nonempty(channel, DC, "language", feed.language)
    out.language_attributes(channel, "", feed.direction)
    if feed.rights is not None:
        put(channel, DC, "rights", markup.escape_ambiguous(feed.rights))
    out.people(channel, feed.authors)
    if feed.webmaster is not None:
        put(channel, RSS2, "webMaster", persons.to_rss_text(feed.webmaster))
    put_date(channel, DC, "date", feed.updated)
    put_date(channel, DCTERMS, "issued", feed.published)
    _categories(channel, feed.categories)
    if feed.generator is not None:
        if feed.generator.name or feed.generator.version or not markup.is_iri(feed.generator.uri):
            out.atom_generator(channel, feed.generator)
        else:
            put(channel, ADMIN, "generatorAgent").set(_RESOURCE, feed.generator.uri)
    out.cloud(channel, feed.cloud, RSS2)
    out.schedule(channel, feed.schedule, RSS2)
    put_nonempty(channel, RSS2, "rating", feed.rating)
    out.extra_links(channel, feed.links, feed.link)
    out.channel_beyond_rss(channel, feed)


def _item(root: Element, item: Item, name: str) -> None:
    element = put(root, RSS1, "item")
    element.set(_ABOUT, name)
    out.language_attributes(element, item.language, item.direction)
    put(element, RSS1, "title", markup.escape_ambiguous(item.title) if item.title else headline(item))
    put(element, RSS1, "link", item.link or name)
    out.item_body(element, item, RSS1)
    out.people(element, item.authors)
    out.atom_people(element, "contributor", item.contributors)
    _categories(element, item.categories)
    out.comments(element, item)
    for enclosure in item.enclosures:
        out.atom_enclosure(element, enclosure)
    out.identifier(element, item, name)
    date = item.published if item.published is not None else item.updated
    put_date(element, DC, "date", date)
    if item.published == item.updated:
        put_date(element, DCTERMS, "issued", item.updated)
    put_date(element, DCTERMS, "modified", item.updated)
    if item.source is not None:
        out.atom_channel(put(element, ATOM, "source"), item.source, RSS2)
    if item.rights is not None:
        put(element, DC, "rights", markup.escape_ambiguous(item.rights))
    out.extra_links(element, item.links, item.link)
    out.item_modules(element, item, RSS2)


def _categories(element: Element, categories: tuple[Category, ...]) -> None:
    for category in categories:
        if not category.scheme:
            put(element, DC, "subject", category.term)
        if category.scheme or category.label:
            out.atom_category(element, category)
