"""Feeds that have moved (301) or ended (410), and XML documents that state this (redirect documents)."""

from mitmproxy import http

from feedproxy.errors import FeedproxyError
from feedproxy.feed import xml_redirect
from feedproxy.feed.xml_redirect import Gone
from feedproxy.feed.xml_redirect import Moved as MovedAway
from feedproxy.http import uri
from feedproxy.server.addon import Addon

CONTENT_MAX = 65_536
"""Maximum size of a document that is parsed for an XML redirect, in bytes. Redirect documents have a few hundred."""


class Moved(Addon):
    """Addon that converts redirect documents to 301 and 410 if feedproxy's service does not handle the request, for
    example if this addon is loaded alone."""

    options = ("relocation_confirmations", "relocation_spacing", "gone_recheck", "moved_to", "gone", "announce_as")

    def response(self, flow: http.HTTPFlow) -> None:
        response = flow.response
        if response is None or self.flow_handler().state_of(flow) or response.status_code != 200:
            return
        content = response.raw_content
        if not content or len(content) > CONTENT_MAX or "content-encoding" in response.headers:
            return
        match xml_redirect.read(content):
            case MovedAway(location):
                try:
                    target = uri.resolve(flow.request.url, location)
                except FeedproxyError:
                    return
                flow.response = http.Response.make(301, b"", {"Location": target})
            case Gone():
                flow.response = http.Response.make(410, b"")


addons = [Moved()]
