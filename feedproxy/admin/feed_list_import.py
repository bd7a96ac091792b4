"""Import and export of the list of feeds: POST /opml imports a list, and GET /opml returns its public feeds."""

import asyncio
from dataclasses import replace
from functools import partial

from aiohttp import BodyPartReader, web

from feedproxy.admin import request_parameters
from feedproxy.admin.pages.feed_pages import OUTCOME, as_json, wants_json
from feedproxy.app import App
from feedproxy.cooperative_iteration import iterate_cooperatively
from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.feed import opml, pasted_address
from feedproxy.feed.opml import Subscription, SubscriptionList
from feedproxy.http import uri
from feedproxy.request.upstream_and_public_urls import to_upstream
from feedproxy.upstream.own_urls import is_own

CONTENT_MAX = 8_000_000
"""A list of more than this many bytes is refused. A list of this size has ten thousand feeds with all usual
attributes."""

NAME_LENGTH_MAX = 200
"""Maximum number of characters in a list's name."""


class InvalidFeedList(FeedproxyError):
    """Error for content that is not OPML."""

    status_hint = 400
    detail = "bad-list"


class ListTooLarge(FeedproxyError):
    """Error for content larger than CONTENT_MAX."""

    status_hint = 413
    detail = "too-large"


class FeedListImport:
    """The handlers of `/opml`."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def take(self, request: web.Request) -> web.Response:
        """Import the list in the request. Return the outcome. Raises InvalidFeedList or ListTooLarge for a list that
        cannot be read, and StoreError if the store fails.

        In the query, `name` names the list, `replace` removes the feeds of earlier imports, and `intercept` decrypts
        TLS to the hosts of the feeds.
        """
        is_form = request.content_type == "multipart/form-data"
        if is_form:
            with request_parameters.translate_form_errors():
                body, name = await _read_form(request)
        else:
            body, name = await _read_content(request), ""
        # Parsing thousands of feeds takes some 0.1 s. Therefore it is done outside the event loop.
        listing = await self._app.service.helper_pool.submit(partial(opml.read, body, request.charset))
        if listing is None:
            raise InvalidFeedList("The content is not a subscription list: expected OPML.")
        listing = await _origin_addresses(listing, self._app)
        outcome = await self._app.feed_list.import_list(
            listing,
            name=(name or request.query.get("name", "")).strip()[:NAME_LENGTH_MAX],
            replace=_parameter(request, "replace"),
            intercept=_parameter(request, "intercept"),
        )
        OUTCOME.set(f"{len(outcome.added)} added, {outcome.known} already there, {outcome.skipped_count} skipped")
        if is_form and not wants_json(request):
            return web.Response(status=303, headers={"Location": "/feeds"})
        return as_json(
            {
                "ok": True,
                "title": self._app.feed_list.imported.title,
                "feeds": len(self._app.feed_list.imported.feeds),
                "added": len(outcome.added),
                "known": outcome.known,
                "passed_over": outcome.skipped_count,
                "intercepted": list(outcome.hosts),
            }
        )

    async def show(self, request: web.Request) -> web.Response:
        """Return the public feeds of the list as OPML, with their addresses at their origins."""
        listing = await self._app.feed_list.public()
        document = await asyncio.to_thread(opml.write, listing, changed=self._app.clock.now())
        if wants_json(request):
            return as_json({"title": listing.title, "feeds": len(listing.feeds), "document": document.decode()})
        return web.Response(body=document, headers={"Content-Type": opml.MEDIA_TYPE})


async def _origin_addresses(listing: SubscriptionList, app: App) -> SubscriptionList:
    """Return the list with the addresses of origins in place of feedproxy's, and each feed once."""
    settings, own_origins = app.settings, dict[str, bool]()
    feeds: dict[str, Subscription] = {}
    skipped_count = 0
    async for feed in iterate_cooperatively(listing.feeds):
        address, origin = to_upstream(feed.address, settings), uri.origin_of(feed.address)
        if not settings.upstream:
            if origin not in own_origins:
                own_origins[origin] = await is_own(feed.address, settings, app.policy, app.listeners)
            if own_origins[origin]:
                try:
                    address = pasted_address.unwrap(feed.address, settings.endpoint_prefix)
                except BadTarget:
                    skipped_count += 1
                    continue
        skipped_count += address in feeds
        feeds.setdefault(address, replace(feed, address=address))
    return SubscriptionList(listing.title, tuple(feeds.values()), listing.skipped_count + skipped_count)


def _parameter(request: web.Request, name: str) -> bool:
    return request.query.get(name, "").lower() in ("1", "true", "yes", "on")


async def _read_form(request: web.Request) -> tuple[bytes, str]:
    """Return the file in a form and the name of the list. Raises ListTooLarge above CONTENT_MAX bytes."""
    body, name = bytearray(), ""
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader):
            continue
        content = bytearray()
        while piece := await part.read_chunk():
            content += piece
            if len(body) + len(content) > CONTENT_MAX:
                raise ListTooLarge(f"The list is larger than {CONTENT_MAX} bytes.")
        if part.name == "file":
            body = content
        elif part.name == "name":
            name = content.decode("utf-8", "replace")
    return bytes(body), name


async def _read_content(request: web.Request) -> bytes:
    """Return the content of the request, at most CONTENT_MAX bytes. Raises ListTooLarge if it is larger."""
    pieces, size = [], 0
    async for piece in request.content.iter_any():
        size += len(piece)
        if size > CONTENT_MAX:
            raise ListTooLarge(f"The list is larger than {CONTENT_MAX} bytes.")
        pieces.append(piece)
    return b"".join(pieces)
