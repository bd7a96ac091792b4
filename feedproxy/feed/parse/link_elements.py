"""Parser of links in the XML formats: self links, hubs, and xml:base."""

import re
from collections.abc import Iterable
from itertools import islice
from urllib.parse import urljoin

from feedproxy.feed.channel import SelfLink
from feedproxy.feed.xml_parser import ATOM, ATOM03, Child, Element

SELF_RELATIONS = frozenset(("self", "start"))
"""Relations of self links. `start` comes from Atom 0.3, which had no `self` (USM)."""


RELATION_REGISTRY = "http://www.iana.org/assignments/relation/"
"""URI of the registry of link relations. Links state a relation by its registered name, or by this URI followed by the
name (RFC 4287, section 4.2.7.2)."""

_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")

LINKS_MAX = 32
"""Maximum number of self links read from one channel, and of hubs. Known channels have three."""


def atom_links(elements: Iterable[Child], namespaces: Iterable[str] = (ATOM, ATOM03)) -> list[tuple[str, Element]]:
    """Return the Atom links among `elements`, each with its namespace."""
    allowed = frozenset(namespaces)
    return [(space, link) for space, local, link in elements if local == "link" and space in allowed]


def relations(link: Element) -> list[str]:
    """Return the relations of a link, in lower case. A missing `rel` means `alternate` (RFC 4287, section 4.2.7.2)."""
    return [relation.removeprefix(RELATION_REGISTRY) for relation in (link.get("rel") or "alternate").lower().split()]


def self_links(links: Iterable[tuple[str, Element]]) -> tuple[SelfLink, ...]:
    """Return the links to the feed's own address.

    A relative address is resolved against xml:base. It stays relative if xml:base is missing or relative.
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

    A relative address is resolved against xml:base. It stays relative if xml:base is missing or relative.
    """
    addresses = (based_href(link) for _, link in links if "hub" in relations(link) and _href(link))
    return tuple(islice(filter(None, addresses), LINKS_MAX))


def based_href(link: Element) -> str:
    """Return the address of a link, resolved against xml:base (RFC 4287, section 2), or "" for an invalid xml:base.

    With a wrong base, the secret of the subscription could be sent to another server than the hub.
    """
    return resolve_base(link, _href(link))


def resolve_base(element: Element, reference: str) -> str:
    """Return a reference resolved against the xml:base of the element and its ancestors, or "" if one is invalid."""
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
