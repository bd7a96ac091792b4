"""Checks and corrections of the heads of HTTP/2 requests.  RFC 9113, section 8

mitmproxy passes on heads of HTTP/2 that HTTP/1 does not permit. This module applies the rules for HTTP/1 to them, too.
"""

from mitmproxy import http

from feedproxy.errors import BadRequest
from feedproxy.http import request_validation


def clean_http2_request(request: http.Request) -> None:
    """Correct and check the head of an HTTP/2 request (RFC 9113, sections 8.2 and 8.3). Raises BadRequest if the head
    is invalid."""
    # The colon of an empty port is removed from the authority and from Host (RFC 3986, section 3.2.3).
    request.data.authority = request.data.authority.removesuffix(b":")
    if "host" in request.headers:
        request.headers = http.Headers(request_validation.without_empty_port(request.headers.fields))
    data, fields = request.data, request.headers.fields
    request_validation.check_request_line(data.method, data.path)
    if data.method == b"CONNECT":
        raise BadRequest("CONNECT within a tunnel")
    if data.scheme not in (b"http", b"https"):
        raise BadRequest("invalid :scheme: expected http or https")
    if not data.path.startswith(b"/") and (data.method, data.path) != (b"OPTIONS", b"*"):
        raise BadRequest("invalid :path: expected a path")
    if data.authority and not request_validation.is_host(data.authority):
        raise BadRequest("invalid :authority: expected a host, optionally with a port")
    request_validation.check_fields(fields)
    request_validation.check_host(fields, required=not data.authority, may_be_empty=bool(data.authority))
    request_validation.check_framing(fields, minor=1)
    # Browsers send one Cookie field for each cookie.
    # "If there are multiple Cookie header fields after decompression, these MUST be concatenated into a single octet
    # string using the two-octet delimiter of 0x3b, 0x20 (the ASCII string "; ") before being passed into a non-HTTP/2
    # context" -- RFC 9113, section 8.2.3
    cookies = request.headers.get_all("cookie")
    if len(cookies) > 1:
        request.headers["cookie"] = "; ".join(cookies)
