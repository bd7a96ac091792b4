"""The model of a feed, independent of its format. Every rendering is made from it.

Terms are those of RSS (channel, item, ttl, cloud), and Atom's for parts that only Atom has (rights, contributors, the
rel of a link). The model is canonical: links are absolute, dates are instants, HTML without a tag is text, and nothing
is stated twice. Two documents can therefore be compared, and parsing a rendering gives the model again
(tests/feed/convert).
"""

from dataclasses import dataclass, field

from feedproxy.feed.channel import Cloud, Kind, Schedule


@dataclass(frozen=True, slots=True)
class Node:
    """An unchanged element of a vocabulary that is not part of the model.

    `attributes` are sorted, with names in Clark's notation ({namespace}local). `content` contains texts and elements in
    order.
    """

    namespace: str
    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    content: "tuple[str | Node, ...]" = ()

    def attribute(self, name: str) -> str:
        """Return the value of an attribute, without surrounding white space. Return an empty text if it is absent."""
        return next((value.strip() for key, value in self.attributes if key == name), "")

    @property
    def text(self) -> str:
        """Return all text in the element and in the elements that it contains, without surrounding white space."""
        return "".join(part if isinstance(part, str) else part.text for part in self.content).strip()

    @property
    def children(self) -> "tuple[Node, ...]":
        """Return the elements that the element contains directly."""
        return tuple(part for part in self.content if isinstance(part, Node))


@dataclass(frozen=True, slots=True)
class Text:
    """A text. `type` is `text`, `html`, or another media type. `src` is the address of external content."""

    value: str
    type: str = "text"
    src: str = ""


@dataclass(frozen=True, slots=True)
class Person:
    """A person, such as an author. Fields without a value in the document are empty."""

    name: str = ""
    email: str = ""
    uri: str = ""
    avatar: str = ""
    extensions: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A link (RFC 4287, section 4.2.7). `type` is empty for an HTML page."""

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
    """A category. `scheme` is RSS's domain. `label` is the displayed name if it differs from the term."""

    term: str
    scheme: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """The channel's picture. `title` and `link` are empty if they equal those of the channel."""

    url: str
    title: str = ""
    link: str = ""
    width: int | None = None
    height: int | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class TextInput:
    """RSS's text input field."""

    title: str
    description: str
    name: str
    link: str


@dataclass(frozen=True, slots=True)
class Generator:
    """The program that wrote the feed."""

    name: str = ""
    uri: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statements:
    """The fields that channels and items have in common.

    `summary` is the channel's description, or the synopsis of an item that also has content. Instants are in whole
    seconds. `language` is a tag of BCP 47, `direction` is `ltr` or `rtl`; both are empty if not given. `members` are
    JSON Feed's custom objects: name, and value as JSON.
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
        """Return the address of the channel's or item's page, or an empty text if there is none."""
        return next((link.href for link in self.links if link.rel == "alternate"), "")

    def first_href(self, rel: str) -> str:
        """Return the address of the first link with the relation `rel`, or an empty text if there is none."""
        return next((link.href for link in self.links if link.rel == rel), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(_Statements):
    """An item. `is_permalink` says that its id is the address of its page."""

    is_permalink: bool = False
    content: Text | None = None
    enclosures: tuple[Enclosure, ...] = ()
    comments: str = ""
    """Address of the page with comments."""
    image: str = ""
    banner: str = ""
    source: "Feed | None" = None
    """The channel from which the item was taken, without its items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed(_Statements):
    """A channel with its items. `kind` and `version` are those of the document from which it was read."""

    kind: Kind = field(default=Kind.RSS, compare=False)
    version: str = field(default="", compare=False)
    webmaster: Person | None = None
    generator: Generator | None = None
    image: Image | None = None
    icon: str = ""
    schedule: Schedule = field(default_factory=Schedule)
    cloud: Cloud | None = None
    rating: str = ""
    text_input: TextInput | None = None
    items: tuple[Item, ...] = ()

    @property
    def address(self) -> str:
        """Return the feed's own address, or an empty text if the feed has no self link."""
        return self.first_href("self")
