"""Methods: the requests that feedproxy answers from its cache, streams to the origin, or refuses (RFC 9110, section
9.3)."""

from feedproxy.cache.cache_status import Fwd
from feedproxy.errors import MethodNotAllowed
from feedproxy.http.message import Fields, Response

CACHED_METHODS = ("GET", "HEAD")
"""Methods with cacheable responses. mitmproxy streams requests with other methods, except TRACE."""

ALLOWED_METHODS = (*CACHED_METHODS, "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""The methods that the field Allow lists for a target."""


def check_method(method: str) -> None:
    """Raise MethodNotAllowed for TRACE: its response would repeat the request's fields, which can contain secrets."""
    if method == "TRACE":
        raise MethodNotAllowed("This proxy does not forward TRACE.", ALLOWED_METHODS)


def reason_to_stream(method: str, *, has_content: bool) -> Fwd | None:
    """Return the reason why a request is streamed to the origin, or None if its response can be cacheable."""
    if method not in CACHED_METHODS:
        return Fwd.METHOD
    # Content of a GET has no defined meaning, so that its response is not cacheable (RFC 9110, section 9.3.1).
    return Fwd.BYPASS if has_content else None


def options_response() -> Response:
    """Return the response to OPTIONS for this proxy itself (RFC 9110, section 9.3.7)."""
    return Response(200, Fields([("Allow", ", ".join(ALLOWED_METHODS)), ("Content-Length", "0")]))
