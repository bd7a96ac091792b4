"""Discovery of the address at which to subscribe, in the order of the Universal Subscription Mechanism (USM).

The input is a feed or a page, given by its address or as a file. The first choice is the self link of the feed. If
there is none, the feed's page is requested. A page leads to the feeds that it names by autodiscovery.
"""

from msgspec import Struct

from feedproxy.errors import FeedproxyError, NotFound
from feedproxy.feed.autodiscovery import DiscoveredFeed, discover_feeds, is_page
from feedproxy.feed.channel import Channel
from feedproxy.feed.channel_addresses import page_address, self_address
from feedproxy.feed.parse.channel_parser import read
from feedproxy.http import uri
from feedproxy.http.message import NO_FIELDS
from feedproxy.refresh.standalone_fetch import Document, fetch_document, follow_saved_redirect
from feedproxy.settings import Settings
from feedproxy.usm.address_or_file import from_file, parse_source


class DiscoveryResult(Struct, frozen=True):
    """The feeds that were found, the preferred feed first, and how they were found (`description`)."""

    feeds: tuple[DiscoveredFeed, ...]
    description: str


async def discover(source: str, settings: Settings) -> DiscoveryResult:
    """Return the feeds to which an address or a file leads.

    `source` is an address (http, https, feed), a `file:` address, or a path. Raises NotFound if `source` leads to no
    feed, and the errors of `fetch_document` and `from_file`.
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
        raise NotFound(f"{source} is neither a feed nor a page")
    feeds = feeds_of_page(document)
    if not feeds:
        raise NotFound(f"{source} is a page that names no feed")
    return DiscoveryResult(feeds, "the page names it")


async def _of_feed(channel: Channel, document: Document, source: str, settings: Settings) -> DiscoveryResult:
    if own := self_address(channel, document.final_address):
        return DiscoveryResult((DiscoveredFeed(own, title=channel.title),), "the feed's self link names it")
    page = page_address(channel, document.final_address)
    feeds: tuple[DiscoveredFeed, ...] = ()
    problem = f"without its address, and its page, {page}, names no feed"
    try:
        feeds = feeds_of_page(await fetch_document(page, settings)) if page else ()
    except FeedproxyError as error:
        problem = f"without its address, and its page is not available: {error}"
    own_addresses = {document.address, document.permanent_address, document.final_address}
    if document.permanent_address and (not feeds or own_addresses & {feed.address for feed in feeds}):
        return DiscoveryResult((DiscoveredFeed(document.permanent_address, title=channel.title),), "it was found there")
    if not feeds:
        problem = problem if page else "that names neither its address nor its page"
        raise NotFound(f"{source} is a feed {problem}")
    return DiscoveryResult(feeds, f"its page, {page}, names it")


def feeds_of_page(document: Document) -> tuple[DiscoveredFeed, ...]:
    """Return the feeds that a page names by autodiscovery."""
    return discover_feeds(document.body, document.final_address, document.fields)


async def verification_failure(address: str, settings: Settings) -> str:
    """Return the reason why the feed is not verified, or "" if it is verified.

    A feed is verified if its document names a page, and this page names the feed.
    """
    try:
        document = await fetch_document(address, settings)
        channel = read(document.body, document.fields.get("content-type"))
        if channel is None:
            return "it is not a feed"
        page = page_address(channel, document.final_address)
        if not page:
            return "it names no page"
        addresses = {feed.address for feed in feeds_of_page(await fetch_document(page, settings))}
    except FeedproxyError as error:
        return str(error)
    own = {uri.normalise(address), document.final_address, self_address(channel, document.final_address)}
    return "" if own & addresses else f"its page, {page}, does not name it"
