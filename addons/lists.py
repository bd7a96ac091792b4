"""Lists of feeds: `/-/feeds.opml` and `/-/proxy.pac`."""

from mitmproxy.addonmanager import Loader

from feedproxy.endpoints.feed_list_documents import FeedListDocuments
from feedproxy.server.addon import Addon


class Lists(Addon):
    """Addon with the endpoints for lists."""

    options = ("list_readers_min",)

    def load(self, loader: Loader) -> None:
        super().load(loader)
        app = self.app()
        documents = FeedListDocuments(lambda: app.feed_list, lambda: app.settings, app.clock)
        app.endpoints.add("feeds.opml", documents.opml, is_list=True)
        app.endpoints.add("proxy.pac", documents.pac)


addons = [Lists()]
