"""Import and export of the list of feeds: POST /opml imports a list, and GET /opml returns its public feeds."""

import asyncio
from functools import partial

from aiohttp import web
from msgspec.structs import replace

from feedproxy.admin import request_parameters
from feedproxy.admin.html_or_json import as_json, wants_json
from feedproxy.admin.pages.feed_pages import ActionOutcome, Notice
from feedproxy.app import App
from feedproxy.cooperative_iteration import iterate_cooperatively
from feedproxy.errors import BadTarget, FeedproxyError, InvalidFeedList
from feedproxy.feed import opml, pasted_address
from feedproxy.feed.opml import Subscription, SubscriptionList
from feedproxy.http import uri
from feedproxy.request.upstream_and_public_urls import to_upstream
from feedproxy.upstream.own_urls import is_own

NAME_LENGTH_MAX = 200
"""Maximum number of characters in a list's name."""


class ListTooLarge(FeedproxyError, status=413, detail="too-large"):
    """Error for content larger than opml.CONTENT_MAX."""


class FeedListImport:
    """The handlers of `/opml`."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def take(self, request: web.Request) -> ActionOutcome:
        """Import the list in the request. Return the outcome.

        Of the parameters, `name` is the name of the list, `replace` removes the feeds of earlier imports, and
        `intercept` lets the explicit proxy decrypt the TLS of the feeds' hosts. Raises InvalidFeedList, ListTooLarge or
        InvalidForm for a list that cannot be read, and StoreError if the store fails.
        """
        try:
            body, name = await _read_list(request.clone(client_max_size=opml.CONTENT_MAX))
        except web.HTTPRequestEntityTooLarge as error:
            raise ListTooLarge(f"The list is larger than {opml.CONTENT_MAX} bytes.") from error
        # Parsing thousands of feeds takes some 0.1 s. Therefore it is done outside the event loop.
        listing = await self._app.service.helper_pool.submit(partial(opml.read, body, request.charset))
        if listing is None:
            raise InvalidFeedList("The content is not a subscription list: expected OPML.")
        if not listing.is_complete:
            raise InvalidFeedList(
                f"The list is cut off, nested too deeply, or has over {opml.FEEDS_MAX} feeds. Nothing was imported."
            )
        listing = await _origin_addresses(listing, self._app)
        outcome = await self._app.feed_list.import_list(
            listing,
            name=(name or request.query.get("name", "")).strip()[:NAME_LENGTH_MAX],
            replace=_parameter(request, "replace"),
            intercept=_parameter(request, "intercept"),
        )
        view = {
            "ok": True,
            "title": self._app.feed_list.imported.title,
            "feeds": len(self._app.feed_list.imported.feeds),
            "added": len(outcome.added),
            "known": outcome.known,
            "passed_over": outcome.skipped_count,
            "intercepted": list(outcome.hosts),
        }
        text = f"{len(outcome.added)} added, {outcome.known} already there, {outcome.skipped_count} skipped"
        return ActionOutcome(view, Notice(True, text), "/feeds")

    async def show(self, request: web.Request) -> web.Response:
        """Return the public feeds of the list as OPML, with their addresses at their origins."""
        listing = await self._app.feed_list.public()
        document = await asyncio.to_thread(opml.write, listing, changed=self._app.clock.now())
        if wants_json(request):
            return as_json({"title": listing.title, "feeds": len(listing.feeds), "document": document.decode()})
        return web.Response(body=document, headers={"Content-Type": opml.MEDIA_TYPE})


async def _origin_addresses(listing: SubscriptionList, app: App) -> SubscriptionList:
    """Return the list with each feed once, by its address at its origin. Addresses at this proxy are replaced by their
    targets, or left out if they name none."""
    settings, own_origins = app.settings, dict[str, bool]()
    feeds: dict[str, Subscription] = {}
    skipped_count = 0
    async for feed in iterate_cooperatively(listing.feeds):
        address, origin = to_upstream(feed.address, settings), uri.origin_of(feed.address)
        if not settings.upstream:
            if origin not in own_origins:
                own_origins[origin] = await is_own(feed.address, settings, app.parts.policy, app.listeners)
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


async def _read_list(request: web.Request) -> tuple[bytes, str]:
    """Return the content of the list, and its name: "" unless the request is a form with a name. Raises InvalidForm for
    an unreadable form."""
    if request.content_type != "multipart/form-data":
        return await request_parameters.read_content(request), ""
    form = await request_parameters.read_form(request)
    file = form.get("file")
    return file.file.read() if isinstance(file, web.FileField) else b"", str(form.get("name", ""))
