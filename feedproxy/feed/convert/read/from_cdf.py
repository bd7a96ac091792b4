"""Conversion of a document in the Channel Definition Format (1997) to the model. Names are case-insensitive."""

from feedproxy.feed import feed_dates
from feedproxy.feed.channel import NO_HINTS, Channel, Kind, Schedule
from feedproxy.feed.convert import markup
from feedproxy.feed.convert.model import Feed, Image, Item, Link
from feedproxy.feed.convert.read.element_precedence import merge_links
from feedproxy.feed.xml_parser import Element, attributes, named_children, text_of
from feedproxy.feed.xml_well_formedness import valid_text

_MINUTE = 60


def channel(root: Element, parsed: Channel, base: str) -> Feed:
    base = markup.resolve(base, _attribute(root, "base"))
    interval = parsed.schedule.interval
    logo = next((child for child in named_children(root, "logo")), None)
    href = _attribute(logo, "href") if logo is not None else ""
    own = _attribute(root, "self")
    links = [Link(markup.resolve(base, parsed.link))] if parsed.link else []
    if own:
        links.append(Link(markup.resolve(base, own), "self"))
    return Feed(
        kind=Kind.CDF,
        title=markup.make_text(_text(root, "title"), is_html=True),
        summary=markup.make_text(_text(root, "abstract"), is_html=True),
        links=merge_links(links),
        updated=feed_dates.parse(_attribute(root, "lastmod")),
        language=_attribute(root, "language"),
        image=Image(markup.resolve(base, href)) if href else None,
        schedule=Schedule(ttl=int(interval // _MINUTE) or None) if interval else NO_HINTS,
    )


def item(element: Element, base: str) -> Item:
    for parent in [*reversed(list(element.iterancestors())), element]:
        base = markup.resolve(base, _attribute(parent, "base")) if _attribute(parent, "base") else base
    href = _attribute(element, "href") or next(
        (_attribute(child, "href") for child in named_children(element, "a")), ""
    )
    address = markup.resolve(base, href)
    return Item(
        title=markup.make_text(_text(element, "title"), is_html=True),
        content=markup.make_text(_text(element, "abstract"), is_html=True),
        links=(Link(address),) if address else (),
        updated=feed_dates.parse(_attribute(element, "lastmod")),
    )


def _text(parent: Element, name: str) -> str:
    return next((text for child in named_children(parent, name) if (text := valid_text(text_of(child)))), "")


def _attribute(element: Element, name: str) -> str:
    return next((valid_text(value).strip() for key, value in attributes(element) if key.lower() == name), "")
