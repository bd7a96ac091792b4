"""Parser of JSON Feed 1 and 1.1: an object with `version`, `title` and `items`."""

import json
import math
from typing import Any
from urllib.parse import urlsplit

from feedproxy.feed.channel import Channel, Cloud, Kind, Schedule, SelfLink
from feedproxy.feed.content_digest import digest_of_json
from feedproxy.feed.json_scanner import parse_integer

_VERSION = "jsonfeed.org/version/"
_HOST = b"jsonfeed.org"
"""The host in _VERSION. JSON without it is not a JSON Feed. In _VERSION itself, some encoders escape the slashes."""
_WEBSUB, _RSSCLOUD = ("", "websub", "pubsubhubbub"), ("rsscloud",)
"""Values of a hub's `type`, in lower case. JSON Feed 1.1: "Protocol type names … are rssCloud and WebSub"."""
_PORTS = {"http": 80, "https": 443}
_ITEM = frozenset(("id", "url", "external_url", "title", "content_html", "content_text", "summary", "date_published"))


def read(data: bytes, *, sound: bool) -> Channel | None:
    """Return the channel of a JSON Feed in UTF-8, or None if the data is not a JSON Feed. `sound` is True if the bytes
    of the original document were valid in its encoding."""
    if _HOST not in data:
        return None  # to parse the responses of APIs takes 35 ms for each MB
    try:
        feed, is_complete = decode(data)
        if not isinstance(feed, dict) or not _is_feed(feed):
            return None
        digest = digest_of_json(feed)
    except (ValueError, RecursionError):
        return None
    address = _text(feed.get("feed_url"))
    return Channel(
        kind=Kind.JSON,
        version=_version(feed),
        well_formed=sound and is_complete,
        title=_text(feed.get("title")),
        link=_text(feed.get("home_page_url")),
        schedule=schedule(feed),
        self_links=(SelfLink("self", address, "application/feed+json", ""),) if address else (),
        hubs=websub_hubs(feed.get("hubs")),
        cloud=rsscloud(feed.get("hubs")),
        items=len(feed["items"]),
        content_digest=digest,
    )


def decode(data: bytes) -> tuple[Any, bool]:
    """Return the JSON value at the beginning of `data`, and True if `data` is well-formed, else False.

    Raises ValueError if `data` does not begin with a JSON value. In some feeds that are not well-formed, a second
    object follows the feed, the file begins with two byte order marks, or a string contains a line end.

    NaN, Infinity, numbers beyond the range of a float, and integers of more than 4,300 digits are read as null, because
    they cannot be written as JSON again.
    """
    whole = data.decode("utf-8", "replace").lstrip(" \t\r\n")
    text = whole.lstrip("\ufeff \t\r\n")
    constants: list[str] = []
    numbers: dict[str, Any] = {"parse_float": _finite_float, "parse_int": parse_integer}
    is_strict = True
    try:
        value, end = json.JSONDecoder(parse_constant=constants.append, **numbers).raw_decode(text)
    except json.JSONDecodeError as error:
        if not error.msg.startswith("Invalid control character"):
            raise
        is_strict = False
        value, end = json.JSONDecoder(parse_constant=constants.append, strict=False, **numbers).raw_decode(text)
    is_whole = len(text) == len(whole)
    return value, is_strict and is_whole and not constants and not text[end:].strip(" \t\r\n")


def _finite_float(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _is_feed(feed: dict[str, Any]) -> bool:
    """Return True if the object is a JSON Feed.

    "version (required, string) is the URL of the version of the format the feed uses"; "items is an array" -- JSON Feed
    1.1. If there are items, at least one must be empty or have a member that JSON Feed defines.
    """
    items = feed.get("items")
    if _VERSION not in _text(feed.get("version")) or not isinstance(items, list):
        return False
    return not items or any(isinstance(item, dict) and (not item or not _ITEM.isdisjoint(item)) for item in items)


def _version(feed: dict[str, object]) -> str:
    _, separator, version = _text(feed.get("version")).partition(_VERSION)
    return version.strip("/") if separator else ""


def schedule(feed: dict[str, object]) -> Schedule:
    """Return the schedule of a JSON Feed, which can only state that the feed has ended (`expired`).

    "If the value is true, then it's expired. Any other value, or the absence of expired, means the feed may continue to
    update." -- JSON Feed 1.1
    """
    return Schedule(finished=feed.get("expired") is True)


def websub_hubs(hubs: object) -> tuple[str, ...]:
    """Return the addresses of the WebSub hubs in the member `hubs`. A hub without a type counts as WebSub."""
    return _addresses(hubs, _WEBSUB)


def rsscloud(hubs: object) -> Cloud | None:
    """Return the first rssCloud in the member `hubs` as RSS's element `cloud`, or None if there is none.

    JSON Feed states only an address, which suffices for the protocols http-post and https-post.
    """
    for address in _addresses(hubs, _RSSCLOUD):
        try:
            parts = urlsplit(address)
            host, port = parts.hostname, parts.port
        except ValueError:
            continue
        default_port = _PORTS.get(parts.scheme)
        if host and default_port:
            port = port or default_port
            is_https = parts.scheme == "https" and port != default_port
            path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
            return Cloud(host, str(port), path, "", "https-post" if is_https else "http-post")
    return None


def _addresses(hubs: object, types: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(hubs, list):
        return ()
    of_type = (hub for hub in hubs if isinstance(hub, dict) and _text(hub.get("type")).lower() in types)
    return tuple(address for hub in of_type if (address := _text(hub.get("url"))))


def _text(value: object) -> str:
    # JSON can encode half of a surrogate pair, which UTF-8 cannot.
    return value.strip().encode("utf-8", "replace").decode() if isinstance(value, str) else ""
