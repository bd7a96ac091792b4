"""Parser of RSS 0.91 to 2.0: root element `rss`."""

from collections.abc import Iterable, Iterator

from feedproxy.feed.channel import CLOUD_ATTRIBUTES, Channel, Cloud, Kind
from feedproxy.feed.parse import link_elements, schedule_elements
from feedproxy.feed.parse.feed_structure import CHANNEL, Items, channel_elements, has_feed_structure, is_version
from feedproxy.feed.xml_parser import (
    Child,
    Element,
    XmlTree,
    attribute_of,
    is_itunes,
    named_children,
    qualified_name,
    text_of,
)


def read(document: XmlTree, items: Items) -> Channel | None:
    """Return the channel of an RSS document, or None for another vocabulary. Version and `channel` can be missing."""
    root = document.root
    channel = next(iter(named_children(root, "channel")), root)
    # Some feeds put RSS itself into a namespace: the elements of RSS are those in the namespace of `channel`.
    core = qualified_name(channel)[0]
    version = attribute_of(root, "version").strip()
    is_declared = is_version(version)
    is_channel = is_declared and channel is not root
    if not is_channel and not has_feed_structure(
        CHANNEL, channel, core, items.items, items.first, is_declared=is_declared
    ):
        return None
    elements = channel_elements(channel)
    links = link_elements.atom_links(elements)
    return Channel(
        kind=Kind.RSS,
        version=version,
        well_formed=document.well_formed,
        title=first(elements, core, "title"),
        link=page(elements, core),
        schedule=schedule_elements.schedule(elements, core),
        self_links=link_elements.self_links(links),
        hubs=link_elements.hubs(links),
        cloud=_cloud(elements, core),
        new_feed_url=_new_feed_url(elements),
    )


def first(elements: Iterable[Child], core: str, name: str) -> str:
    """Return the text of the first non-empty element with this name, or "" if there is none.

    `core` is the namespace of the format's elements. Names are case-insensitive, and `name` is in lower case.
    """
    return next((text for _, text in _texts(elements, core, name)), "")


def page(elements: Iterable[Child], core: str) -> str:
    """Return the address of the channel's page, resolved against xml:base, or "" if it has none. `core` is the
    namespace of the format's elements."""
    return next((link_elements.resolve_base(link, address) for link, address in _texts(elements, core, "link")), "")


def _texts(elements: Iterable[Child], core: str, name: str) -> Iterator[tuple[Element, str]]:
    for namespace, local, element in elements:
        if namespace == core and local.lower() == name and (text := text_of(element)):
            yield element, text


def _new_feed_url(elements: Iterable[Child]) -> str:
    for namespace, local, element in elements:
        if local == "new-feed-url" and is_itunes(namespace):
            return text_of(element)
    return ""


def _cloud(elements: Iterable[Child], core: str) -> Cloud | None:
    for namespace, local, element in elements:
        if namespace == core and local.lower() == "cloud":
            return Cloud(*(attribute_of(element, name) for name in CLOUD_ATTRIBUTES))
    return None
