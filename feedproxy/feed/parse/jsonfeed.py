"""JSON Feed 1 and 1.1: an object with `version`, `title` and `items`. It has no schedule hints."""

import json

from feedproxy.feed.channel import Channel, Kind, SelfLink
from feedproxy.feed.content_digest import digest_of_json

_VERSION = "jsonfeed.org/version/"
_ITEM = frozenset(("id", "url", "external_url", "title", "content_html", "content_text", "summary", "date_published"))


def read(data: bytes, *, sound: bool) -> Channel | None:
    """Return the channel of a document in UTF-8. Return None for other JSON, such as an error or an API's response.

    `sound` says that the bytes were valid in their encoding.
    """
    try:
        text = data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
        feed, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(feed, dict) or not _is_feed(feed):
        return None
    try:
        digest = digest_of_json(feed)
    except (ValueError, RecursionError):
        return None
    # Some files continue after the feed, with test records or a second object: the document is a feed, but not
    # well-formed.
    complete = not text[end:].strip(" \t\r\n")
    address = _text(feed.get("feed_url"))
    items = feed.get("items")
    return Channel(
        kind=Kind.JSON,
        version=_version(feed),
        well_formed=sound and complete,
        title=_text(feed.get("title")),
        link=_text(feed.get("home_page_url")),
        self_links=(SelfLink("self", address, "application/feed+json", ""),) if address else (),
        hubs=_hubs(feed.get("hubs")),
        items=len(items) if isinstance(items, list) else 0,
        content_digest=digest,
    )


def _is_feed(feed: dict[str, object]) -> bool:
    """Return True if the object is a JSON Feed.

    "version (required, string) is the URL of the version of the format the feed uses"; "items is an array" -- JSON Feed
    1.1. Other programs use the same member names, so both are required.
    """
    items = feed.get("items")
    if _VERSION not in _text(feed.get("version")) or not isinstance(items, list):
        return False
    return not items or any(isinstance(item, dict) and (not item or not _ITEM.isdisjoint(item)) for item in items)


def _version(feed: dict[str, object]) -> str:
    _, separator, version = _text(feed.get("version")).partition(_VERSION)
    return version.strip("/") if separator else ""


def _hubs(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    addresses = (_text(hub.get("url")) for hub in value if isinstance(hub, dict))
    return tuple(address for address in addresses if address)


def _text(value: object) -> str:
    # JSON can encode half of a surrogate pair, which UTF-8 cannot.
    return value.strip().encode("utf-8", "replace").decode() if isinstance(value, str) else ""
