"""Redirects from a page to its first feed, for gateway clients that prefer feeds (feed/autodiscovery.py). The Link
fields of a redirect list all feeds to which the page links."""

from functools import partial

from msgspec.structs import replace

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.feed.autodiscovery import DiscoveredFeed, discover_feeds, is_page, prefers_feeds
from feedproxy.http import content_negotiation, uri
from feedproxy.http.field_values import parse_parameters, quote
from feedproxy.http.message import Fields, Request, Response
from feedproxy.http.target_uri.gateway_path import gateway_path
from feedproxy.memory_max_shares import MemoryLimits
from feedproxy.proxy.representations.decoded_bodies import decode_or_none
from feedproxy.proxy.representations.derived_values import DerivedValues
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.refresh_events import Events
from feedproxy.request.context import ClientContext, Entrance, PassThrough, ProxyResponse
from feedproxy.settings import Settings

_PAGE_TYPES = ("text/html", "application/xhtml+xml")

_COPIED_FIELDS = ("cache-control", "expires", "age", "date", "via", "cache-status", "vary", "content-security-policy")


class Autodiscovery:
    """Finder of the feeds to which stored pages link, with a cache."""

    def __init__(self, helper_pool: HelperPool, limits: MemoryLimits, events: Events) -> None:
        self.feeds: DerivedValues[tuple[DiscoveredFeed, ...]] = DerivedValues(
            helper_pool, limits.pages, "the feeds of a page", _length
        )
        """The feeds to which pages link, keyed by the target, content, Content-Type and Link of the page."""
        self._events = events

    async def redirect_to_feed(
        self, answer: ProxyResponse | PassThrough, request: Request, client: ClientContext, settings: Settings
    ) -> ProxyResponse | PassThrough:
        """Return a redirect to the first feed to which a page links, if the client uses the gateway and prefers feeds
        (option `lead_to_feeds`). If there is no such feed, or `answer` is no page, return `answer`.

        With the option, a page that the gateway returns gets `Vary: Accept`.
        """
        if isinstance(answer, PassThrough) or answer.stored is None or answer.stored.content.feed:
            return answer
        if (
            client.entrance is not Entrance.GATEWAY
            or not settings.lead_to_feeds
            or parse_parameters(answer.stored.fields.get("content-type") or "")[0] not in _PAGE_TYPES
        ):
            return answer
        fields = content_negotiation.vary_on(answer.response.fields, "Accept")
        answer = replace(answer, response=answer.response.with_fields(fields))
        assert answer.stored is not None
        if answer.response.status not in (200, 304) or not prefers_feeds(request.fields.combined("accept")):
            return answer
        feeds = await self.find(answer.stored, settings)
        if not feeds:
            return answer
        self._events.page_redirected_to_feed.emit(request.target)
        response = _redirect(answer.response.fields, client, feeds)
        return replace(answer, response=response, reason="the page names a feed, which the reader prefers", stored=None)

    async def find(self, stored: StoredResponse, settings: Settings) -> tuple[DiscoveredFeed, ...]:
        """Return the feeds to which a stored page links, or an empty tuple if there are none or `stored` is no page."""
        label, body = stored.content.main_body
        if not body or stored.status != 200 or stored.content.feed:
            return ()
        target = uri.without_fragment(stored.target)
        work = partial(_find_feeds, target, stored.fields, label, body, settings.decoded_max)
        # The fields with the page's charset and with further links may change while the content stays the same.
        described_by = [stored.fields.combined(name) or "" for name in ("content-type", "link")]
        return await self.feeds.get((target, body, *described_by), work) or ()


def _length(feeds: tuple[DiscoveredFeed, ...]) -> int:
    return sum([len(feed.address) + len(feed.title) for feed in feeds])


def _find_feeds(target: str, fields: Fields, label: str, body: bytes, limit: int) -> tuple[DiscoveredFeed, ...]:
    plain = body if label == "identity" else decode_or_none(body, label, limit=limit)
    if plain is None or not is_page(plain):
        return ()
    return discover_feeds(plain, target, fields)


def _redirect(fields: Fields, client: ClientContext, feeds: tuple[DiscoveredFeed, ...]) -> Response:
    addresses = [client.base + gateway_path(feed.address) for feed in feeds]
    body = "This page names these feeds:\n" + "".join(f"{feed}\n" for feed in addresses)
    lines = [("Location", addresses[0])]
    lines += [("Link", _link(address, feed)) for address, feed in zip(addresses, feeds, strict=True)]
    lines += [line for line in fields if line[0].lower() in _COPIED_FIELDS]
    lines += [
        ("X-Content-Type-Options", "nosniff"),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body.encode()))),
    ]
    return Response(302, Fields(lines), body.encode())


def _link(address: str, feed: DiscoveredFeed) -> str:
    """Return the value of a Link field for a feed (RFC 8288, section 3), without a title that is not printable
    ASCII."""
    link = f'<{address}>; rel="alternate"'
    if feed.type:
        link += f'; type="{feed.type}"'
    return (
        f"{link}; title={quote(feed.title)}"
        if feed.title.isascii() and feed.title.isprintable() and feed.title
        else link
    )
