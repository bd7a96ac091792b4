"""Whether a document has the structure of a feed, and not only the name of a feed's root element.

`rss`, `feed` and `channel` are words of other vocabularies, too: memory in use, animals, television. What such a
document holds is not known to be the same for every client, so it is no feed on the strength of a name.

A number of a version, or a namespace, is the publisher's statement that the vocabulary is a feed's; one element of it
then confirms that. Without the statement the elements have to show it: by one that only feeds have, by two others, or
by nothing foreign being there. An element without any content contradicts nothing. Elements in namespaces of their own
are extensions, and say nothing either way.
"""

import re
from dataclasses import dataclass

from feedproxy.feed.xml import Element, attributes, children

_VERSION = re.compile(r"\s*[0-9]")

CHANNEL = frozenset(
    (
        "title", "link", "description", "item", "language", "copyright", "managingeditor", "webmaster",
        "pubdate", "lastbuilddate", "category", "generator", "docs", "cloud", "ttl", "image", "rating",
        "textinput", "skiphours", "skipdays", "items", "author"
    )
)  # fmt: skip
"""Elements of RSS's channel, 0.90 to 2.0, in lower case."""

FEED = frozenset(
    (
        "id", "title", "updated", "modified", "issued", "created", "link", "entry", "author", "contributor",
        "subtitle", "tagline", "summary", "category", "generator", "icon", "logo", "rights", "copyright", "info"
    )
)  # fmt: skip
"""Elements of Atom's feed, 0.3 and 1.0."""

_DISTINCTIVE = frozenset(
    (
        "ttl", "skiphours", "skipdays", "lastbuilddate", "managingeditor", "webmaster", "textinput", "subtitle",
        "tagline"
    )
)  # fmt: skip
"""Those that hardly any other vocabulary has."""

ITEM = CHANNEL | FEED | frozenset(("guid", "comments", "enclosure", "source", "published", "content", "about"))
"""Elements of an item or entry, and `rdf:about`."""


@dataclass(frozen=True, slots=True)
class Items:
    """What is known of a document's items, which are taken out of its tree: how many there were by name, and what
    names the first one's elements and attributes have (None: not looked at yet)."""

    items: int = 0
    entries: int = 0
    first: frozenset[str] | None = None


def local_names(element: Element) -> frozenset[str]:
    """The local names of an item's elements and attributes, in lower case."""
    keys = (key.rpartition("}")[2] for key, _ in attributes(element))
    return frozenset(name.lower() for name in (*keys, *(local for _, local, _ in children(element))))


def is_version(value: str | None) -> bool:
    """Whether this is a number of a version: "0.91", "2.0"."""
    return _VERSION.match(value or "") is not None


def has_feed_structure(
    known: frozenset[str], element: Element, core: str, items: int, first: frozenset[str] | None, *, is_said: bool
) -> bool:
    """Whether `element`, with its items, is made of `known` elements, those in the namespace `core` considered.

    `is_said`: the document states by a version or a namespace that it is.
    """
    own = {local.lower() for namespace, local, _ in children(element) if namespace == core}
    if not own - known and not items:
        return True
    if is_said:
        return bool(items) or not own.isdisjoint(known)
    if not _DISTINCTIVE.isdisjoint(own & known):
        return True
    is_known = not items or not first or not ITEM.isdisjoint(first)
    return is_known and (not own - known or len(own & known) + bool(items) > 1)
