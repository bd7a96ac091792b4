"""Content codings: gzip, br and zstd, as each client accepts them."""

from mitmproxy import http

from feedproxy.server.addon import Addon
from feedproxy.server.standalone_edits import compressed, edit_response


class Coding(Addon):
    """Addon that compresses responses to requests that feedproxy's service does not handle (all, if loaded alone)."""

    options = ("codings", "feed_process")

    def response(self, flow: http.HTTPFlow) -> None:
        edit_response(compressed, flow, self.app())


addons = [Coding()]
