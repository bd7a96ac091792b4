"""Content codings: gzip, br and zstd, as each client accepts them."""

from mitmproxy import http

from feedproxy.http import content_negotiation
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.coding import content_coding
from feedproxy.http.message import Fields
from feedproxy.refresh.ingest.coding_policy import compression_level
from feedproxy.server.addon import Addon
from feedproxy.server.mitm.request_routing import fields_of, headers_of
from feedproxy.settings import Settings

TEXT = ("xml", "json", "text/", "javascript")
WORTH_CODING = 512
"""Content of at least this many bytes is compressed. Smaller content fits into one packet without compression."""


class Coding(Addon):
    """Addon that compresses responses if feedproxy's service does not handle the request, for example if this addon is
    loaded alone."""

    options = ("codings", "feed_process")

    def response(self, flow: http.HTTPFlow) -> None:
        app = self.app()
        response = flow.response
        if response is None or self.flow_handler().state_of(flow) or response.status_code != 200:
            return
        fields, body = fields_of(response), response.raw_content or b""
        if not _worth_coding(fields, body, app.settings):
            return
        levels = {name: compression_level(name, app.settings) for name in content_coding.CODINGS}
        available = [name for name, level in levels.items() if level]
        chosen = content_negotiation.choose_coding(
            flow.request.headers.get("accept-encoding"), [*available, "identity"]
        )
        if chosen is None or chosen == "identity":
            response.headers = headers_of(content_negotiation.vary_on(fields, "Accept-Encoding"))
            return
        coded = content_coding.encode(body, chosen, levels[chosen])
        fields = content_negotiation.vary_on(fields.with_field("Content-Encoding", chosen), "Accept-Encoding").without(
            "etag", "content-md5"
        )
        response.headers = headers_of(fields.with_field("Content-Length", str(len(coded))))
        response.raw_content = coded


def _worth_coding(fields: Fields, body: bytes, options: Settings) -> bool:
    declared = (fields.get("content-type") or "").lower()
    return (
        WORTH_CODING <= len(body) <= options.buffer_max
        and "content-encoding" not in fields
        and any(word in declared for word in TEXT)
        and not CacheControl.from_fields(fields).no_transform
    )


addons = [Coding()]
