"""Discovery of the address at which to subscribe, in the order of the Universal Subscription Mechanism (USM).

The input is a feed or a page, given by its address or as a file. The first choice is the self link of the feed. Without
a self link, the page of the feed is requested. A page gives the feeds that it names by autodiscovery.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from feedproxy.errors import FeedproxyError, Forbidden, TooLarge, UsageError
from feedproxy.feed.autodiscovery import DiscoveredFeed, discover_feeds, is_page
from feedproxy.feed.channel import Channel
from feedproxy.feed.channel_addresses import page_address, self_address
from feedproxy.feed.feed_scheme import strip_feed_scheme
from feedproxy.feed.parse.channel_parser import read
from feedproxy.http import uri
from feedproxy.http.message import NO_FIELDS
from feedproxy.refresh.standalone_fetch import Document, fetch_document, follow_saved_redirect
from feedproxy.settings import Settings

_FILES = r"xml|rss|atom|rdf|json|opml|html?|cdf|har|txt|gz"
_SCHEMELESS = re.compile(rf"(?!\.)(?:[A-Za-z0-9-]+\.)+(?!(?:{_FILES})$)[A-Za-z][A-Za-z0-9-]+(?::\d+)?(?:/|$)")
"""Pattern of a host name with a dot, followed by a path or nothing."""

_HOST_AND_PORT = re.compile(r"[^/\s]+:\d+(?:/|$)")


class NothingFound(FeedproxyError):
    """Error for a source without a feed. Its message is a sentence for the user."""

    status_hint = 404
    detail = "not-found"


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The feeds that were found, the preferred feed first, and a text that explains how they were found."""

    feeds: tuple[DiscoveredFeed, ...]
    description: str


async def discover(source: str, settings: Settings) -> DiscoveryResult:
    """Return the feeds to which an address or a file leads.

    `source` is an address (http, https, feed), a `file:` address, or a path. Raises NothingFound, and the errors of
    `fetch_document` and `from_file`.
    """
    address = parse_source(source)
    if address is not None:
        document = await fetch_document(address, settings)
    else:
        body = from_file(source, settings.decoded_max)
        document = await follow_saved_redirect(body, source, settings) or Document(body, NO_FIELDS, "")
    content_type = document.fields.get("content-type")
    channel = read(document.body, content_type)
    if channel is not None:
        return await _of_feed(channel, document, source, settings)
    if not is_page(document.body):
        raise NothingFound(f"{source} is neither a feed nor a page")
    feeds = _of_page(document)
    if not feeds:
        raise NothingFound(f"{source} is a page that names no feed")
    return DiscoveryResult(feeds, "the page names it")


async def verification_failure(address: str, settings: Settings) -> str:
    """Return the reason why the feed is not verified to belong to its page, or "" if the feed is verified.

    A feed is verified if its document names a page that names the feed.
    """
    try:
        document = await fetch_document(address, settings)
        channel = read(document.body, document.fields.get("content-type"))
        if channel is None:
            return "it is not a feed"
        page = page_address(channel, document.final_address)
        if not page:
            return "it names no page"
        addresses = {feed.address for feed in _of_page(await fetch_document(page, settings))}
    except FeedproxyError as error:
        return str(error)
    own = {uri.normalise(address), document.final_address, self_address(channel, document.final_address)}
    return "" if own & addresses else f"its page, {page}, does not name it"


def parse_source(source: str) -> str | None:
    """Return the address in `source` without a `feed:` prefix, or None if `source` is a file.

    A `source` without a scheme is a file if the file exists. Otherwise, a `source` that begins with a host name with a
    dot is an https address: `example.com/feed.xml`.
    """
    text = strip_feed_scheme(source)
    if text.lower().startswith(("http://", "https://")):
        return text
    if _SCHEMELESS.match(text) and not Path(text).exists():
        return f"https://{text}"
    return None


@contextmanager
def private_address_hint(source: str, settings: Settings) -> Iterator[None]:
    """Catch Forbidden for an address in a private network, and raise it again with the option that permits such
    addresses in its message. `source` contains the address."""
    try:
        yield
    except Forbidden as error:
        address = parse_source(source)
        if settings.allow_private or address is None or not uri.is_local(uri.normalise(address)):
            raise
        raise Forbidden(f"{error} (--allow-private permits it)") from error


def from_file(source: str, limit: int) -> bytes:
    """Return the content of a file, named by its path or a `file:` address.

    Raises UsageError if the file cannot be read, and TooLarge if it has more than `limit` bytes.
    """
    split = urlsplit(source)
    path = unquote(split.path) if split.scheme.lower() == "file" else source
    try:
        with Path(path).open("rb") as file:
            body = file.read(limit + 1)
    except (OSError, ValueError) as error:
        hint = "; a URL begins with http:// or https://" if _HOST_AND_PORT.match(source) else ""
        raise UsageError(f"{source}: {getattr(error, 'strerror', None) or error}{hint}") from error
    if len(body) > limit:
        raise TooLarge(f"{source} is larger than {limit} bytes")
    return body


async def _of_feed(channel: Channel, document: Document, source: str, settings: Settings) -> DiscoveryResult:
    if own := self_address(channel, document.final_address):
        return DiscoveryResult((DiscoveredFeed(own, title=channel.title),), "the feed's self link names it")
    page = page_address(channel, document.final_address)
    feeds: tuple[DiscoveredFeed, ...] = ()
    problem = f"without its address, and its page, {page}, names no feed"
    try:
        feeds = _of_page(await fetch_document(page, settings)) if page else ()
    except FeedproxyError as error:
        problem = f"without its address, and its page is not available: {error}"
    own_addresses = {document.address, document.permanent_address, document.final_address}
    if document.permanent_address and (not feeds or own_addresses & {feed.address for feed in feeds}):
        return DiscoveryResult((DiscoveredFeed(document.permanent_address, title=channel.title),), "it was found there")
    if not feeds:
        problem = problem if page else "that names neither its address nor its page"
        raise NothingFound(f"{source} is a feed {problem}")
    return DiscoveryResult(feeds, f"its page, {page}, names it")


def _of_page(document: Document) -> tuple[DiscoveredFeed, ...]:
    return discover_feeds(document.body, document.final_address, document.fields)
