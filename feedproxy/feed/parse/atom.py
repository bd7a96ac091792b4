"""Parser of Atom 0.3 and 1.0: root element `feed`."""

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.parse import link_elements, schedule_elements
from feedproxy.feed.parse.feed_structure import FEED, Items, channel_elements, has_feed_structure
from feedproxy.feed.parse.rss import first
from feedproxy.feed.xml_parser import ATOM, ATOM03, Element, XmlTree, qualified_name

_VERSIONS = {ATOM: "1.0", ATOM03: "0.3"}


def read(document: XmlTree, items: Items) -> Channel | None:
    """Return the channel of an Atom document, or None if the vocabulary is not Atom."""
    root = document.root
    core = qualified_name(root)[0]
    if core and "atom" not in core.lower():
        return None
    if not has_feed_structure(FEED, root, core, items.entries, items.first, is_declared=bool(core)):
        return None
    elements = channel_elements(root)
    links = link_elements.atom_links(elements, {core, ATOM, ATOM03})
    return Channel(
        kind=Kind.ATOM,
        version=_VERSIONS.get(core) or (root.get("version") or "").strip(),
        well_formed=document.well_formed,
        title=first(elements, core, "title"),
        link=_alternate(links),
        schedule=schedule_elements.schedule(elements, core),
        self_links=link_elements.self_links(links),
        hubs=link_elements.hubs(links),
    )


def _alternate(links: list[tuple[str, Element]]) -> str:
    """Return the address of the feed's page, preferably in HTML, or "" if it has none (RFC 4287, section 4.2.7.2)."""
    pages = [link for _, link in links if "alternate" in link_elements.relations(link)]
    pages.sort(key=lambda link: (link.get("type") or "text/html") != "text/html")
    return link_elements.based_href(pages[0]) if pages else ""
