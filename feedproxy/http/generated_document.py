"""Responses with documents that feedproxy generates: lists of feeds, lists of changes, and proxy.pac."""

from feedproxy.clock import Instant
from feedproxy.http.date import format_http_date
from feedproxy.http.etag import EntityTag
from feedproxy.http.message import Fields, Request, Response
from feedproxy.http.preconditions import Outcome, evaluate


def respond(
    request: Request, body: bytes, media_type: str, *, tag: EntityTag, modified: Instant, cache_control: str
) -> Response:
    """Return the response to a GET or HEAD for a generated document: 200, 304 or 412 (RFC 9110, section 13.2). `tag`
    and `modified` are the validators of the document `body`."""
    lines = [
        ("ETag", tag.text),
        ("Last-Modified", format_http_date(modified)),
        ("Cache-Control", cache_control),
    ]
    match evaluate(request.fields, request.method, tags=[tag], last_modified=float(int(modified))):
        case Outcome.NOT_MODIFIED:
            return Response(304, Fields(lines))
        case Outcome.PROCEED:
            lines += [("Content-Type", media_type), ("Content-Length", str(len(body)))]
            return Response(200, Fields(lines), b"" if request.method == "HEAD" else body)
    return Response(412, Fields([("Content-Length", "0")]))
