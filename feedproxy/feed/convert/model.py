"""The model of a feed, independent of its format. Every conversion is made from the model.

Terms are those of RSS (channel, item, ttl, cloud), and of Atom for parts that only Atom has. Links are absolute, dates
are instants, and nothing is stated twice. Reading a converted feed gives the same model (tests/feed/convert).
"""

from dataclasses import dataclass, field

from feedproxy.feed.channel import NO_HINTS, Cloud, Kind, Schedule


@dataclass(frozen=True, slots=True)
class Node:
    """An element that the model does not know. Conversions copy it.

    `attributes` are sorted, with names in Clark's notation ({namespace}local). `content` is in document order.
    """

    namespace: str
    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    content: "tuple[str | Node, ...]" = ()

    def attribute(self, name: str) -> str:
        return next((value.strip() for key, value in self.attributes if key == name), "")

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.content).strip()

    @property
    def children(self) -> "tuple[Node, ...]":
        """Return the direct child elements."""
        return tuple(part for part in self.content if isinstance(part, Node))


@dataclass(frozen=True, slots=True)
class Text:
    """A text. `type` is `text`, `html`, or a media type. `src` is the address of external content, or ""."""

    value: str
    type: str = "text"
    src: str = ""


@dataclass(frozen=True, slots=True)
class Person:
    """A person, such as an author. Unknown values are empty."""

    name: str = ""
    email: str = ""
    uri: str = ""
    avatar: str = ""
    extensions: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A link (RFC 4287, section 4.2.7). `type` is empty for an HTML page, and if the document states no type."""

    href: str
    rel: str = "alternate"
    type: str = ""
    language: str = ""
    title: str = ""
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A file that belongs to an item. `length` is in bytes, `duration` in seconds."""

    url: str
    type: str = ""
    length: int | None = None
    title: str = ""
    language: str = ""
    duration: int | None = None


@dataclass(frozen=True, slots=True)
class Category:
    """A category. `scheme` is RSS's domain. `label` is the displayed name, or empty if it equals the term."""

    term: str
    scheme: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    url: str
    title: str = ""
    link: str = ""
    width: int | None = None
    height: int | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class TextInput:
    title: str
    description: str
    name: str
    link: str


@dataclass(frozen=True, slots=True)
class Generator:
    name: str = ""
    uri: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statements:
    """The fields that channels and items have in common.

    `summary` is also the description of a channel. Instants are in whole Unix seconds. `language` is a tag of BCP 47,
    or "". `direction` is `ltr`, `rtl` or "". `members` are JSON Feed's custom objects, as names and JSON texts.
    """

    id: str = ""
    title: Text | None = None
    summary: Text | None = None
    links: tuple[Link, ...] = ()
    authors: tuple[Person, ...] = ()
    contributors: tuple[Person, ...] = ()
    categories: tuple[Category, ...] = ()
    rights: Text | None = None
    published: int | None = None
    updated: int | None = None
    language: str = ""
    direction: str = ""
    extensions: tuple[Node, ...] = ()
    members: tuple[tuple[str, str], ...] = ()

    @property
    def link(self) -> str:
        return self.first_href("alternate")

    def first_href(self, rel: str) -> str:
        return next((link.href for link in self.links if link.rel == rel), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(_Statements):
    """An item. `is_permalink` is True if its id is the address of its page."""

    is_permalink: bool = False
    content: Text | None = None
    enclosures: tuple[Enclosure, ...] = ()
    comments: str = ""
    """Address of the page with comments."""
    image: str = ""
    banner: str = ""
    source: "Feed | None" = None
    """The channel from which the item was taken, without that channel's items. None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed(_Statements):
    """A channel with its items. `kind` and `version` are those of the original document."""

    kind: Kind = field(default=Kind.RSS, compare=False)
    version: str = field(default="", compare=False)
    webmaster: Person | None = None
    generator: Generator | None = None
    image: Image | None = None
    icon: str = ""
    schedule: Schedule = NO_HINTS
    cloud: Cloud | None = None
    rating: str = ""
    text_input: TextInput | None = None
    items: tuple[Item, ...] = ()

    @property
    def address(self) -> str:
        return self.first_href("self")
