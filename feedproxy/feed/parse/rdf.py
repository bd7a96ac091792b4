"""Parser of RSS 0.90 and 1.0, with the root element `rdf:RDF`, and of RSS 1.1, with the root element `Channel`."""

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.parse import link_elements, schedule_elements
from feedproxy.feed.parse.feed_structure import CHANNEL, Items, channel_elements, has_feed_structure
from feedproxy.feed.parse.rss import first, page
from feedproxy.feed.xml_parser import RSS11, Element, XmlTree, named_children, qualified_name

_VERSIONS = {"http://purl.org/rss/1.0/": "1.0", RSS11: "1.1"}


def read(document: XmlTree, items: Items) -> Channel | None:
    """Return the channel of RSS 0.90, 1.0 or 1.1, or None for RDF without a channel, such as FOAF."""
    root = document.root
    if is_rss11(root):
        channel: Element | None = root
    else:
        channel = next(iter(named_children(root, "channel")), None)
    if channel is None:
        return None
    core = qualified_name(channel)[0]
    is_channel = bool(_version(core))
    if not is_channel and not has_feed_structure(CHANNEL, channel, core, items.items, items.first, is_declared=False):
        return None
    elements = channel_elements(channel)
    links = link_elements.atom_links(elements)
    return Channel(
        kind=Kind.RDF,
        version=_version(core),
        well_formed=document.well_formed,
        title=first(elements, core, "title"),
        link=page(elements, core),
        schedule=schedule_elements.schedule(elements, core),
        self_links=link_elements.self_links(links),
        hubs=link_elements.hubs(links),
    )


def is_rss11(root: Element) -> bool:
    """Return True for the root element of RSS 1.1, which is the channel itself."""
    return qualified_name(root) == (RSS11, "Channel")


def _version(namespace: str) -> str:
    if namespace in _VERSIONS:
        return _VERSIONS[namespace]
    # The namespace moved from my.netscape.com to channel.netscape.com.
    return "0.90" if "netscape.com/rdf/simple/0.9" in namespace else ""
