"""From a feed or a page, saved or at an address, to the address to subscribe to: USM's order, for commands.

A feed's own word comes first (its self link). Where it has none, the page that it belongs to is asked for its feeds:
"the algorithm falls back and performs a second HTTP GET on the Webpage in the channel/link element". A page's feeds
are those that it names.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from feedproxy.errors import FeedproxyError, TooLarge, UsageError
from feedproxy.feed.channel import Channel
from feedproxy.feed.discovery import (
    DiscoveredFeed,
    discover_feeds,
    is_page,
    page_address,
    self_address,
    strip_feed_scheme,
)
from feedproxy.feed.parse.parser import read
from feedproxy.http import uri
from feedproxy.http.link import parse_links
from feedproxy.http.message import Fields
from feedproxy.refresh.fetch_once import Document, fetch_document, follow_saved_redirect
from feedproxy.settings import Settings

_FILES = r"xml|rss|atom|rdf|json|opml|html?|cdf|har|txt|gz"
_SCHEMELESS = re.compile(rf"(?!\.)(?:[A-Za-z0-9-]+\.)+(?!(?:{_FILES})$)[A-Za-z][A-Za-z0-9-]+(?::\d+)?(?:/|$)")
"""A host name with a dot, then a path or the end. `feed.xml` alone is a file, and so is `./feeds/a.xml`."""


class NothingFound(FeedproxyError):
    """The error that no feed was found, with a sentence for the user."""

    status_hint = 404
    detail = "not-found"


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The feeds, the preferred one first, and a description of how they were found."""

    feeds: tuple[DiscoveredFeed, ...]
    description: str


async def discover(source: str, settings: Settings) -> DiscoveryResult:
    """Return the feeds that an address or a file leads to.

    `source` is an address (http, https, feed), a file: address, or a path. Raises NothingFound, and what `obtain`
    and `from_file` raise.
    """
    address = parse_source(source)
    if address is not None:
        got = await fetch_document(address, settings)
    else:
        body = from_file(source, settings.decoded_max)
        got = await follow_saved_redirect(body, source, settings) or Document(body, Fields(), "")
    content_type = got.fields.get("content-type")
    channel = read(got.body, content_type)
    if channel is not None:
        return await _of_feed(channel, got, source, settings)
    if not is_page(got.body):
        raise NothingFound(f"{source} is neither a feed nor a page")
    found = _of_page(got)
    if not found:
        raise NothingFound(f"{source} is a page that names no feed")
    return DiscoveryResult(found, "the page names it")


async def verification_failure(address: str, settings: Settings) -> str:
    """Return why it is not proved that this feed belongs to its page; empty where it is, feed → page → feed.

    "This can also serve as verification that the feed content actually belongs to the blog specified in its
    channel/link."
    """
    try:
        got = await fetch_document(address, settings)
        channel = read(got.body, got.fields.get("content-type"))
        if channel is None:
            return "it is no feed"
        page = page_address(channel, got.final_address)
        if not page:
            return "it names no page"
        named = {feed.address for feed in _of_page(await fetch_document(page, settings))}
    except FeedproxyError as error:
        return str(error)
    own = {uri.normalise(address), got.final_address, self_address(channel, got.final_address)}
    return "" if own & named else f"its page, {page}, does not name it"


def parse_source(source: str) -> str | None:
    """Return the address that was given, without a `feed:` in front of it; None for a file.

    Without a scheme it is an address where no such file exists and it begins with a host name that has a dot:
    `example.com/feed.xml` is https://example.com/feed.xml.
    """
    text = strip_feed_scheme(source)
    if text.lower().startswith(("http://", "https://")):
        return text
    if _SCHEMELESS.match(text) and not Path(text).exists():
        return f"https://{text}"
    return None


def from_file(source: str, limit: int) -> bytes:
    """Return the content of a file, given by its path or as `file:` address.

    Raises UsageError where it cannot be read, and TooLarge above `limit` bytes.
    """
    split = urlsplit(source)
    path = unquote(split.path) if split.scheme.lower() == "file" else source
    try:
        with Path(path).open("rb") as file:
            body = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{source}: {getattr(error, 'strerror', None) or error}") from error
    if len(body) > limit:
        raise TooLarge(f"{source} is larger than {limit} bytes")
    return body


async def _of_feed(channel: Channel, got: Document, source: str, settings: Settings) -> DiscoveryResult:
    if own := self_address(channel, got.final_address):
        return DiscoveryResult((DiscoveredFeed(own, title=channel.title),), "the feed says so itself")
    where = (
        DiscoveryResult((DiscoveredFeed(got.permanent_address, title=channel.title),), "it was found there")
        if got.permanent_address
        else None
    )
    page = page_address(channel, got.final_address)
    if not page:
        if where is not None:
            return where
        raise NothingFound(f"{source} is a feed that says neither its address nor that of its page")
    try:
        found = _of_page(await fetch_document(page, settings))
    except FeedproxyError as error:
        if where is not None:
            return where
        raise NothingFound(f"{source} is a feed without its address, and its page cannot be had: {error}") from error
    if where is not None and (
        not found or {got.address, got.permanent_address, got.final_address} & {feed.address for feed in found}
    ):
        return where
    if not found:
        raise NothingFound(f"{source} is a feed without its address, and its page, {page}, names no feed")
    return DiscoveryResult(found, f"its page, {page}, names it")


def _of_page(got: Document) -> tuple[DiscoveredFeed, ...]:
    links = parse_links(got.fields)
    return discover_feeds(got.body, got.final_address, content_type=got.fields.get("content-type"), links=links)
