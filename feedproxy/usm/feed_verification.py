"""Verification that a feed belongs to its page: the feed names the page, and the page names the feed."""

from feedproxy.errors import FeedproxyError
from feedproxy.feed.channel_addresses import page_address, self_address
from feedproxy.feed.parse.channel_parser import read
from feedproxy.http import uri
from feedproxy.refresh.standalone_fetch import fetch_document
from feedproxy.settings import Settings
from feedproxy.usm.address_discovery import feeds_of_page


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
        addresses = {feed.address for feed in feeds_of_page(await fetch_document(page, settings))}
    except FeedproxyError as error:
        return str(error)
    own = {uri.normalise(address), document.final_address, self_address(channel, document.final_address)}
    return "" if own & addresses else f"its page, {page}, does not name it"
