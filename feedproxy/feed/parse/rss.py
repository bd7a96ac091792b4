"""Parser of RSS 0.91 to 2.0: root element `rss`."""

from collections.abc import Iterable

from feedproxy.feed.channel import Channel, Cloud, Kind
from feedproxy.feed.parse import xml_elements
from feedproxy.feed.parse.feed_structure import CHANNEL, Items, has_feed_structure, is_version
from feedproxy.feed.xml_parser import Child, XmlTree, children, qualified_name, text_of


def read(document: XmlTree, items: Items) -> Channel | None:
    """Return the channel of an RSS document, or None if `rss` belongs to another vocabulary.

    The version and the element `channel` may be missing.
    """
    root = document.root
    channel = next((child for _, local, child in children(root) if local.lower() == "channel"), root)
    # Some feeds put RSS itself into a namespace: the elements of RSS are those in the namespace of `channel`.
    core = qualified_name(channel)[0]
    is_declared = is_version(root.get("version"))
    is_channel = is_declared and channel is not root
    if not is_channel and not has_feed_structure(
        CHANNEL, channel, core, items.items, items.first, is_declared=is_declared
    ):
        return None
    elements = xml_elements.channel_elements(channel)
    links = xml_elements.atom_links(elements)
    return Channel(
        kind=Kind.RSS,
        version=(root.get("version") or "").strip(),
        well_formed=document.well_formed,
        title=first(elements, core, "title"),
        link=first(elements, core, "link"),
        schedule=xml_elements.schedule(elements, core),
        self_links=xml_elements.self_links(links),
        hubs=xml_elements.hubs(links),
        cloud=_cloud(elements, core),
        new_feed_url=_new_feed_url(elements),
    )


def first(elements: Iterable[Child], core: str, name: str) -> str:
    """Return the text of the first non-empty element with this name, or ""."""
    texts = (text_of(child) for space, local, child in elements if local == name and space == core)
    return next((text for text in texts if text), "")


def _new_feed_url(elements: Iterable[Child]) -> str:
    """Return the text of itunes:new-feed-url, or ""."""
    for namespace, local, element in elements:
        if local == "new-feed-url" and xml_elements.is_itunes(namespace):
            return text_of(element)
    return ""


def _cloud(elements: Iterable[Child], core: str) -> Cloud | None:
    for namespace, local, element in elements:
        if namespace == core and local == "cloud":
            return Cloud(
                domain=element.get("domain") or "",
                port=element.get("port") or "",
                path=element.get("path") or "",
                register_procedure=element.get("registerProcedure") or "",
                protocol=element.get("protocol") or "",
            )
    return None
