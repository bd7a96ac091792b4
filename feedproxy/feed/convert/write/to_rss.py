"""Writer of RSS 2.0, with elements of Atom and Dublin Core for parts that RSS lacks.

The specifications are RSS 2.0 and the RSS Best Practices Profile.
"""

from feedproxy.feed.convert import markup
from feedproxy.feed.convert import persons as people
from feedproxy.feed.convert.headlines import heading, headline
from feedproxy.feed.convert.model import Category, Enclosure, Feed, Item, Person
from feedproxy.feed.convert.namespaces import ATOM, DC
from feedproxy.feed.convert.write import xml_writer as out
from feedproxy.feed.convert.write.to_atom import own_id
from feedproxy.feed.convert.write.xml_writer import put, put_date, put_nonempty
from feedproxy.feed.convert.xml_nodes import add
from feedproxy.feed.xml_parser import Element
from feedproxy.http.date import format_http_date

_DOCS = "https://www.rssboard.org/rss-specification"


def render(feed: Feed) -> bytes:
    root = out.document("", "rss", feed)
    root.set("version", "2.0")
    channel = put(root, "", "channel")
    put(channel, "", "title", markup.escape_ambiguous(feed.title) if feed.title else heading(feed))
    put(channel, "", "link", feed.link or feed.address)
    put(channel, "", "description", markup.escape_ambiguous(feed.summary) if feed.summary else "")
    put_nonempty(channel, "", "language", feed.language)
    out.language_attributes(channel, "", feed.direction)
    if feed.rights is not None:
        put(channel, "", "copyright", markup.escape_ambiguous(feed.rights))
    _people(channel, feed.authors, "managingEditor")
    if feed.webmaster is not None:
        put(channel, "", "webMaster", people.to_rss_text(feed.webmaster))
    put_date(channel, "", "pubDate", feed.published, format_http_date)
    put_date(channel, "", "lastBuildDate", feed.updated, format_http_date)
    _categories(channel, feed.categories)
    if feed.generator is not None:
        if feed.generator.uri or feed.generator.version:
            out.atom_generator(channel, feed.generator)
        else:
            put(channel, "", "generator", feed.generator.name)
    put(channel, "", "docs", _DOCS)
    out.cloud(channel, feed.cloud, "")
    out.schedule(channel, feed.schedule, "")
    if feed.image is not None:
        out.image(channel, feed.image, feed, "")
    put_nonempty(channel, "", "rating", feed.rating)
    out.text_input(channel, feed.text_input, "")
    out.extra_links(channel, feed.links, feed.link)
    out.channel_beyond_rss(channel, feed)
    for node in feed.extensions:
        add(channel, node)
    previous_ids: set[str] = set()
    for item in feed.items:
        _item(channel, item, feed, previous_ids)
    return out.finish(root)


def _item(channel: Element, item: Item, feed: Feed, previous_ids: set[str]) -> None:
    element = put(channel, "", "item")
    out.language_attributes(element, item.language, item.direction)
    if item.title is not None:
        put(element, "", "title", markup.escape_ambiguous(item.title))
    elif item.content is None and item.summary is None:
        put(element, "", "title", headline(item))
    put_nonempty(element, "", "link", item.link)
    out.item_body(element, item, "")
    _people(element, item.authors, "author")
    out.atom_people(element, "contributor", item.contributors)
    _categories(element, item.categories)
    put_nonempty(element, "", "comments", item.comments)
    for enclosure in item.enclosures:
        _enclosure(element, enclosure)
    if item.id:
        put(element, "", "guid", item.id, isPermaLink="" if item.is_permalink else "false")
    elif markup.is_web(item.link):
        put(element, "", "guid", item.link)
    else:
        put(element, "", "guid", own_id(item, feed, previous_ids), isPermaLink="false")
    _dates(element, item)
    if item.source is not None:
        title = markup.to_line(item.source.title) or item.source.address
        if item.source.address:
            put(element, "", "source", title, url=item.source.address)
        out.atom_channel(put(element, ATOM, "source"), item.source, "")
    if item.rights is not None:
        put(element, DC, "rights", markup.escape_ambiguous(item.rights))
    out.extra_links(element, item.links, item.link)
    out.item_modules(element, item)


def _dates(element: Element, item: Item) -> None:
    date = item.published if item.published is not None else item.updated
    put_date(element, "", "pubDate", date, format_http_date)
    if item.published == item.updated:
        put_date(element, ATOM, "published", item.updated)
    put_date(element, ATOM, "updated", item.updated)


def _people(element: Element, persons: tuple[Person, ...], local: str) -> None:
    """Write the first person as the element `local` if possible, and all others as dc:creator or atom:author.

    `local` is `author` or `managingEditor`. Both require an email address, and have no place for a URI. RSS 2.0 permits
    only one author: "It's the email address of the author of the item".
    """
    for at, person in enumerate(persons):
        if at == 0 and people.is_email(person.email) and (local == "author" or person.name) and not person.uri:
            put(element, "", local, people.to_rss_text(person))
            if person.avatar or person.extensions:
                out.atom_people(element, "author", (person,))
        else:
            out.people(element, (person,))


def _categories(element: Element, categories: tuple[Category, ...]) -> None:
    for category in categories:
        put(element, "", "category", category.term, domain=category.scheme)
        if category.label:
            out.atom_category(element, category)


def _enclosure(element: Element, enclosure: Enclosure) -> None:
    put(
        element,
        "",
        "enclosure",
        url=enclosure.url,
        length=enclosure.length or 0,
        type=enclosure.type or "application/octet-stream",
    )
    if enclosure.title or enclosure.language or not enclosure.type:
        out.atom_enclosure(element, enclosure)  # RSS's element lacks these properties
