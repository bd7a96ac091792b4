"""Autodiscovery: redirects from a page to its feed, for gateway clients that prefer feeds (Accept)."""

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app


class Discovery:
    """Addon that declares the option. The service makes the redirects (feedproxy/proxy/autodiscovery.py)."""

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "lead_to_feeds")

    def configure(self, _: set[str]) -> None:
        get_app(ctx.master).adopt(ctx.options)


addons = [Discovery()]
