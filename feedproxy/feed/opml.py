"""Subscription lists: parser of OPML of any version, and writer of OPML 2.0.

OPML 2.0: "An OPML subscription list is a possibly multiple-level list of subscriptions to feeds". Outlines with an
address are feeds, all others are folders. Lists are not trusted, so the limits of xml_parser.py apply.
"""

import re
from collections.abc import Iterable, Iterator

from lxml import etree
from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.feed.convert.write.xml_writer import finish, put
from feedproxy.feed.document_syntax import find_document_start
from feedproxy.feed.edit.self_link import plain_title
from feedproxy.feed.encoding_detection import to_utf8
from feedproxy.feed.feed_scheme import resolve_address
from feedproxy.feed.xml_parser import (
    PARSER_OPTIONS,
    Element,
    attributes,
    children,
    named_children,
    qualified_name,
    safe_length,
    text_of,
)
from feedproxy.feed.xml_repairs import escape_bare, replace_surrogates
from feedproxy.feed.xml_well_formedness import valid_text
from feedproxy.http.date import format_http_date

MEDIA_TYPE = "text/x-opml; charset=utf-8"
"""Media type of a list, as in the examples of OPML 2.0. No type is registered."""

CONTENT_MAX = 8_000_000
"""Lists of more than this many bytes are refused. Ten thousand feeds with all usual attributes take this size."""

FEEDS_MAX = 10_000
"""Maximum number of feeds in one list. The largest lists in use have some thousands."""

DEPTH_MAX = 8
"""Maximum number of levels of folders. Feeds in a deeper folder are moved to its ancestor at the last level."""

_END_TAG = re.compile(rb"</(?:[^<>/\s:]+:)?opml\s*>", re.IGNORECASE)
_NAME_MAX = 200
_ADDRESS_MAX = 2048


class Subscription(Struct, frozen=True):
    address: str
    title: str = ""
    page: str = ""
    folder: tuple[str, ...] = ()


class SubscriptionList(Struct, frozen=True):
    """A subscription list.

    `skipped_count` is the number of omitted duplicates and invalid addresses. `is_complete` is False if feeds can be
    missing, because the document is cut off, or exceeds FEEDS_MAX or a limit of the parser.
    """

    title: str = ""
    feeds: tuple[Subscription, ...] = ()
    skipped_count: int = 0
    is_complete: bool = True


def read(body: bytes, charset: str | None = None) -> SubscriptionList | None:
    """Return the list in `body`, or None if `body` is not OPML. Raises no exception.

    `body` has no content coding. `charset` is the parameter of Content-Type, or None.
    """
    text = to_utf8(body, charset).data
    start = find_document_start(text)
    if start is None:
        return None
    end = safe_length(text)
    parser = etree.XMLParser(**PARSER_OPTIONS, remove_pis=True)
    try:
        root = etree.fromstring(replace_surrogates(escape_bare(text[start:end])), parser)
    except (etree.LxmlError, ValueError):
        return None
    if root is None or qualified_name(root)[1].lower() != "opml":
        return None
    titles = (_name(text_of(title)) for head in named_children(root, "head") for title in named_children(head, "title"))
    feeds: dict[str, Subscription] = {}
    skipped_count = 0
    is_cut_off = len(root) > 0 and _END_TAG.search(text, start) is None
    is_complete = (
        end == len(text) and not is_cut_off and not parser.error_log.filter_types(etree.ErrorTypes.ERR_RESOURCE_LIMIT)
    )
    for feed in _subscriptions(root, ()):
        if not feed.address or feed.address in feeds:
            skipped_count += 1
        elif len(feeds) < FEEDS_MAX:
            feeds[feed.address] = feed
        else:
            is_complete = False
    return SubscriptionList(next(filter(None, titles), ""), tuple(feeds.values()), skipped_count, is_complete)


def write(listing: SubscriptionList, *, changed: Instant | None = None) -> bytes:
    """Return the list as OPML in UTF-8, with the date `changed`, or without a date if `changed` is None.

    Each folder is written at the position of its first feed.
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
    """Return the feeds of both lists, at most FEEDS_MAX. If both lists have a feed, the one in `more` counts."""
    feeds = {feed.address: feed for feed in before}
    feeds.update((feed.address, feed) for feed in more)
    return tuple(feeds.values())[:FEEDS_MAX]


def _subscriptions(parent: Element, folder: tuple[str, ...]) -> Iterator[Subscription]:
    """Yield the feeds in an element, in document order. A feed with an invalid address has the address ""."""
    for _, local, child in children(parent):
        if local.lower() != "outline":
            yield from _subscriptions(child, folder)
            continue
        values = {key.lower(): value.strip() for key, value in attributes(child)}
        # "If it's true, the outline is commented, including all subordinate outlines." -- OPML 2.0, isComment
        if values.get("iscomment", "").lower() == "true":
            continue
        title = _name(values.get("text", "") or values.get("title", ""))
        address = values.get("xmlurl", "")
        if address:
            yield Subscription(_address(address), title, _address(values.get("htmlurl", "")), folder)
        inner = folder if address or not title else (*folder, title)[:DEPTH_MAX]
        yield from _subscriptions(child, inner)


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
    """Return the normalised address, or "" if it is too long or not a valid http or https URL."""
    return resolve_address("", text) if len(text) <= _ADDRESS_MAX else ""
