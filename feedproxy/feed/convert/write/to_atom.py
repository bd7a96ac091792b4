"""The model as Atom 1.0 (RFC 4287), and what it has no element for in the words of RSS.

Atom demands an id and a date of every entry, and an author of each or of the feed. Where nothing is known, an id is
made of the address or of what is said, always the same one, and the date is the feed's, or that of 1970.
"""

import uuid
from dataclasses import replace

from feedproxy.feed.convert import dates, markup, persons
from feedproxy.feed.convert.model import Feed, Item, Person, Text
from feedproxy.feed.convert.namespaces import ATOM, DCTERMS, RSS2
from feedproxy.feed.convert.read.rss_as_atom import atom_channel, source
from feedproxy.feed.convert.write import xml_writer as out
from feedproxy.feed.convert.write.xml_writer import put, put_nonempty
from feedproxy.feed.xml import Element


def render(feed: Feed) -> bytes:
    """Return the document in UTF-8."""
    root = out.document(ATOM, "feed", feed, default=ATOM)
    feed = _with_required_elements(feed)
    atom_channel(root, feed, RSS2)
    _in_words_of_rss(root, feed)
    taken: set[str] = set()
    for place, item in enumerate(feed.items):
        _entry(root, item, feed, taken, place)
    return out.finish(root)


def _with_required_elements(feed: Feed) -> Feed:
    """ "atom:feed elements MUST contain exactly one" id, title and updated -- RFC 4287, 4.1.1; and a responsible."""
    latest = max((each for item in feed.items if (each := _date(item)) is not None), default=None)
    changed = next((each for each in (feed.updated, feed.published, latest) if each is not None), 0)
    authors = feed.authors
    if not authors and not (feed.items and all(item.authors for item in feed.items)):
        authors = (Person(_responsible(feed)),)
    return replace(
        feed,
        id=feed.id or feed_id(feed),
        title=feed.title or Text(out.heading(feed)),
        updated=changed,
        authors=authors,
    )


def feed_id(feed: Feed) -> str:
    """Return the feed's id; where it has none, its address, its page's, or one made of its title."""
    for each in (feed.id, feed.address, feed.link):
        if each and markup.is_iri(each):
            return each
    return _name_based_uuid(markup.to_line(feed.title) or out.heading(feed))


def item_id(item: Item, feed: Feed) -> str:
    """Return the item's id as an IRI: its own where it is one, else one made of it, of its link, or of what it says."""
    if markup.is_iri(item.id):
        return item.id
    if item.id:
        return _name_based_uuid(f"{feed_id(feed)} {item.id}")
    if markup.is_iri(item.link):
        return item.link
    return _name_based_uuid(
        f"{feed_id(feed)} {markup.to_line(item.title)} {item.published} {markup.to_plain(item.content)}"
    )


def own_id(item: Item, feed: Feed, taken: set[str]) -> str:
    """Return the same, and no other item's where it was put in; `taken` are those before it, and it then."""
    identity = item_id(item, feed)
    if identity in taken and not item.id:
        identity = _name_based_uuid(f"{identity} {len(taken)}")
    taken.add(identity)
    return identity


def _name_based_uuid(name: str) -> str:
    """RFC 9562, 5.5: the same name gives the same UUID."""
    return uuid.uuid5(uuid.NAMESPACE_URL, name).urn


def _responsible(feed: Feed) -> str:
    """Who stands for a feed that names nobody: its webmaster, or the feed itself."""
    if feed.webmaster is not None and feed.webmaster.name:
        return feed.webmaster.name
    return markup.to_line(feed.title) or out.heading(feed)


def _in_words_of_rss(root: Element, feed: Feed) -> None:
    if feed.published is not None:
        put(root, DCTERMS, "issued", dates.rfc3339(feed.published))
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


def _entry(root: Element, item: Item, feed: Feed, taken: set[str], place: int) -> None:
    element = put(root, ATOM, "entry")
    out.language_attributes(element, item.language, item.direction, atom=True)
    identity = own_id(item, feed, taken)
    put(element, ATOM, "id", identity)
    out.identifier(element, item, identity)
    if item.title is None:
        put(element, ATOM, "title", out.headline(item))
    out.atom_text(element, "title", item.title)
    for link in item.links:
        out.atom_link(element, link)
    for enclosure in item.enclosures:
        out.atom_enclosure(element, enclosure)
    if item.published is not None:
        put(element, ATOM, "published", dates.rfc3339(item.published))
    # "two entries [with] the same 'atom:updated'" would stand in no order: the feed's own order is told by seconds.
    put_in = max(0, (feed.updated or 0) - place)
    changed = next((each for each in (item.updated, item.published) if each is not None), put_in)
    put(element, ATOM, "updated", dates.rfc3339(changed))
    for person in item.authors:
        out.atom_person(element, "author", person)
    for person in item.contributors:
        out.atom_person(element, "contributor", person)
    for category in item.categories:
        out.atom_category(element, category)
    out.atom_text(element, "rights", item.rights)
    if item.source is not None:
        source(element, item.source, RSS2)
    out.atom_text(element, "summary", item.summary)
    if item.content is not None:
        out.atom_text(element, "content", item.content)
    elif not item.link:
        put(element, ATOM, "content")  # "MUST contain at least one" link to its page, or this -- RFC 4287, 4.1.2
    out.comments(element, item)
    out.item_modules(element, item, RSS2)
