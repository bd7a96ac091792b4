"""Rules of each entrance for the fields of a response."""

from feedproxy.http import uri
from feedproxy.http.cache_control import without_directives
from feedproxy.http.message import Fields
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.request.gateway_challenges import with_gateway_challenges
from feedproxy.request.upstream_and_public_urls import rewrite_location

GATEWAY_FIELDS = frozenset(
    {
        # Fields about the message and its freshness.
        "age",
        "cache-control",
        "cache-status",
        "cdn-cache-control",
        "date",
        "etag",
        "expires",
        "last-modified",
        "pragma",
        "proxy-status",
        "surrogate-control",
        "surrogate-key",
        "vary",
        "via",
        "warning",
        # Fields about the content. feedproxy sets Content-Security-Policy.
        "accept-ranges",
        "content-digest",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-length",
        "content-location",
        "content-md5",
        "content-range",
        "content-type",
        "delta-base",
        "digest",
        "im",
        "link",
        "mime-version",
        "repr-digest",
        # Fields about further requests.
        "allow",
        "accept-patch",
        "accept-post",
        "authentication-info",
        "deprecation",
        "location",
        "proxy-authenticate",
        "retry-after",
        "sunset",
        "ratelimit",
        "ratelimit-limit",
        "ratelimit-policy",
        "ratelimit-remaining",
        "ratelimit-reset",
        "www-authenticate",
        # Fields for access by scripts of other web origins, without credentials.
        "access-control-allow-headers",
        "access-control-allow-methods",
        "access-control-allow-origin",
        "access-control-expose-headers",
        "access-control-max-age",
        "cross-origin-resource-policy",
        "referrer-policy",
        "timing-allow-origin",
        "server",
    }
)
"""Fields of an origin's response that the gateway passes on.

For a browser, all sites behind the gateway are one web origin. Fields that affect a whole web origin are therefore left
out, such as those for cookies, workers, reports and HSTS. Names that begin with `X-` are passed on, too, unless they
begin with one of SERVER_COMMAND_PREFIXES.
"""


SERVER_COMMAND_PREFIXES = ("x-accel-", "x-envoy-", "x-lighttpd-", "x-litespeed-", "x-reproxy-", "x-sendfile")
"""Prefixes of field names that are commands to a web server or load balancer in front of the sending server.

By such a command, nginx and others send a local file or another page instead of the response.
"""


def passes_gateway(name: str) -> bool:
    """Return True if the gateway passes on a field of an origin's response with this name."""
    lowered = name.lower()
    return lowered in GATEWAY_FIELDS or (lowered.startswith("x-") and not lowered.startswith(SERVER_COMMAND_PREFIXES))


def apply_entrance_rules(fields: Fields, client: ClientContext, *, target: str, upstream: str) -> Fields:
    """Return the fields of a response after applying the rules of the client's entrance.

    `upstream` is the value of this option. The gateway adds `sandbox` of Content-Security-Policy. For a browser, all
    sites behind the gateway are one web origin, and without `sandbox`, a page of one site could read the responses of
    another.
    """
    fields = _rewrite_location(fields, client, target=target, upstream=upstream)
    fields = fields.without("alt-svc")  # an alternative service for the origin does not serve the proxy (RFC 7838)
    if client.entrance is Entrance.GATEWAY:
        if target:  # otherwise the response is a local one
            fields = Fields(line for line in fields if passes_gateway(line[0]))
            fields = with_gateway_challenges(fields, uri.origin_of(target))
        fields = fields.with_field("Content-Security-Policy", "sandbox")
        fields = fields.with_field("X-Content-Type-Options", "nosniff")
    return fields


def make_private(fields: Fields) -> Fields:
    """Return the fields with Cache-Control: private (RFC 9111, section 5.2.2.7).

    The origin's directives are replaced, because they may permit other caches to store the response.
    """
    other_fields = without_directives(fields, "public", "private", "s-maxage", "proxy-revalidate")
    fields = fields.without("cdn-cache-control", "surrogate-control", "surrogate-key")
    return fields.with_field("Cache-Control", f"private, {other_fields}" if other_fields else "private")


def _rewrite_location(fields: Fields, client: ClientContext, *, target: str, upstream: str) -> Fields:
    location = fields.get("location")
    if location is None or client.entrance is Entrance.PROXY:
        return fields
    return fields.with_field("Location", rewrite_location(location, client, target=target, upstream=upstream))
