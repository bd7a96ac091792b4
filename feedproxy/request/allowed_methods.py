"""Methods that feedproxy allows, and the response to OPTIONS for feedproxy itself (RFC 9110, section 9.3.7)."""

from feedproxy.http.message import Fields, Response

CACHED_METHODS = ("GET", "HEAD")
"""Methods with cacheable responses. mitmproxy streams requests with other methods, except TRACE."""

ALLOWED_METHODS = (*CACHED_METHODS, "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""The methods that the field Allow lists for a target."""


def options_response() -> Response:
    """Return the response to OPTIONS for this proxy itself."""
    return Response(200, Fields([("Allow", ", ".join(ALLOWED_METHODS)), ("Content-Length", "0")]))
