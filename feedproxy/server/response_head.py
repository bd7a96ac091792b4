"""Heads of all responses to clients: the fields that every response gets, and the encoding as bytes."""

import logging
import re

from mitmproxy.net.http import status_codes
from msgspec.structs import replace

from feedproxy.cache.cache_status import CacheStatus, append
from feedproxy.clock import Instant
from feedproxy.errors import FeedproxyError
from feedproxy.http.date import format_http_date
from feedproxy.http.message import NO_FIELDS, Fields, Request, Response
from feedproxy.request.context import ClientContext, Entrance, ProxyResponse
from feedproxy.request.problem_details import problem_response
from feedproxy.request.response_fields_by_entrance import apply_entrance_rules

logger = logging.getLogger(__name__)

_HEAD = re.compile(
    rb"HTTP/1\.1 [1-5][0-9]{2} [\t -~\x80-\xff]*\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]++:[\t -~\x80-\xff]*+\r\n)*+\r\n"
)


def encode_head(status: int, fields: Fields, reason: str = "") -> bytes:
    """Return status line and fields as bytes. Raises UnicodeEncodeError for characters outside Latin-1."""
    phrase = reason or status_codes.RESPONSES.get(status, "")
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    return f"HTTP/1.1 {status} {phrase}\r\n{lines}\r\n".encode("latin-1")


def is_well_formed(head: bytes) -> bool:
    """Return True if the bytes are the complete head of one HTTP/1.1 response, including its empty line."""
    return _HEAD.fullmatch(head) is not None


def finish_response(response: Response, method: str, client: ClientContext, now: Instant) -> Response:
    """Return the response as the client gets it: with Date, Content-Length and, at the gateway, the fields that protect
    browsers, and without content that must not be sent. If the head has control characters, return an error instead."""
    response = _with_framing(response, method)
    if client.entrance is Entrance.GATEWAY and "content-security-policy" not in response.fields:
        response = response.with_fields(apply_entrance_rules(response.fields, client, target="", upstream=""))
    if "date" not in response.fields:
        # "An origin server with a clock MUST generate a Date header field in all 2xx (Successful), 3xx (Redirection),
        # and 4xx (Client Error) responses." -- RFC 9110, section 6.6.1
        response = response.with_fields(response.fields.with_added("Date", format_http_date(now)))
    if not _is_well_formed(response):
        # A manipulated copy or a wrong option may contain control characters, which could end the head early.
        logger.error(
            "response %d withheld, 500 sent: control characters in %s; the line of the request names the target",
            response.status,
            _invalid_parts(response),
        )
        refusal = refusal_response("GET", NO_FIELDS, FeedproxyError("internal error; see feedproxy's log"))
        return _with_framing(refusal.response, method)
    return response


def _with_framing(response: Response, method: str) -> Response:
    """Return the response with Content-Length, and without content after HEAD, 204 and 304 (RFC 9110, sections 6.4.1
    and 8.6)."""
    fields = response.fields
    if response.status in (204, 304):
        return replace(response, fields=fields.without("content-length", "transfer-encoding"), body=b"")
    if "content-length" not in fields and (method != "HEAD" or response.body):
        fields = fields.with_added("Content-Length", str(len(response.body)))
    return replace(response, fields=fields, body=b"" if method == "HEAD" else response.body)


def _is_well_formed(response: Response) -> bool:
    try:
        return is_well_formed(encode_head(response.status, response.fields, response.reason))
    except UnicodeEncodeError:
        return False


def _invalid_parts(response: Response) -> str:
    """Return what makes the head of `response` ill-formed: the names of fields or, if no field does so, "the reason
    phrase". The caller must have found that the head is ill-formed."""
    names = [name for name, value in response.fields if not _is_well_formed(Response(200, Fields([(name, value)])))]
    return ", ".join(map(ascii, names)) or "the reason phrase"


def refusal_response(method: str, fields: Fields, error: FeedproxyError) -> ProxyResponse:
    """Return the response to a refused request."""
    status = CacheStatus(detail=error.detail)
    request = Request(method, "", fields)
    response = problem_response(error.status_hint, error.detail, str(error), request=request, extra=error.fields)
    return ProxyResponse(response.with_fields(append(response.fields, status)), status, str(error))
