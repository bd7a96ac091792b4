"""Media type and self link of feeds. With both, a click on a feed opens a feed reader (USM)."""

from mitmproxy import http

from feedproxy.server.addon import Addon
from feedproxy.server.standalone_edits import edit_response, with_media_type_and_self_link


class Usm(Addon):
    """Addon that edits feeds for requests that feedproxy's service does not handle (all, if loaded alone)."""

    options = ("feed_usm", "rdf_media_type", "self_link", "self_link_text")

    def response(self, flow: http.HTTPFlow) -> None:
        edit_response(with_media_type_and_self_link, flow, self.app())


addons = [Usm()]
