"""Methods that feedproxy allows: 405 for TRACE and other methods, and the response to OPTIONS for feedproxy itself.

RFC 9110, sections 9.3.7 (OPTIONS), 9.3.8 (TRACE) and 15.5.6 (405).
"""

from feedproxy.cache.cache_status import Detail
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.problem_details import problem_response

CACHED_METHODS = ("GET", "HEAD")
"""Methods with cacheable responses. mitmproxy streams requests with other methods, except TRACE."""

ALLOWED_METHODS = (*CACHED_METHODS, "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""The methods that the field Allow lists for a target."""


def options_response() -> Response:
    """Return the response to OPTIONS for this proxy itself."""
    return Response(200, Fields([("Allow", ", ".join(ALLOWED_METHODS)), ("Content-Length", "0")]))


def trace_refusal(request: Request) -> Response:
    """Return 405 for TRACE. Its response would repeat the request's fields, which may contain secrets."""
    return _method_not_allowed(request, ALLOWED_METHODS, "This proxy passes no TRACE.")


def method_refusal(request: Request, allowed: tuple[str, ...]) -> Response:
    """Return 405 for a request to this proxy itself, with the methods that are allowed there."""
    detail_text = (
        "Only GET and HEAD are allowed here."
        if allowed == CACHED_METHODS
        else f"This takes {' and '.join(allowed)} only."
    )
    return _method_not_allowed(request, allowed, detail_text)


def _method_not_allowed(request: Request, allowed: tuple[str, ...], detail_text: str) -> Response:
    return problem_response(405, Detail.METHOD, detail_text, request=request, extra=(("Allow", ", ".join(allowed)),))
