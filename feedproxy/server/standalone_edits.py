"""Edits of responses if feedproxy's service does not handle the request, for example if an addon is loaded alone.

`edit_response` applies one of the edits to a flow. An edit that changes nothing returns the response object that it
got.
"""

from collections.abc import Callable

from mitmproxy import http

from feedproxy.app import App
from feedproxy.clock import Instant
from feedproxy.errors import FeedproxyError
from feedproxy.feed import xml_redirect
from feedproxy.http import content_negotiation, uri
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.coding import content_coding
from feedproxy.http.etag import EntityTag, parse_tag
from feedproxy.http.message import Fields, Request, Response
from feedproxy.refresh.ingest.coding_policy import compression_level, preferred_coding
from feedproxy.refresh.ingest.ingest import ingest
from feedproxy.server.mitm.flow_handler import get_flow_handler
from feedproxy.server.mitm.passthrough import to_mitmproxy
from feedproxy.server.mitm.request_routing import fields_of, headers_of
from feedproxy.settings import Settings

type Edit = Callable[[Request, Response, Settings, Instant], Response]

_TEXT = ("xml", "json", "text/", "javascript")

_CODED_MIN = 512
"""Content of at least this many bytes is compressed. Smaller content fits into one packet without compression."""


def edit_response(edit: Edit, flow: http.HTTPFlow, app: App) -> None:
    """Apply the edit to a response with status 200, unless feedproxy's service handles the request."""
    response = flow.response
    if response is None or response.status_code != 200 or get_flow_handler(app).state_of(flow):
        return
    request = Request(flow.request.method, flow.request.url, fields_of(flow.request))
    before = Response(200, fields_of(response), response.raw_content or b"")
    edited = edit(request, before, app.settings, app.clock.now())
    if edited.status != 200:
        flow.response = to_mitmproxy(edited)
    elif edited is not before:
        response.headers, response.raw_content = headers_of(edited.fields), edited.body


def to_redirect(request: Request, response: Response, settings: Settings, now: Instant) -> Response:
    """Return 301 or 410 in place of an XML redirect document."""
    if "content-encoding" in response.fields:
        return response
    match xml_redirect.read(response.body):
        case xml_redirect.Moved(location):
            try:
                target = uri.resolve(request.target, location)
            except FeedproxyError:
                return response
            return Response(301, Fields([("Location", target), ("Content-Length", "0")]))
        case xml_redirect.Gone():
            return Response(410, Fields([("Content-Length", "0")]))
        case None:
            return response


def with_media_type_and_self_link(request: Request, response: Response, settings: Settings, now: Instant) -> Response:
    """Return a feed with its media type and a self link."""
    if not 0 < len(response.body) <= settings.buffer_max:
        return response
    content = ingest(response, settings, self_href=request.target, now=now).content
    if not content.feed or content.media_type is None:
        return response
    # The content has no coding, so a Content-Encoding in the response was wrong.
    fields = response.fields.with_field("Content-Type", content.media_type).without("content-encoding")
    body = content.bodies["identity"]
    if body != response.body:
        # The ETag belongs to the bytes before the edit. A weak ETag fits the edited content, which means the same.
        tag = parse_tag(fields.get("etag") or "")
        fields = fields.without("content-md5", "content-digest", "repr-digest", "etag")
        if tag is not None:
            fields = fields.with_field("ETag", EntityTag(tag.opaque, weak=True).text)
    return Response(200, fields.with_field("Content-Length", str(len(body))), body)


def compressed(request: Request, response: Response, settings: Settings, now: Instant) -> Response:
    """Return a text in the content coding that the client prefers."""
    if not _is_worth_coding(response, settings):
        return response
    fields = content_negotiation.vary_on(response.fields, "Accept-Encoding")
    coding = preferred_coding(request.fields.combined("accept-encoding"), settings)
    if coding is None:
        return response.with_fields(fields)
    body = content_coding.encode(response.body, coding, compression_level(coding, settings))
    fields = fields.with_field("Content-Encoding", coding).with_field("Content-Length", str(len(body)))
    return Response(200, fields.without("etag", "content-md5"), body)


def _is_worth_coding(response: Response, settings: Settings) -> bool:
    declared = (response.fields.get("content-type") or "").lower()
    return (
        _CODED_MIN <= len(response.body) <= settings.buffer_max
        and "content-encoding" not in response.fields
        and any(word in declared for word in _TEXT)
        and not CacheControl.from_fields(response.fields).no_transform
    )
