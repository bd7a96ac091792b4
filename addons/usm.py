"""Media type and self link of feeds. With both, a click on a feed opens a feed reader (USM)."""

from mitmproxy import http

from feedproxy.http.etag import EntityTag, parse_tag
from feedproxy.http.message import Response
from feedproxy.refresh.ingest.ingest import ingest
from feedproxy.server.addon import Addon
from feedproxy.server.mitm.request_routing import fields_of, headers_of


class Usm(Addon):
    """Addon that edits feeds if feedproxy's service does not handle the request, for example if this addon is loaded
    alone."""

    options = ("feed_usm", "rdf_media_type", "self_link", "self_link_text")

    def response(self, flow: http.HTTPFlow) -> None:
        app = self.app()
        response = flow.response
        if (
            response is None
            or self.flow_handler().state_of(flow)
            or response.status_code != 200
            or not response.raw_content
        ):
            return
        options = app.settings
        if len(response.raw_content) > options.buffer_max:
            return
        plain = Response(200, fields_of(response), response.raw_content)
        prepared = ingest(plain, options, self_href=flow.request.url, now=app.clock.now())
        content = prepared.content
        if not content.feed or content.media_type is None:
            return
        fields = plain.fields.with_field("Content-Type", content.media_type)
        body = content.bodies["identity"]
        # The content has no coding, so a Content-Encoding in the response was wrong.
        fields = fields.without("content-encoding")
        if body != response.raw_content:
            # The ETag belongs to the bytes before the edit. A weak ETag fits the edited content, which means the same.
            tag = parse_tag(fields.get("etag") or "")
            fields = fields.without("content-md5", "content-digest", "repr-digest", "etag")
            if tag is not None:
                fields = fields.with_field("ETag", EntityTag(tag.opaque, weak=True).text)
        response.headers = headers_of(fields.with_field("Content-Length", str(len(body))))
        response.raw_content = body


addons = [Usm()]
