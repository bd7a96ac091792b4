"""Rules of each entrance for the fields of a response."""

import re
from collections.abc import Callable
from functools import partial

from feedproxy.http import uri
from feedproxy.http.cache_control import without_directives, without_targeted
from feedproxy.http.field_values import PARSED_MAX
from feedproxy.http.message import Fields
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.request.gateway_challenges import with_gateway_challenges
from feedproxy.request.upstream_and_public_urls import rewrite_link, rewrite_location

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
"""Fields of an origin's response that the gateway passes on, in addition to names that begin with `X-` but with none of
SERVER_COMMAND_PREFIXES.

For a browser, all sites behind the gateway are one web origin. Fields that affect a whole web origin are therefore left
out, such as those for cookies, workers, reports and HSTS.
"""


SERVER_COMMAND_PREFIXES = tuple(
    f"x-{name}"
    for name in ("accel-", "archive-files", "envoy-", "esi", "lighttpd-", "litespeed-", "reproxy-", "sendfile")
)
"""Prefixes of field names that are commands to a web server or load balancer in front of the sending server.

By such a command, nginx and others send a local file or another page, or insert other pages into the content (ESI).
Surrogate-Control can be such a command, too, so it is not in GATEWAY_FIELDS.
"""


_REFERENCE_FIELDS = frozenset({"location", "content-location", "link"})

_LINK_REFERENCE = re.compile(r'"(?:[^"\\]|\\.?)*+"?|<([^<>]*)>', re.DOTALL)
"""Pattern of a quoted string or of a reference in Link (RFC 8288, section 3). A string without an end reaches to the
end of the value."""


def passes_gateway(name: str) -> bool:
    """Return True if the gateway passes on a field of an origin's response with this name."""
    lowered = name.lower()
    return lowered in GATEWAY_FIELDS or (lowered.startswith("x-") and not lowered.startswith(SERVER_COMMAND_PREFIXES))


def apply_entrance_rules(
    fields: Fields, client: ClientContext, *, target: str, upstream: str, content_target: str = ""
) -> Fields:
    """Return the fields of a response after applying the rules of the client's entrance.

    `target` is the target of the request, or empty for a response of feedproxy itself. `upstream` is the value of this
    option. `content_target` is the target that sent the content, if feedproxy followed redirects from `target`.
    """
    if client.entrance is not Entrance.PROXY and fields.has_any(_REFERENCE_FIELDS):
        fields = _rewrite_references(fields, client, target, upstream, content_target)
    fields = fields.without("alt-svc")  # an alternative service for the origin does not serve the proxy (RFC 7838)
    if client.entrance is Entrance.GATEWAY:
        if target:  # otherwise the response is a local one
            fields = Fields(line for line in fields if passes_gateway(line[0]))
            fields = with_gateway_challenges(fields, uri.origin_of(target))
        fields = sandboxed(fields)
    return fields


def sandboxed(fields: Fields) -> Fields:
    """Return the fields with `Content-Security-Policy: sandbox`, so that a browser runs no script of the gateway's
    response.

    For a browser, all sites behind the gateway are one web origin: a script of one site could read the responses of
    another.
    """
    return fields.with_field("Content-Security-Policy", "sandbox").with_field("X-Content-Type-Options", "nosniff")


def make_private(fields: Fields) -> Fields:
    """Return the fields with Cache-Control: private (RFC 9111, section 5.2.2.7), and without the origin's directives
    for shared caches and its targeted fields, which could permit other caches to store the response."""
    other_fields = without_directives(fields, "public", "private", "s-maxage", "proxy-revalidate")
    fields = without_targeted(fields).without("surrogate-key")
    return fields.with_field("Cache-Control", f"private, {other_fields}" if other_fields else "private")


def _rewrite_references(
    fields: Fields, client: ClientContext, target: str, upstream: str, content_target: str
) -> Fields:
    """Return the fields with a Location, a Content-Location and a Link that the client can use. The arguments are those
    of `apply_entrance_rules`."""
    location = partial(rewrite_location, client=client, target=target, upstream=upstream)
    if (value := fields.get("location")) is not None:
        fields = fields.with_field("Location", location(value))
    if not target:
        return fields  # the response is a local one
    if (value := fields.get("content-location")) is not None:
        fields = fields.with_field("Content-Location", location(value, content_target=content_target))
    if "link" not in fields:
        return fields
    link = partial(rewrite_link, client=client, target=target, upstream=upstream, content_target=content_target)
    return Fields((name, _rewrite_links(value, link) if name.lower() == "link" else value) for name, value in fields)


def _rewrite_links(value: str, rewrite: Callable[[str], str]) -> str:
    """Return the value of Link with each reference replaced by the result of `rewrite`, or unchanged if it is longer
    than PARSED_MAX."""
    if len(value) > PARSED_MAX:
        return value
    return _LINK_REFERENCE.sub(lambda match: match[0] if match[1] is None else f"<{rewrite(match[1])}>", value)
