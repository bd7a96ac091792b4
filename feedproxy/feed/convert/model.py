"""What a feed of any format says, in one shape: the model that every rendering is made from.

The words are those of RSS (channel, item, ttl, cloud) where it has them, and Atom's where only Atom has (rights,
contributors, the rel of a link). Everything is said once and in one way, whatever the format it came in: links are
absolute, dates are instants, HTML without a tag in it is text. That is what makes two documents comparable, and what a
reader of any rendering gets back (tests/feed/convert).
"""

from dataclasses import dataclass, field

from feedproxy.feed.channel import Cloud, Kind, Schedule


@dataclass(frozen=True, slots=True)
class Node:
    """An element of a vocabulary that the model has no word for, as it came.

    `attributes` are sorted, with names in Clark's notation ({namespace}local); `content` is text and elements in order.
    """

    namespace: str
    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    content: "tuple[str | Node, ...]" = ()

    def attribute(self, name: str) -> str:
        """Return the value of an attribute, trimmed; empty where there is none."""
        return next((value.strip() for key, value in self.attributes if key == name), "")

    @property
    def text(self) -> str:
        """Return the text within, trimmed, that of elements included."""
        return "".join(each if isinstance(each, str) else each.text for each in self.content).strip()

    @property
    def children(self) -> "tuple[Node, ...]":
        """Return the elements within."""
        return tuple(each for each in self.content if isinstance(each, Node))


@dataclass(frozen=True, slots=True)
class Text:
    """Something to be read. `type` is `text`, `html`, or the media type of what is neither; `src` is its address."""

    value: str
    type: str = "text"
    src: str = ""


@dataclass(frozen=True, slots=True)
class Person:
    """A person: name, address, or both."""

    name: str = ""
    email: str = ""
    uri: str = ""
    avatar: str = ""
    extensions: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A link (RFC 4287, 4.2.7). The type text/html of a page is not said, since pages are in HTML."""

    href: str
    rel: str = "alternate"
    type: str = ""
    language: str = ""
    title: str = ""
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A file that belongs to an item; `length` in bytes, `duration` in seconds."""

    url: str
    type: str = ""
    length: int | None = None
    title: str = ""
    language: str = ""
    duration: int | None = None


@dataclass(frozen=True, slots=True)
class Category:
    """A category; `scheme` is RSS's domain, `label` what people see of it where that is not the term."""

    term: str
    scheme: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """The channel's picture. Title and link that are the channel's own are not said again."""

    url: str
    title: str = ""
    link: str = ""
    width: int | None = None
    height: int | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class TextInput:
    """RSS's field to type something into."""

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
    """What channels and items have in common.

    `summary` is the channel's description, and an item's synopsis where it has a content besides. Instants are whole
    seconds. `language` is a tag of BCP 47, `direction` `ltr` or `rtl`; both are empty where they are not said.
    `members` are JSON Feed's custom objects: name, and value as JSON.
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
        """Return the address of the page; empty if there is none."""
        return next((link.href for link in self.links if link.rel == "alternate"), "")

    def first_href(self, rel: str) -> str:
        """Return the first address with this relation; empty if there is none."""
        return next((link.href for link in self.links if link.rel == rel), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(_Statements):
    """An item. `is_permalink`: its id is the address of its page."""

    is_permalink: bool = False
    content: Text | None = None
    enclosures: tuple[Enclosure, ...] = ()
    comments: str = ""
    """The page of its comments."""
    image: str = ""
    banner: str = ""
    source: "Feed | None" = None
    """The channel, without items, that it was taken from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed(_Statements):
    """A channel and its items. `kind` and `version` are those of the document it was read from."""

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
        """Return the feed's own address; empty if it has no self link."""
        return self.first_href("self")
