"""Parser of RSS 0.90 and 1.0: root element `rdf:RDF`."""

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.parse import xml_elements
from feedproxy.feed.parse.feed_structure import CHANNEL, Items, has_feed_structure
from feedproxy.feed.parse.rss import first
from feedproxy.feed.xml_parser import XmlTree, children, qualified_name

_RSS10 = "http://purl.org/rss/1.0/"


def read(document: XmlTree, items: Items) -> Channel | None:
    """Return the channel of RSS 0.90 or 1.0, or None for RDF without a channel, such as FOAF."""
    channel = next((child for _, local, child in children(document.root) if local.lower() == "channel"), None)
    if channel is None:
        return None
    core = qualified_name(channel)[0]
    is_channel = bool(_version(core))
    if not is_channel and not has_feed_structure(CHANNEL, channel, core, items.items, items.first, is_declared=False):
        return None
    elements = xml_elements.channel_elements(channel)
    links = xml_elements.atom_links(elements)
    return Channel(
        kind=Kind.RDF,
        version=_version(core),
        well_formed=document.well_formed,
        title=first(elements, core, "title"),
        link=first(elements, core, "link"),
        schedule=xml_elements.schedule(elements, core),
        self_links=xml_elements.self_links(links),
        hubs=xml_elements.hubs(links),
    )


def _version(namespace: str) -> str:
    if namespace == _RSS10:
        return "1.0"
    # The namespace moved from my.netscape.com to channel.netscape.com.
    return "0.90" if "netscape.com/rdf/simple/0.9" in namespace else ""
