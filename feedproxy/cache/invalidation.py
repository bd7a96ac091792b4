"""Invalidation of stored responses by unsafe requests.  RFC 9111, section 4.4"""

from collections.abc import Callable

from feedproxy.errors import FeedproxyError
from feedproxy.http import uri
from feedproxy.http.message import Request, Response

# RFC 9110, section 9.2.1, and the safe methods of the IANA registry. Names are case-sensitive.
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "QUERY", "REPORT", "SEARCH"})


def may_invalidate(request: Request, response: Response) -> bool:
    """Return True if the response invalidates stored responses: it is a 2xx or 3xx to an unsafe method."""
    # "in response to an unsafe request method (including methods whose safety is unknown)"; 'A "non-error response" is
    # one with a 2xx (Successful) or 3xx (Redirection) status code.'
    return request.method not in _SAFE and 200 <= response.status < 400


def invalidated_by(request: Request, response: Response, to_target: Callable[[str], str] = str) -> tuple[str, ...]:
    """Return the target URIs that a response to `request` invalidates. The first is the target of the request.

    The result is empty if the response invalidates nothing. `to_target` returns the target URI of a normalised address
    in Location or Content-Location.
    """
    if not may_invalidate(request, response):
        return ()
    # "A cache MUST invalidate the target URI"
    targets = {request.target: None}
    # "In particular, the URI(s) in the Location and Content-Location response header fields (if present) are
    # candidates for invalidation"
    for name in ("location", "content-location"):
        reference = response.fields.get(name)
        if reference is not None and (other := _same_origin(request.target, reference, to_target)):
            targets[other] = None
    return tuple(targets)


def _same_origin(target: str, reference: str, to_target: Callable[[str], str]) -> str | None:
    try:
        other = to_target(uri.resolve(target, reference))
    except FeedproxyError:
        return None
    # "a cache MUST NOT trigger an invalidation under these conditions if the origin of the URI to be
    # invalidated differs from that of the target URI"
    return other if uri.origin_of(other) == uri.origin_of(target) else None
