"""Parser of elements that the XML formats share: self link, hubs, and the syndication module."""

import re
from collections.abc import Iterable
from itertools import islice
from urllib.parse import urljoin

from feedproxy.feed.channel import Schedule, SelfLink
from feedproxy.feed.parse import schedule_elements
from feedproxy.feed.xml_parser import ATOM, ATOM03, SY, Child, Element, children, qualified_name, text_of

SELF_RELATIONS = frozenset(("self", "start"))
"""Relations of self links. `start` comes from Atom 0.3, which had no `self` (USM)."""


RELATION_REGISTRY = "http://www.iana.org/assignments/relation/"
"""URI of the registry of link relations. A relation can be written as its registered name, or as this URI followed by
the name (RFC 4287, section 4.2.7.2)."""

_ITUNES = "//www.itunes.com/dtds/podcast-1.0.dtd"
"""The namespace of iTunes in lower case, without its scheme."""

_PODCASTING2 = "podcastindex.org/namespace/1.0"
"""The namespace of Podcasting 2.0, without its scheme."""

_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")

LINKS_MAX = 32
"""At most this many self links, and as many hubs, are read from one channel. Known channels have three."""

HINTS_MAX = 64
"""At most this many values of one hint are read. More than 24, the number of hours in a day, have no effect."""


_UPDATES = frozenset(("updatefrequency", "updateperiod", "updatebase"))
_SKIPS = {"skiphours": "hour", "skipdays": "day"}
_READ = frozenset(("title", "link", "ttl", "cloud", "new-feed-url", "complete", *_UPDATES, *_SKIPS))
"""Names, in lower case, of the elements that the parsers read in a channel."""


def channel_elements(channel: Element) -> list[Child]:
    """Return the child elements of a channel that the parsers read.

    A document may contain a million other elements, each of which would take 128 bytes in the list.
    """
    return [child for child in children(channel) if child[1].lower() in _READ]


def atom_links(elements: Iterable[Child], namespaces: Iterable[str] = (ATOM, ATOM03)) -> list[tuple[str, Element]]:
    """Return the Atom links among `elements`, each with its namespace."""
    allowed = frozenset(namespaces)
    return [(space, link) for space, local, link in elements if local == "link" and space in allowed]


def relations(link: Element) -> list[str]:
    """Return the relations of a link, in lower case.

    A link without `rel` has the relation `alternate` (RFC 4287, section 4.2.7.2).
    """
    return [relation.removeprefix(RELATION_REGISTRY) for relation in (link.get("rel") or "alternate").lower().split()]


def self_links(links: Iterable[tuple[str, Element]]) -> tuple[SelfLink, ...]:
    """Return the links to the feed's own address.

    A relative address is resolved against xml:base, and stays relative if xml:base is missing or relative. An absolute
    address stays as written.
    """
    addresses = (
        SelfLink(relation, based_href(link), (link.get("type") or "").strip(), namespace)
        for namespace, link in links
        for relation in relations(link)
        if relation in SELF_RELATIONS
    )
    return tuple(islice(addresses, LINKS_MAX))


def hubs(links: Iterable[tuple[str, Element]]) -> tuple[str, ...]:
    """Return the addresses of the WebSub hubs among `links`, in order (WebSub, section 4).

    A relative address is resolved against xml:base, and stays relative if xml:base is missing or relative.
    """
    addresses = (based_href(link) for _, link in links if "hub" in relations(link) and _href(link))
    return tuple(islice(filter(None, addresses), LINKS_MAX))


def is_itunes(namespace: str) -> bool:
    """Return True for the namespace of iTunes, with http or https, and in any of the spellings in use."""
    return namespace.partition(":")[2].lower() == _ITUNES


def states_end(element: Element) -> bool:
    """Return True if an element of iTunes or Podcasting 2.0 states that the podcast has ended.

    "Specifying any value other than Yes has no effect." -- Apple, itunes:complete

    "complete (optional) Boolean specifying if the podcast has stopped publishing new content" -- Podcasting 2.0
    """
    namespace, local = qualified_name(element)
    if local == "complete" and is_itunes(namespace):
        return _value(element).lower() == "yes"
    if local == "updateFrequency" and namespace.endswith(_PODCASTING2):
        return (element.get("complete") or "").strip().lower() == "true"
    return False


def schedule(elements: Iterable[Child], core: str) -> Schedule:
    """Return the schedule that a channel's elements state.

    The elements are those of RSS, in the namespace `core`, of the syndication module, of iTunes and of Podcasting 2.0.
    """
    texts: dict[str, list[str]] = {}
    finished = False
    for namespace, local, element in elements:
        key = local.lower()
        if (namespace == SY and key in _UPDATES) or (namespace == core and key == "ttl"):
            values = texts.setdefault(key, [])
            if len(values) < HINTS_MAX:
                values.append(_value(element))
        elif states_end(element):
            finished = True
        elif namespace == core and key in _SKIPS and not texts.get(key):
            texts[key] = _child_values(element, _SKIPS[key])
    return schedule_elements.schedule(texts, finished=finished)


def _child_values(element: Element, name: str) -> list[str]:
    """Return the texts of the child elements with this name, or the element's own text if it has no such child."""
    values = [_value(child) for _, local, child in children(element) if local.lower() == name][:HINTS_MAX]
    return values or list(filter(None, [_value(element)]))


def _value(element: Element) -> str:
    return text_of(element) if next(element.iterchildren("*"), None) is None else ""


def based_href(link: Element) -> str:
    """Return the address of a link, resolved against xml:base (RFC 4287, section 2), or "" for an invalid xml:base.

    With a wrong base, the address of a hub could lead to another server, which would receive the secret of the
    subscription.
    """
    return resolve_base(link, _href(link))


def resolve_base(element: Element, reference: str) -> str:
    """Return a reference resolved against the xml:base of `element` and of its ancestors.

    Return "" if an xml:base is invalid.
    """
    bases = (parent.get(_BASE) for parent in (element, *element.iterancestors()))
    for base in filter(None, bases if reference else ()):
        if _SCHEME.match(reference):
            break
        try:
            reference = urljoin(base.strip(), reference)
        except ValueError:
            return ""
    return reference


def _href(link: Element) -> str:
    return (link.get("href") or "").strip()
