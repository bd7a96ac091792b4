"""Lists of feeds: `/-/feeds.opml` and `/-/proxy.pac`."""

from mitmproxy.addonmanager import Loader

from feedproxy.endpoints.feed_list_documents import FeedListDocuments
from feedproxy.server.addon import Addon


class Lists(Addon):
    """Addon with the endpoints for lists."""

    options = ("list_readers_min",)

    def __init__(self) -> None:
        self._documents: FeedListDocuments | None = None

    def load(self, loader: Loader) -> None:
        super().load(loader)
        app = self.app()
        app.endpoints.add("feeds.opml", lambda call: self._current().opml(call))
        app.endpoints.add("proxy.pac", lambda call: self._current().pac(call))

    def _current(self) -> FeedListDocuments:
        app = self.app()
        if self._documents is None or self._documents.feed_list is not app.feed_list:
            self._documents = FeedListDocuments(app.feed_list, lambda: app.settings, app.clock)
        return self._documents


addons = [Lists()]
