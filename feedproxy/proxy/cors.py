"""Cross-origin reads by scripts in browsers: the option `cors` (Fetch Standard, "CORS protocol")."""

from collections.abc import Callable

from msgspec.structs import replace

from feedproxy.http.credential_fields import is_credential
from feedproxy.http.field_values import split_list
from feedproxy.http.message import NO_FIELDS, Fields, Request, Response
from feedproxy.http.target_uri.url_redaction import has_secret
from feedproxy.refresh.policy.dictionary_privacy import is_public
from feedproxy.request.context import ClientContext, ProxyResponse
from feedproxy.request.upstream_request import is_only_language
from feedproxy.settings import Settings

_METHODS = ("GET", "HEAD")
"""The methods that a script of another web origin may use."""

_MAX_AGE = 86400
"""A browser may store the response to a preflight for this many seconds. Chromium stores it for at most two hours."""


def with_cors(response: ProxyResponse, client: ClientContext, settings: Settings) -> ProxyResponse:
    """Return the response. If the option `cors` is set and every client may get the response, add permission for
    scripts of every web origin."""
    stored = response.stored
    if not settings.cors or client.user or stored is None:
        return response
    if is_only_language(stored.key):
        # The copy for all clients may still be missing, but each client may get this response by its Accept-Language.
        stored = replace(stored, key=NO_FIELDS)
    if not is_public(stored, settings):
        return response
    return replace(response, response=_permit_all(response.response))


def with_cors_for_list(response: Response, settings: Settings) -> Response:
    """Return a list of public feeds. If the option `cors` is set, add permission for scripts of every web origin."""
    return _permit_all(response) if settings.cors else response


def _permit_all(response: Response) -> Response:
    fields = response.fields.with_field("Access-Control-Allow-Origin", "*")
    return response.with_fields(fields.with_field("Access-Control-Expose-Headers", "*"))


def with_cors_for_failure(
    response: ProxyResponse, request: Request, client: ClientContext, settings: Settings, is_feed: Callable[[str], bool]
) -> ProxyResponse:
    """Return the response. If it reports the failure of a public feed, and the option `cors` is set, add permission for
    scripts of every web origin. `is_feed` returns True for the target of a stored feed.

    Without this permission, a script learns neither that a feed is gone nor when to try again.
    """
    if response.response.status < 400 or not settings.cors or settings.private or settings.readers or client.user:
        return response
    if "access-control-allow-origin" in response.response.fields or has_secret(request.target):
        return response
    if any(is_credential(name) for name, _ in request.fields) or not is_feed(request.target):
        return response
    return replace(response, response=_permit_all(response.response))


def preflight_response(request: Request, settings: Settings) -> Response | None:
    """Return the response that permits a CORS preflight to a feed, or None in any other case: if the request is no
    preflight, if the option `cors` is not set, or if the origin has to answer. The caller must have found a stored
    feed.

    A script that sends If-None-Match or A-IM to another web origin causes a preflight. The origin answers preflights
    for credentials, and preflights to private feeds.
    """
    fields = request.fields
    if request.method != "OPTIONS" or "origin" not in fields or not settings.cors:
        return None
    if fields.get("access-control-request-method") not in _METHODS or settings.readers or settings.private:
        return None
    requested = split_list(fields.combined("access-control-request-headers") or "")
    if any(is_credential(name) for name in requested):
        return None
    return Response(
        204,
        Fields(
            [
                ("Access-Control-Allow-Origin", "*"),
                ("Access-Control-Allow-Methods", ", ".join(_METHODS)),
                ("Access-Control-Allow-Headers", "*"),
                ("Access-Control-Max-Age", str(_MAX_AGE)),
            ]
        ),
    )
