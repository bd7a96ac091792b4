"""The three entrances, and the response fields that each requires (DESIGN, section 2)."""

from dataclasses import dataclass
from enum import StrEnum

from feedproxy.errors import BadTarget
from feedproxy.http import auth_realm, uri
from feedproxy.http.cache_control import without_directives
from feedproxy.http.message import Fields
from feedproxy.request.url_mapping import rebase


class Entrance(StrEnum):
    """How a request reaches the proxy."""

    GATEWAY = "gateway"
    PROXY = "proxy"
    REVERSE = "reverse"


@dataclass(frozen=True, slots=True)
class ClientContext:
    """A reader's way in: entrance, our own address as the reader wrote it, and who the reader is.

    `base` has no trailing slash, such as `http://proxy.example:8080`; `address` is the reader's own, believed
    from a trusted proxy in front; `user` is a name that was proved, or empty. `counted` is False for a look at a feed
    that makes no subscriber.
    """

    entrance: Entrance
    base: str
    address: str
    user: str = ""
    is_counted: bool = True


GATEWAY_FIELDS = frozenset(
    {
        # The message, and how long it is good.
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
        # Its content. Content-Security-Policy is ours.
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
        # What to do next.
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
        # What scripts of other web origins may read of it, without credentials.
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
"""Fields of an origin's answer that pass the gateway. Those whose names begin with `X-` pass as well: no browser gives
new ones a meaning (RFC 6648). Not so web servers: see FOR_SERVERS_IN_FRONT.

A field may have a meaning for all that a web origin answers, which is every site here: cookies, workers, reports, HSTS,
log-in states, sessions bound to a device, trials. Browsers get new ones each year, which a list would lack.
"""


SERVER_COMMAND_PREFIXES = ("x-accel-", "x-envoy-", "x-lighttpd-", "x-litespeed-", "x-reproxy-", "x-sendfile")
"""Beginnings of names by which a web server or load balancer in front takes orders from what it stands before: nginx
and others send a file of their own, or a page of another location, in the place of the answer."""


def passes_gateway(name: str) -> bool:
    """Return whether a field of an origin's response, by its name, passes the gateway."""
    lowered = name.lower()
    return lowered in GATEWAY_FIELDS or (lowered.startswith("x-") and not lowered.startswith(SERVER_COMMAND_PREFIXES))


def apply_entrance_rules(fields: Fields, client: ClientContext, *, target: str, upstream: str) -> Fields:
    """Return the fields of a response with the rules of the client's entrance applied.

    The gateway is one web origin for the whole web. Without the sandbox a page of one site could read responses of
    another, and cookies of one site would be sent to all.
    """
    fields = _rewrite_location(fields, client, target=target, upstream=upstream)
    fields = fields.without("alt-svc")  # another way to the origin is none to us (RFC 7838)
    if client.entrance is Entrance.GATEWAY:
        if target:  # else it is an answer of our own
            fields = Fields(line for line in fields if passes_gateway(line[0]))
            fields = _with_own_realms(fields, uri.origin_of(target))
        fields = fields.with_field("Content-Security-Policy", "sandbox")
        fields = fields.with_field("X-Content-Type-Options", "nosniff")
    return fields


def make_private(fields: Fields) -> Fields:
    """Mark a response to an authenticated client as private (RFC 9111, 5.2.2.7), whatever the origin permits.

    A request for a secret address has no Authorization by which a downstream cache could recognise it.
    """
    rest = without_directives(fields, "public", "private", "s-maxage", "proxy-revalidate")
    fields = fields.without("cdn-cache-control", "surrogate-control", "surrogate-key")
    return fields.with_field("Cache-Control", f"private, {rest}" if rest else "private")


def _with_own_realms(fields: Fields, origin: str) -> Fields:
    """Return challenges whose realms begin with the target's origin.

    To a browser a realm belongs to the web origin that names it (RFC 9110, 11.5), which is ours: without this, one site
    would be sent what a reader told another, by naming its realm.
    """
    if "www-authenticate" not in fields:
        return fields
    lines = []
    for name, value in fields:
        if name.lower() != "www-authenticate":
            lines.append((name, value))
        elif challenges := auth_realm.with_realms_of(value, origin):
            lines.append((name, challenges))
    return Fields(lines)


def _rewrite_location(fields: Fields, client: ClientContext, *, target: str, upstream: str) -> Fields:
    location = fields.get("location")
    if location is None or client.entrance is Entrance.PROXY:
        return fields
    return fields.with_field("Location", rewrite_location(location, client, target=target, upstream=upstream))


def rewrite_location(location: str, client: ClientContext, *, target: str, upstream: str) -> str:
    """Return a Location that keeps the client inside its entrance.

    An address that no reader could fetch through us (another scheme) is left as it stands. So is a relative one that
    means the same from where the reader stands, fragment and all (RFC 9110, 10.2.2).
    """
    try:
        absolute = uri.resolve(target, location)
        if client.entrance is Entrance.GATEWAY:
            return client.base + uri.gateway_path(absolute)
        public = _public_url(absolute, client, upstream)
        as_read = uri.resolve(public_url_for(target, client, upstream=upstream), location)
        return location if public is None or as_read == uri.normalise(public) else public
    except BadTarget:
        return location


def public_url_for(target: str, client: ClientContext, *, upstream: str) -> str:
    """Return the URL of a target for this client: in reverse mode the public one."""
    return _public_url(target, client, upstream) or target


def _public_url(target: str, client: ClientContext, upstream: str) -> str | None:
    if client.entrance is not Entrance.REVERSE or not upstream:
        return None
    return rebase(target, upstream, client.base)
