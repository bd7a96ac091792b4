"""Writer of Atom's elements. A feed in RSS gets an element of Atom for each value for which RSS has no element."""

from feedproxy.feed.convert.model import Feed
from feedproxy.feed.convert.namespaces import ATOM
from feedproxy.feed.convert.write import xml_writer as out
from feedproxy.feed.convert.write.xml_writer import put, put_nonempty
from feedproxy.feed.convert.xml_nodes import add
from feedproxy.feed.xml_parser import Element
from feedproxy.http.date import format_rfc3339


def channel_beyond_rss(channel: Element, feed: Feed) -> None:
    """Write the elements of Atom for the parts of a channel that RSS lacks."""
    put_nonempty(channel, ATOM, "id", feed.id)
    put_nonempty(channel, ATOM, "icon", feed.icon)
    for person in feed.contributors:
        out.atom_person(channel, "contributor", person)


def atom_channel(element: Element, feed: Feed, bare: str) -> None:
    """Write the elements that atom:feed and atom:source (RFC 4287, section 4.2.11) have in common.

    Extensions without a namespace get the namespace `bare`.
    """
    put_nonempty(element, ATOM, "id", feed.id)
    out.atom_text(element, "title", feed.title)
    out.atom_text(element, "subtitle", feed.summary)
    for link in feed.links:
        out.atom_link(element, link)
    if feed.updated is not None:
        put(element, ATOM, "updated", format_rfc3339(feed.updated))
    for person in feed.authors:
        out.atom_person(element, "author", person)
    for person in feed.contributors:
        out.atom_person(element, "contributor", person)
    for category in feed.categories:
        out.atom_category(element, category)
    if feed.generator is not None:
        out.atom_generator(element, feed.generator)
    put_nonempty(element, ATOM, "icon", feed.icon)
    if feed.image is not None:
        put(element, ATOM, "logo", feed.image.url)
    out.image_size(element, feed.image)
    out.atom_text(element, "rights", feed.rights)
    out.language_attributes(element, feed.language, feed.direction, atom=True)
    for node in feed.extensions:
        add(element, node, bare)
