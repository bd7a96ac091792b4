"""Parser of RSS 0.91 to 2.0: root element `rss`."""

from feedproxy.feed.channel import Channel, Cloud, Kind
from feedproxy.feed.parse import xml_elements
from feedproxy.feed.parse.feed_structure import CHANNEL, Items, has_feed_structure, is_version
from feedproxy.feed.xml_parser import Element, XmlTree, children, qualified_name, text_of


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
    links = xml_elements.atom_links(channel)
    return Channel(
        kind=Kind.RSS,
        version=(root.get("version") or "").strip(),
        well_formed=document.well_formed,
        title=first(channel, core, "title"),
        link=first(channel, core, "link"),
        schedule=xml_elements.schedule(channel, core),
        self_links=xml_elements.self_links(links),
        hubs=xml_elements.hubs(links),
        cloud=_cloud(channel, core),
        new_feed_url=_new_feed_url(channel),
    )


def first(channel: Element, core: str, name: str) -> str:
    """Return the text of the first non-empty element with this name, or ""."""
    texts = (text_of(child) for space, local, child in children(channel) if (space, local) == (core, name))
    return next((text for text in texts if text), "")


def _new_feed_url(channel: Element) -> str:
    """Return the text of itunes:new-feed-url, or ""."""
    for namespace, local, element in children(channel):
        if local == "new-feed-url" and xml_elements.is_itunes(namespace):
            return text_of(element)
    return ""


def _cloud(channel: Element, core: str) -> Cloud | None:
    for namespace, local, element in children(channel):
        if namespace == core and local == "cloud":
            return Cloud(
                domain=element.get("domain") or "",
                port=element.get("port") or "",
                path=element.get("path") or "",
                register_procedure=element.get("registerProcedure") or "",
                protocol=element.get("protocol") or "",
            )
    return None
