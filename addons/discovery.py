"""Autodiscovery: redirects from a page to its feed, for gateway clients that prefer feeds (Accept)."""

from feedproxy.server.addon import Addon


class Discovery(Addon):
    """Addon with the option for redirects from pages to feeds (proxy/page_to_feed_redirect.py)."""

    options = ("lead_to_feeds",)


addons = [Discovery()]
