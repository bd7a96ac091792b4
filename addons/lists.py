"""What is read here, as lists: `/-/feeds.opml` and `/-/proxy.pac`; the operator imports and exports at `/opml`."""

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.admin.feed_list_import import FeedListImport
from feedproxy.app import get_app
from feedproxy.endpoints.feed_list_documents import FeedListDocuments
from feedproxy.http.message import Response
from feedproxy.request.endpoints import Call


class Lists:
    """Offers the endpoints, and the operator's hand on them."""

    def __init__(self) -> None:
        self._pages: FeedListDocuments | None = None

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "list_readers_min")
        here = get_app(ctx.master)
        here.endpoints.add("feeds.opml", self._opml)
        here.endpoints.add("proxy.pac", self._pac)
        desk = FeedListImport(here)
        here.admin_actions["opml"], here.shown["opml"] = desk.take, desk.show

    def configure(self, _: set[str]) -> None:
        get_app(ctx.master).adopt(ctx.options)

    async def done(self) -> None:
        await get_app(ctx.master).close()

    async def _opml(self, call: Call) -> Response:
        return await self._made().opml(call)

    async def _pac(self, call: Call) -> Response:
        return await self._made().pac(call)

    def _made(self) -> FeedListDocuments:
        here = get_app(ctx.master)
        if self._pages is None or self._pages.feed_list is not here.feed_list:
            self._pages = FeedListDocuments(here.feed_list, lambda: here.settings, here.clock)
        return self._pages


addons = [Lists()]
