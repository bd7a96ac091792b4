"""Check whether a document has the structure of a feed.

Other vocabularies also have `rss` (resident set size), `feed` (for animals) and `channel` (of television). Their
documents can contain data for one client alone, and must not count as feeds.

A version number or a namespace declares the vocabulary, and one element confirms the declaration. A document without a
declaration is a feed in three cases:

1. It has an element that occurs only in feeds, such as `skipHours`.
2. It has two elements that a channel can have. All items together count as one of them.
3. It has only elements that a channel can have.

In case 2, and in case 3 with items, the first item must have an element that items can have.
"""

import re

from msgspec import Struct

from feedproxy.feed.xml_parser import Child, Element, attributes, children

_VERSION = re.compile(r"\s*[0-9]")

CHANNEL = frozenset(
    (
        "title", "link", "description", "item", "language", "copyright", "managingeditor", "webmaster",
        "pubdate", "lastbuilddate", "category", "generator", "docs", "cloud", "ttl", "image", "rating",
        "textinput", "skiphours", "skipdays", "items", "author"
    )
)  # fmt: skip
"""Elements of the channel of RSS 0.90 to 2.0, in lower case."""

FEED = frozenset(
    (
        "id", "title", "updated", "modified", "issued", "created", "link", "entry", "author", "contributor",
        "subtitle", "tagline", "summary", "category", "generator", "icon", "logo", "rights", "copyright", "info"
    )
)  # fmt: skip
"""Elements of the feed of Atom 0.3 and 1.0, in lower case."""

_DISTINCTIVE = frozenset(
    (
        "ttl", "skiphours", "skipdays", "lastbuilddate", "managingeditor", "webmaster", "textinput", "subtitle",
        "tagline"
    )
)  # fmt: skip

ITEM = CHANNEL | FEED | frozenset(("guid", "comments", "enclosure", "source", "published", "content", "about"))
"""Elements of an item or entry, and the attribute `rdf:about`, in lower case."""


_READ = frozenset(
    (
        "title", "link", "ttl", "cloud", "new-feed-url", "complete", "skiphours", "skipdays", "updatefrequency",
        "updateperiod", "updatebase"
    )
)  # fmt: skip
"""Elements that the parsers read in a channel, in lower case."""


class Items(Struct, frozen=True):
    """Summary of the items that were removed from a document's tree.

    `items` and `entries` are the numbers of elements `item` and `entry`. `first` contains the local names of the first
    item's elements and attributes. It is None if no item was parsed.
    """

    items: int = 0
    entries: int = 0
    first: frozenset[str] | None = None


def channel_elements(channel: Element) -> list[Child]:
    """Return the child elements of a channel that the parsers read.

    All others are left out: a document can contain a million, and each takes 128 bytes in the list.
    """
    return [child for child in children(channel) if child[1].lower() in _READ]


def local_names(element: Element) -> frozenset[str]:
    """Return the local names of an item's elements and attributes, in lower case."""
    keys = (key.rpartition("}")[2] for key, _ in attributes(element))
    return frozenset(name.lower() for name in (*keys, *(local for _, local, _ in children(element))))


def is_version(value: str | None) -> bool:
    """Return True if the value is a version number such as "0.91" or "2.0"."""
    return _VERSION.match(value or "") is not None


def has_feed_structure(
    feed_names: frozenset[str],
    element: Element,
    core: str,
    items: int,
    first: frozenset[str] | None,
    *,
    is_declared: bool,
) -> bool:
    """Return True if `element` is the channel of a feed: its children in the namespace `core` and its items decide.

    `feed_names` are the elements of the format's channels, in lower case. `items` is the number of items, and `first`
    has the names in the first one (`Items.first`). `is_declared` is True if a version or namespace declares the
    vocabulary.
    """
    own_names = {local.lower() for namespace, local, _ in children(element) if namespace == core}
    if not own_names - feed_names and not items:
        return True
    if is_declared:
        return bool(items) or not own_names.isdisjoint(feed_names)
    if not _DISTINCTIVE.isdisjoint(own_names & feed_names):
        return True
    is_known = not items or not first or not ITEM.isdisjoint(first)
    return is_known and (not own_names - feed_names or len(own_names & feed_names) + bool(items) > 1)
