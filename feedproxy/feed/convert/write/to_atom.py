"""Writer of Atom 1.0 (RFC 4287), with elements of RSS for parts that Atom lacks.

A missing id is generated from the address or the content, so that each conversion writes the same id. A missing date
becomes the feed's date, or 1970.
"""

import uuid
from dataclasses import replace

from feedproxy.feed.convert import markup, persons
from feedproxy.feed.convert.headlines import heading, headline
from feedproxy.feed.convert.model import Feed, Item, Person, Text
from feedproxy.feed.convert.namespaces import ATOM, DCTERMS, RSS2
from feedproxy.feed.convert.write import xml_writer as out
from feedproxy.feed.convert.write.xml_writer import put, put_date, put_nonempty
from feedproxy.feed.xml_parser import Element


def render(feed: Feed) -> bytes:
    """Return the feed as an Atom document in UTF-8."""
    root = out.document(ATOM, "feed", feed, default=ATOM)
    feed = _with_required_elements(feed)
    out.atom_channel(root, feed, RSS2)
    _write_rss_elements(root, feed)
    previous_ids: set[str] = set()
    for position, item in enumerate(feed.items):
        _entry(root, item, feed, previous_ids, position)
    return out.finish(root)


def _with_required_elements(feed: Feed) -> Feed:
    """Return the feed with the author, id, title and updated that RFC 4287, section 4.1.1, requires."""
    latest = max((instant for item in feed.items if (instant := _date(item)) is not None), default=None)
    changed = next((instant for instant in (feed.updated, feed.published, latest) if instant is not None), 0)
    authors = feed.authors
    if not authors and not (feed.items and all(item.authors for item in feed.items)):
        authors = (Person(_default_author(feed)),)
    return replace(
        feed,
        id=feed.id or atom_id(feed),
        title=feed.title or Text(heading(feed)),
        updated=changed,
        authors=authors,
    )


def atom_id(feed: Feed) -> str:
    """Return the feed's id as an IRI: its id, or else its address, its page, or a UUID made from its title."""
    for candidate in (feed.id, feed.address, feed.link):
        if candidate and markup.is_iri(candidate):
            return candidate
    return _name_based_uuid(heading(feed))


def item_id(item: Item, feed: Feed) -> str:
    """Return the item's id as an IRI, or a UUID if it is not an IRI. If the item has no id, the result is its link, or
    a UUID made from its title, date and content."""
    if markup.is_iri(item.id):
        return item.id
    if item.id:
        return _name_based_uuid(f"{atom_id(feed)} {item.id}")
    if markup.is_iri(item.link):
        return item.link
    return _name_based_uuid(
        f"{atom_id(feed)} {markup.to_line(item.title)} {item.published} {markup.to_plain(item.content)}"
    )


def own_id(item: Item, feed: Feed, previous_ids: set[str]) -> str:
    """Return the item's id as an IRI, and add it to `previous_ids`, the ids of the preceding items.

    A generated id is made unique. An id from the document is kept, even if it repeats.
    """
    identity = item_id(item, feed)
    if identity in previous_ids and not item.id:
        identity = _name_based_uuid(f"{identity} {len(previous_ids)}")
    previous_ids.add(identity)
    return identity


def _name_based_uuid(name: str) -> str:
    return uuid.uuid5(uuid.NAMESPACE_URL, name).urn


def _default_author(feed: Feed) -> str:
    """Return a name for the author of a feed that states none: the webmaster's name, or the feed's title."""
    if feed.webmaster is not None and feed.webmaster.name:
        return feed.webmaster.name
    return heading(feed)


def _write_rss_elements(root: Element, feed: Feed) -> None:
    put_date(root, DCTERMS, "issued", feed.published)
    if feed.webmaster is not None:
        put(root, RSS2, "webMaster", persons.to_rss_text(feed.webmaster))
    out.cloud(root, feed.cloud, RSS2)
    out.schedule(root, feed.schedule, RSS2)
    image = feed.image
    if image is not None and (image.title or image.link or image.description):
        out.image(root, image, feed, RSS2)
    put_nonempty(root, RSS2, "rating", feed.rating)
    out.text_input(root, feed.text_input, RSS2)


def _date(item: Item) -> int | None:
    return item.updated if item.updated is not None else item.published


def _entry(root: Element, item: Item, feed: Feed, previous_ids: set[str], position: int) -> None:
    element = put(root, ATOM, "entry")
    out.language_attributes(element, item.language, item.direction, atom=True)
    identity = own_id(item, feed, previous_ids)
    put(element, ATOM, "id", identity)
    out.identifier(element, item, identity)
    if item.title is None:
        put(element, ATOM, "title", headline(item))
    out.atom_text(element, "title", item.title)
    for link in item.links:
        out.atom_link(element, link)
    for enclosure in item.enclosures:
        out.atom_enclosure(element, enclosure)
    put_date(element, ATOM, "published", item.published)
    # Entries with the same atom:updated would have no order. Dates a second apart keep the order of the feed.
    default_date = max(0, (feed.updated or 0) - position)
    changed = next((instant for instant in (item.updated, item.published) if instant is not None), default_date)
    put_date(element, ATOM, "updated", changed)
    out.atom_people(element, "author", item.authors)
    out.atom_people(element, "contributor", item.contributors)
    for category in item.categories:
        out.atom_category(element, category)
    out.atom_text(element, "rights", item.rights)
    if item.source is not None:
        out.atom_channel(put(element, ATOM, "source"), item.source, RSS2)
    out.atom_text(element, "summary", item.summary)
    if item.content is not None:
        out.atom_text(element, "content", item.content)
    elif not item.link:
        put(element, ATOM, "content")  # "MUST contain at least one" link to its page, or this -- RFC 4287, 4.1.2
    out.comments(element, item)
    out.item_modules(element, item, RSS2)
