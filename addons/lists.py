"""Lists of feeds: `/-/feeds.opml` and `/-/proxy.pac`, and the operator's import and export at `/opml`."""

from mitmproxy.addonmanager import Loader

from feedproxy.admin.feed_list_import import FeedListImport
from feedproxy.endpoints.feed_list_documents import FeedListDocuments
from feedproxy.http.message import Response
from feedproxy.request.endpoint_registry import Call
from feedproxy.server.addon import Addon


class Lists(Addon):
    """Addon with the endpoints for lists and the operator's import."""

    options = ("list_readers_min",)

    def __init__(self) -> None:
        self._documents: FeedListDocuments | None = None

    def load(self, loader: Loader) -> None:
        super().load(loader)
        app = self.app()
        app.endpoints.add("feeds.opml", self._opml)
        app.endpoints.add("proxy.pac", self._pac)
        feed_list = FeedListImport(app)
        app.admin_actions["opml"], app.admin_pages["opml"] = feed_list.take, feed_list.show

    async def _opml(self, call: Call) -> Response:
        return await self._current().opml(call)

    async def _pac(self, call: Call) -> Response:
        return await self._current().pac(call)

    def _current(self) -> FeedListDocuments:
        app = self.app()
        if self._documents is None or self._documents.feed_list is not app.feed_list:
            self._documents = FeedListDocuments(app.feed_list, lambda: app.settings, app.clock)
        return self._documents


addons = [Lists()]
