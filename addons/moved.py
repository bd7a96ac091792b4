"""Feeds that have moved (301) or ended (410), and XML documents that state this (redirect documents)."""

from mitmproxy import http

from feedproxy.server.addon import Addon
from feedproxy.server.standalone_edits import edit_response, to_redirect


class Moved(Addon):
    """Addon that converts redirect documents to 301 and 410 for requests that feedproxy's service does not handle."""

    options = ("relocation_confirmations", "relocation_spacing", "gone_recheck", "moved_to", "gone", "announce_as")

    def response(self, flow: http.HTTPFlow) -> None:
        edit_response(to_redirect, flow, self.app())


addons = [Moved()]
