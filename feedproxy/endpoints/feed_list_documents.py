"""The public feed list as documents: `/-/feeds.opml`, and `/-/proxy.pac` with the hosts of the listed feeds."""

import asyncio
import hashlib
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.clock import Clock, Instant
from feedproxy.endpoints import proxy_autoconfig
from feedproxy.endpoints.feed_list import FeedList
from feedproxy.errors import BadTarget, NotFound
from feedproxy.feed import opml
from feedproxy.feed.opml import SubscriptionList
from feedproxy.http import generated_document, uri
from feedproxy.http.etag import parse_tag
from feedproxy.http.message import Response
from feedproxy.http.target_uri.gateway_path import gateway_path
from feedproxy.lru_map import LRU
from feedproxy.proxy.cors import with_cors_for_list
from feedproxy.request.context import Entrance
from feedproxy.request.endpoint_registry import Call
from feedproxy.request.upstream_and_public_urls import displayed_url, rebase
from feedproxy.settings import Settings

DEFAULT_TITLE = "Feeds read here"
"""Title of the list if no title was imported."""

DOCUMENTS_MAX = 8
"""At most this many documents of the list are cached: one for each form and each base URL that clients use."""


class _Document(Struct, frozen=True):
    """A document, the list from which it was made, the instant of its last change, and the digest of its content
    without this instant."""

    listing: SubscriptionList
    digest: str
    body: bytes
    modified: Instant


class FeedListDocuments:
    """Builder of `feeds.opml` and `proxy.pac`, cached until the list changes."""

    def __init__(self, feed_list: Callable[[], FeedList], settings: Callable[[], Settings], clock: Clock) -> None:
        self._feed_list = feed_list
        self._settings = settings
        self._clock = clock
        self._documents: LRU[str, _Document] = LRU(entries_max=DOCUMENTS_MAX)

    async def opml(self, call: Call) -> Response:
        """Return `feeds.opml` with gateway addresses, or with the feeds' own addresses for `?addresses=original`.
        Raises BadTarget if the query is invalid."""
        addresses = uri.query_value(call.query, "addresses")
        if addresses not in ("", "original", "proxied"):
            raise BadTarget(f"invalid addresses {addresses[:40]!r}: expected original or proxied")
        listing, base = await self._feed_list().public(), call.client.base
        through = "" if addresses == "original" else base

        def write(modified: Instant | None) -> bytes:
            return opml.write(self._for_client(listing, call, through), changed=modified)

        form = f"opml {through} {call.client.entrance}"
        response = await self._respond(call, listing, form, write, opml.MEDIA_TYPE)
        return with_cors_for_list(response, self._settings())

    async def pac(self, call: Call) -> Response:
        """Return `proxy.pac`. Browsers send requests to listed or decrypted hosts through the proxy, and all others
        directly. Raises NotFound in reverse mode, where clients use no proxy."""
        if call.client.entrance is Entrance.REVERSE:
            raise NotFound("proxy.pac is not available in reverse mode")
        listing, base = await self._feed_list().public(), call.client.base
        patterns = (*self._settings().intercept, *self._feed_list().public_hosts(listing))

        def write(_: Instant | None) -> bytes:
            hosts = {uri.split_host_port(feed.address)[0] for feed in listing.feeds}
            return proxy_autoconfig.document(base, hosts, patterns).encode()

        return await self._respond(call, listing, f"pac {base} {patterns}", write, proxy_autoconfig.MEDIA_TYPE)

    def _for_client(self, listing: SubscriptionList, call: Call, through: str) -> SubscriptionList:
        """Return the list with addresses at which this client can request the feeds. Outside reverse mode, these are
        gateway addresses that begin with `through`, or the feeds' own addresses if `through` is ""."""
        feeds, settings = [], self._settings()
        for feed in listing.feeds:
            if call.client.entrance is Entrance.REVERSE:
                # Feeds of the upstream have their public address in each form of the list. In reverse mode, only feeds
                # of the upstream are served.
                public = rebase(feed.address, settings.upstream, call.client.base)
                if public is not None:
                    feeds.append(
                        replace(feed, address=public, page=displayed_url(feed.page, settings, call.client.base))
                    )
            else:
                feeds.append(replace(feed, address=through + gateway_path(feed.address)) if through else feed)
        return SubscriptionList(listing.title or DEFAULT_TITLE, tuple(feeds))

    async def _respond(
        self,
        call: Call,
        listing: SubscriptionList,
        form: str,
        write: Callable[[Instant | None], bytes],
        media_type: str,
    ) -> Response:
        written = await self._document(listing, form, write)
        # Weak, because another worker may have noticed the change a second later, with another dateModified.
        tag = parse_tag(f'W/"{written.digest}"')
        assert tag is not None
        # Caches may store the list and must validate it, so that its subscribers see the current state.
        return generated_document.respond(
            call.request, written.body, media_type, tag=tag, modified=written.modified, cache_control="no-cache"
        )

    async def _document(
        self, listing: SubscriptionList, form: str, write: Callable[[Instant | None], bytes]
    ) -> _Document:
        """Return the document of `listing` in the form `form`. If the content has not changed, return the cached
        document.

        `write` returns the content that states a given instant of its last change or, for None, states no instant. The
        instant of the last change is that at which this process first made equal content.
        """
        cached = self._documents.get(form)
        if cached is not None and cached.listing is listing:
            return cached
        # In a thread, because thousands of feeds take some milliseconds.
        undated = await asyncio.to_thread(write, None)
        digest = hashlib.blake2b(undated, digest_size=12).hexdigest()
        if cached is not None and cached.digest == digest:
            document = replace(cached, listing=listing)
        else:
            now = self._clock.now()
            document = _Document(listing, digest, await asyncio.to_thread(write, now), now)
        self._documents.put(form, document)
        return document
