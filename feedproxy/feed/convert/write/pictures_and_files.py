"""The picture and the files of an item, from all vocabularies (RSS, Atom, Media RSS, iTunes)."""

from collections.abc import Iterator

from feedproxy.feed.convert.duration import parse_duration
from feedproxy.feed.convert.markup import is_web
from feedproxy.feed.convert.model import Enclosure, Feed, Item, Node
from feedproxy.feed.convert.namespaces import ITUNES, MEDIA


def picture(item: Item) -> str:
    """Return the address of the item's picture, or "" if it has none.

    The order of preference is: the item's own picture, a thumbnail of Media RSS, the picture of iTunes, a picture of
    Media RSS, the element `image` of RSS.
    """
    if item.image:
        return item.image
    for node in _media(item):
        if node.name == "thumbnail" and node.attribute("url"):
            return node.attribute("url")
    for node in item.extensions:
        if node.namespace == ITUNES and node.name == "image" and node.attribute("href"):
            return node.attribute("href")
    for node in _media(item):
        kind = node.attribute("medium") or node.attribute("type").partition("/")[0]
        if node.name == "content" and kind == "image" and node.attribute("url"):
            return node.attribute("url")
    for node in item.extensions:
        # RSS has pictures of channels only. Some publishers use the same element in items.
        if (node.namespace, node.name) == ("", "image"):
            address = next((child.text for child in node.children if child.name == "url"), node.text)
            if is_web(address):
                return address
    return ""


def cover(feed: Feed) -> str:
    """Return the address of the channel's picture, or "" if it has none."""
    return feed.image.url if feed.image is not None else ""


def files(item: Item) -> tuple[Enclosure, ...]:
    """Return the item's enclosures, and its files of Media RSS that state a type and are not pictures."""
    enclosures = {enclosure.url: enclosure for enclosure in item.enclosures}
    for node in _media(item):
        url, kind = node.attribute("url"), node.attribute("type")
        medium = node.attribute("medium") or kind.partition("/")[0]
        if node.name != "content" or not url or url in enclosures or medium == "image" or not (medium or kind):
            continue
        title = next((child.text for child in node.children if child.name == "title"), "")
        length, seconds = node.attribute("fileSize"), node.attribute("duration")
        enclosures[url] = Enclosure(url, kind, _whole(length), title, "", parse_duration(seconds))
    return tuple(enclosures.values())


def _media(item: Item) -> Iterator[Node]:
    for node in item.extensions:
        if node.namespace == MEDIA:
            yield node
            if node.name in ("group", "content"):
                yield from (child for child in node.children if child.namespace == MEDIA)


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) <= 15 else None
