"""Subscription lists: parser of OPML of any version, and writer of OPML 2.0.

OPML 2.0: "An OPML subscription list is a possibly multiple-level list of subscriptions to feeds". Outlines with an
address are feeds, and outlines without an address are folders. Lists are not trusted. They are parsed with the limits
of xml_parser.py.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from lxml import etree

from feedproxy.clock import Instant
from feedproxy.errors import BadTarget
from feedproxy.feed.convert.write.xml_writer import finish, put
from feedproxy.feed.document_kind import find_document_start
from feedproxy.feed.edit.self_link import plain_title
from feedproxy.feed.encoding_detection import to_utf8
from feedproxy.feed.feed_scheme import strip_feed_scheme
from feedproxy.feed.xml_characters import valid_text
from feedproxy.feed.xml_parser import Element, attributes, escape_bare_ampersands, qualified_name, safe_length, text_of
from feedproxy.http import uri
from feedproxy.http.date import format_http_date

MEDIA_TYPE = "text/x-opml; charset=utf-8"
"""Media type of a list, as in the examples of OPML 2.0. No type is registered."""

FEEDS_MAX = 10_000
"""Maximum number of feeds in one list. The largest lists in use have some thousands."""

DEPTH_MAX = 8
"""Maximum number of levels of folders. Feeds of deeper folders go to the last level."""

_PIECE = 64 * 1024
_NAME_MAX = 200
_ADDRESS_MAX = 2048


@dataclass(frozen=True, slots=True)
class Subscription:
    address: str
    title: str = ""
    page: str = ""
    folder: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubscriptionList:
    """A subscription list. `skipped_count` is the number of omitted duplicates and invalid addresses."""

    title: str = ""
    feeds: tuple[Subscription, ...] = ()
    skipped_count: int = 0


def read(body: bytes, charset: str | None = None) -> SubscriptionList | None:
    """Return the list in `body`, which has no content coding, or None if it is not OPML. Raises no exception."""
    text = to_utf8(body, charset).data
    start = find_document_start(text)
    if start is None:
        return None
    list_parser = _ListParser()
    parser = etree.XMLPullParser(
        events=("start", "end"),
        encoding="utf-8",
        recover=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    data = escape_bare_ampersands(text[start : safe_length(text)])
    for at in range(0, len(data), _PIECE):
        parser.feed(data[at : at + _PIECE])
        if not list_parser.consume(parser):
            break
    with contextlib.suppress(etree.LxmlError):  # feeds before the error are kept
        parser.close()
    list_parser.consume(parser)
    return list_parser.listing()


def write(listing: SubscriptionList, *, changed: Instant | None = None) -> bytes:
    """Return the list as OPML in UTF-8. `changed` becomes the date of the list.

    A folder has the position of its first feed.
    """
    root = etree.Element("opml", version="2.0")
    head = put(root, "", "head")
    put(head, "", "title", _name(listing.title) or "Subscriptions")
    if changed is not None:
        put(head, "", "dateModified", format_http_date(int(changed)))
    put(head, "", "docs", "http://opml.org/spec2.opml")
    folders: dict[tuple[str, ...], Element] = {(): put(root, "", "body")}
    for feed in listing.feeds:
        outline = put(_folder(folders, feed.folder), "", "outline", type="rss")
        title = _name(feed.title) or feed.address
        for key, value in (("text", title), ("title", title), ("xmlUrl", feed.address), ("htmlUrl", feed.page)):
            if value:
                outline.set(key, valid_text(value))
    return finish(root)


def merge(before: Iterable[Subscription], more: Iterable[Subscription]) -> tuple[Subscription, ...]:
    """Return the feeds of both lists, at most FEEDS_MAX. A feed in both lists is taken from `more`."""
    feeds = {feed.address: feed for feed in before}
    feeds.update((feed.address, feed) for feed in more)
    return tuple(feeds.values())[:FEEDS_MAX]


class _ListParser:
    """Parser of one document, from the events of lxml's pull parser."""

    def __init__(self) -> None:
        self._is_opml: bool | None = None
        self._title = ""
        self._feeds: dict[str, Subscription] = {}
        self._skipped_count = 0
        self._open: list[str | None] = []  # titles of the open outlines; None for a feed
        self._commented_depth = 0

    def listing(self) -> SubscriptionList | None:
        return (
            SubscriptionList(self._title, tuple(self._feeds.values()), self._skipped_count) if self._is_opml else None
        )

    def consume(self, parser: "etree.XMLPullParser") -> bool:
        return all(
            self._on_event(str(event), element)
            for event, element in parser.read_events()
            if isinstance(element, etree._Element)
        )

    def _on_event(self, event: str, element: Element) -> bool:
        local = qualified_name(element)[1].lower()
        if self._is_opml is None:
            self._is_opml = local == "opml"
        if not self._is_opml:
            return False
        if local == "outline":
            self._on_outline_start(element) if event == "start" else self._on_outline_end(element)
        elif local == "title" and event == "end" and not self._title and not self._open:
            self._title = _name(text_of(element))
        return len(self._feeds) < FEEDS_MAX

    def _on_outline_start(self, outline: Element) -> None:
        attribute_values = {key.lower(): value.strip() for key, value in attributes(outline)}
        title = _name(attribute_values.get("text", "") or attribute_values.get("title", ""))
        feed_address = attribute_values.get("xmlurl", "")
        # "If it's true, the outline is commented, including all subordinate outlines."
        if attribute_values.get("iscomment", "").lower() == "true":
            self._commented_depth = self._commented_depth or len(self._open) + 1
        folder = tuple(open_title for open_title in self._open if open_title)[:DEPTH_MAX]
        self._open.append(None if feed_address else title)
        if not feed_address or self._commented_depth:
            return
        address, page = _address(feed_address), _address(attribute_values.get("htmlurl", ""))
        if not address or address in self._feeds:
            self._skipped_count += 1
            return
        self._feeds[address] = Subscription(address, title, page, folder)

    def _on_outline_end(self, outline: Element) -> None:
        if self._commented_depth == len(self._open):
            self._commented_depth = 0
        if self._open:
            self._open.pop()
        # Closed outlines are freed, so that a long list does not become a large tree.
        outline.clear()
        parent = outline.getparent()
        while parent is not None and outline.getprevious() is not None:
            del parent[0]


def _folder(folders: dict[tuple[str, ...], Element], path: tuple[str, ...]) -> Element:
    if path not in folders:
        label = valid_text(path[-1])
        folders[path] = outline = put(_folder(folders, path[:-1]), "", "outline")
        outline.set("text", label)
        outline.set("title", label)
    return folders[path]


def _name(text: str) -> str:
    return plain_title(valid_text(text))[:_NAME_MAX]


def _address(text: str) -> str:
    """Return the normalised address, or "" if it is not a valid http or https URL."""
    if not text or len(text) > _ADDRESS_MAX:
        return ""
    try:
        return uri.resolve("", strip_feed_scheme(text))
    except BadTarget:
        return ""
