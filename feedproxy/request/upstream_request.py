"""The upstream request: the fields of a client's request that are forwarded to the origin, cached or streamed."""

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from feedproxy import __version__
from feedproxy.feed.channel import READER_MEDIA_TYPES
from feedproxy.http import content_negotiation
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.content_negotiation import vary_names
from feedproxy.http.credential_fields import is_credential
from feedproxy.http.hop_by_hop import HOP_BY_HOP
from feedproxy.http.memoize import memoize_short
from feedproxy.http.message import Fields, Request
from feedproxy.request.context import ClientContext, Entrance, UpstreamRequest
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

ACCEPT_ENCODING = "gzip, br, zstd"
"""Accept-Encoding of all upstream requests."""

ACCEPT = (
    "application/rss+xml, application/atom+xml, application/feed+json, application/rdf+xml, "
    "application/xml;q=0.9, text/xml;q=0.9, application/json;q=0.8, */*;q=0.5"
)
"""Accept of requests for a shared copy. Feeds are preferred, and all other types are accepted."""

CLIENT_ADDRESS_FIELDS = frozenset(
    {"forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-remote-ip", "x-remote-addr", "client-ip"}
    | {"true-client-ip", "x-true-client-ip", "x-originating-ip", "x-proxyuser-ip", "wl-proxy-client-ip"}
    | {"cf-connecting-ip", "cf-connecting-ipv6", "fastly-client-ip"}
)
"""Names of fields in which a client can claim an address, in lower case. Some origins trust them."""

TARGET_OVERRIDE_FIELDS = frozenset(
    {"x-original-url", "x-original-uri", "x-original-path", "x-original-host", "x-rewrite-url", "x-rewrite-uri"}
    | {"x-http-path-override", "x-path", "x-uri", "x-request-uri", "x-proxy-url", "x-base-url", "base-url"}
    | {"x-host", "x-http-host", "x-http-host-override", "x-host-override", "x-proxy-host", "x-server-name"}
)
"""Names of fields that make some web frameworks answer for another path or host than those of the target, in lower
case. The origin can protect the other path."""

NOT_FORWARDED = frozenset(
    # The cache evaluates conditions and ranges. If they were forwarded, they would affect the stored copy.
    {"if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"}
    # Deltas are made by feedproxy, from stored versions (RFC 3229).
    | {"a-im"}
    # Compression with a client's dictionary is done by feedproxy, too (RFC 9842).
    | {"available-dictionary", "dictionary-id"}
    | CLIENT_ADDRESS_FIELDS
    | TARGET_OVERRIDE_FIELDS
    # Fields that make frameworks answer for another scheme or method.
    | {"x-url-scheme", "x-scheme", "x-proto", "x-protocol", "x-https", "x-ssl", "front-end-https"}
    | {"x-http-method-override", "x-http-method", "x-method-override"}
    | {"max-forwards", "x-accel-redirect", "x-sendfile", "x-middleware-subrequest"}
    # Identifiers of a single request, which intermediaries add.
    | {"traceparent", "tracestate", "baggage", "b3", "x-request-id", "x-correlation-id", "x-amzn-trace-id"}
    | {"x-cloud-trace-context", "x-trace-id", "x-request-start", "x-queue-start", "x-varnish", "cdn-loop"}
    | {"x-azure-ref", "x-unique-id", "x-arr-log-id", "fly-request-id", "x-vercel-id", "akamai-origin-hop"}
    # Fields about the circumstances of a browser's request.
    | {"dnt", "sec-gpc", "upgrade-insecure-requests", "priority", "x-moz", "purpose", "x-purpose", "early-data"}
    | {"accept-encoding", "host", "content-length", "content-type", "expect"}
)
"""Names of fields that are not forwarded, in lower case. A request's field with `_` in place of `-` is not forwarded
either, because some origins treat both alike."""

_PORTABLE_NAME = re.compile(r"[A-Za-z0-9-]+")
"""Pattern of names of fields that streamed requests forward. A name with an underscore does not match, because CGI,
WSGI and PHP read X_Forwarded_Host like X-Forwarded-Host."""

_NOT_FORWARDED_PREFIXES = (
    "x-forwarded",
    "sec-fetch-",
    "sec-purpose",
    "cf-",
    "x-b3-",
    "x-datadog-",
    "fastly-",
    "x-amz-cf-",
)

_PROXY_FIELDS = frozenset({"accept-encoding", "cache-control", "pragma", "via"})
"""Fields that this module itself writes, and that therefore do not make a request client-specific."""


_ORDINARY = re.compile(r"[\w*;=.,+/ -]{0,256}", re.ASCII)
"""Pattern for the value of a field that Vary nominates. A request for a shared copy contains only matching values."""

_LANGUAGE_RANGE = r"(?:[a-z]{2,3}|\*)(?:-[a-z0-9]{2,8}){0,3}(?: ?; ?q=(?:0(?:\.\d{1,3})?|1(?:\.0{1,3})?))?"
_LANGUAGE_RANGES = re.compile(rf"{_LANGUAGE_RANGE}(?: ?, ?{_LANGUAGE_RANGE})*", re.ASCII | re.IGNORECASE)
ACCEPT_LANGUAGE_MAX = 128
"""The response to a request with an Accept-Language of more than this many characters does not become a shared copy.
Browsers send fewer than 60."""

_DIRECTIVES = re.compile(
    r"(?:(?:no-cache|no-store|no-transform|only-if-cached|max-stale|(?:max-age|max-stale|min-fresh|stale-if-error)"
    r"=\d{1,10})(?:, ?|\Z)){1,8}"
)
_VIA_MEMBER = re.compile(r"(?:HTTP/)?\d(?:\.\d)? feedproxy-[0-9a-f]{8}", re.IGNORECASE)
VIA_READ_MAX = 256
"""At most this many members of a client's Via are read, from the right. A Via can have 30,000 members."""

VIA_MEMBERS_MAX = 16
"""At most this many Via members of other feedproxies are forwarded to the origin."""

MEMOIZED_LENGTH_MAX = 2048
"""The forwarded fields of a request are memoized only if all its fields together have at most this many characters."""
MEMOIZED_REQUESTS_MAX = 256
"""The forwarded fields of at most this many requests are memoized. They take half a megabyte together."""

_SIMPLE_RANGE = re.compile(r"bytes=(?:\d{1,18}-\d{0,18}|-\d{1,18})")
_CODINGS = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd", "identity", "*"})


FIXED_FIELDS = frozenset({"user-agent", "accept-encoding", "accept", "cache-control", "pragma", "via"})
"""Request fields that feedproxy itself writes in all requests for shared copies of feeds."""


@memoize_short()
def is_forwarded(name: str) -> bool:
    """Return True if a client's field with this name may be forwarded to the origin."""
    plain = name.lower().replace("_", "-")
    return plain not in NOT_FORWARDED | HOP_BY_HOP and not plain.startswith(_NOT_FORWARDED_PREFIXES)


def shared_names(shared_fields: tuple[str, ...]) -> frozenset[str]:
    """Return the names of `shared_fields` in lower case."""
    return frozenset(name.lower() for name in shared_fields)


def is_only_language(key: Fields) -> bool:
    """Return True if `key`, the client-specific fields, is only a valid Accept-Language of at most
    ACCEPT_LANGUAGE_MAX characters."""
    if len(key) != 1:
        return False
    ((name, value),) = key
    is_language = name == "accept-language" and len(value) <= ACCEPT_LANGUAGE_MAX
    return is_language and _LANGUAGE_RANGES.fullmatch(value) is not None


def build_upstream_request(
    request: Request,
    client: ClientContext,
    resource: Resource | None = None,
    *,
    via: str,
    own_agent: Callable[[], str] | None,
    keep_range: bool = False,
    shared_fields: frozenset[str] = frozenset(),
    unstored_names: frozenset[str] = frozenset(),
) -> UpstreamRequest:
    """Return the upstream request for a client's GET or HEAD.

    A request for a shared copy has standard fields only. Every other request has the client-specific fields, too, and
    they become the `key` of the response. For a known feed, only credentials count as client-specific.

    * `via` is this proxy's Via member.
    * `own_agent` returns feedproxy's User-Agent. If it is None, the client's User-Agent is forwarded.
    * `keep_range` is true if the client's Range, If-Range and Accept-Encoding are forwarded.
    * `shared_fields` contains names of further fields that are not client-specific, in lower case.
    * `unstored_names` contains the field names in the Vary of earlier responses that could not be stored. These fields
      are forwarded like those in the Vary of stored responses.
    """
    client_fields = request.fields.end_to_end()
    keyed = resource.keyed if resource is not None else ()
    # The forwarded fields are memoized unless they contain credentials.
    length = sum([len(name) + len(value) for name, value in client_fields])
    is_memoized = length <= MEMOIZED_LENGTH_MAX and not any(is_credential(name) for name, _ in client_fields)
    forwarded = (_memoized_forwarded_fields if is_memoized else _make_forwarded_fields)(
        client_fields,
        client.entrance is Entrance.GATEWAY,
        resource is not None and resource.channel is not None,
        unstored_names if resource is None else resource.varying_names | unstored_names,
        frozenset(name for stored in keyed for name in vary_names(stored.fields)),
        shared_fields,
    )
    fields, key = forwarded.fields, forwarded.key
    agent = own_agent() if own_agent is not None else client_fields.combined("user-agent")
    if agent is not None:
        fields = fields.with_added("User-Agent", agent)
    if keep_range:
        for name in ("range", "if-range", "accept-encoding"):
            if (value := client_fields.combined(name)) is not None:
                fields = fields.with_added(name.title(), value)
                if not _is_ordinary_range(name, value):
                    key = key.with_added(name, value)
    else:
        fields = fields.with_added("Accept-Encoding", ACCEPT_ENCODING)
    fields = fields.with_added("Via", f"{forwarded.via_members}, {via}" if forwarded.via_members else via)
    return UpstreamRequest(
        Request(request.method, request.target, fields),
        Fields((name.lower(), value) for name, value in key),
        forwarded.varying,
        forwarded.withheld_names,
        forwarded.has_credentials,
        own_agent=own_agent is not None,
        sends_range=keep_range,
    )


def streamed_fields(client_fields: Fields, client: ClientContext) -> Fields:
    """Return the fields of a client's request that are forwarded to the origin if the request is streamed."""
    fields = client_fields.end_to_end().without("a-im")
    if client.entrance is Entrance.GATEWAY:
        fields = fields.without("cookie", "cookie2", "referer", "origin", "available-dictionary", "dictionary-id")
    forwarded_names = [name for name, _ in fields if name.lower().startswith("x-forwarded-")]
    unportable_names = [name for name, _ in fields if _PORTABLE_NAME.fullmatch(name) is None]
    return fields.without(*CLIENT_ADDRESS_FIELDS, *TARGET_OVERRIDE_FIELDS, *forwarded_names, *unportable_names)


class _ForwardedFields(Struct, frozen=True):
    fields: Fields
    key: Fields
    varying: Fields
    withheld_names: frozenset[str]
    has_credentials: bool
    via_members: str


def _make_forwarded_fields(
    client_fields: Fields,
    is_gateway: bool,
    is_known_feed: bool,
    names: frozenset[str],
    keyed_names: frozenset[str],
    shared_fields: frozenset[str],
) -> _ForwardedFields:
    """Return the forwarded fields. `names` are the field names by which the shared copies vary. `keyed_names` are those
    by which the keyed responses vary, and count only for requests with credentials."""
    forwarded = client_fields.without("user-agent", *[name for name, _ in client_fields if not is_forwarded(name)])
    if is_gateway:
        forwarded = forwarded.without("cookie", "cookie2", "referer", "origin")
    secrets = Fields(line for line in forwarded if is_credential(line[0]))
    varying_names = names | keyed_names if len(secrets) else names
    varying = Fields(
        line
        for line in forwarded
        if line[0].lower() in varying_names - _PROXY_FIELDS and line[0] not in secrets and _ORDINARY.fullmatch(line[1])
    )
    shared_fields -= {name.lower() for name, _ in secrets}
    client_specific = Fields(
        line
        for line in forwarded
        if line[0] not in varying and line[0].lower() not in shared_fields and _is_client_specific(*line)
    )
    accept = forwarded.combined("accept")
    is_for_feeds = _is_for_feeds(accept or "") or (is_gateway and _is_anything(accept))
    if is_known_feed or all(name in secrets for name, _ in client_specific) or (is_for_feeds and not len(secrets)):
        lines = [*varying, *secrets]
        if "accept" not in varying and (is_known_feed or is_for_feeds):
            lines.append(("Accept", ACCEPT))
        elif "accept" not in varying and accept is not None:
            lines.append(("Accept", "*/*"))
        lines += [line for line in forwarded if line[0].lower() in shared_fields and line[0] not in varying]
        # Some feeds are available in several languages. Only Vary in the response shows that a feed is one of them.
        language = [
            (name, value)
            for name, value in client_specific
            if not is_known_feed and name.lower() == "accept-language" and _ORDINARY.fullmatch(value)
        ]
        fields, key = Fields((*lines, *language, *_cache_control_lines(client_fields))), Fields((*secrets, *language))
        withheld = {name.lower() for name, _ in client_specific if name not in key}
        members = _via_members(client_fields)
    else:
        fields, key, withheld = forwarded.without("via"), client_specific, set[str]()
        key = Fields((*key, *(line for line in forwarded if _is_unusual_control(*line))))
        members = client_fields.combined("via") or ""
    return _ForwardedFields(fields, key, varying, frozenset(withheld), len(secrets) > 0, members)


_memoized_forwarded_fields = lru_cache(maxsize=MEMOIZED_REQUESTS_MAX)(_make_forwarded_fields)


def _is_client_specific(name: str, value: str) -> bool:
    name = name.lower()
    if name in ("accept", "accept-language"):
        return not _is_anything(value)
    return name not in _PROXY_FIELDS


def _is_anything(value: str | None) -> bool:
    return value is None or value.strip() in ("*", "*/*", ACCEPT)


@memoize_short()
def _is_for_feeds(accept: str) -> bool:
    """Return True if this value of Accept lists a type of feeds, and does not prefer HTML."""
    if not any(media_type in accept.lower() for media_type in READER_MEDIA_TYPES):
        return False
    return content_negotiation.choose_media_type(accept, (*READER_MEDIA_TYPES, "text/html")) != "text/html"


def _cache_control_lines(client_fields: Fields) -> list[tuple[str, str]]:
    """Return the lines of Cache-Control and Pragma to forward, with known directives only."""
    lines = []
    value = client_fields.combined("cache-control")
    if value is not None and not _DIRECTIVES.fullmatch(value):
        directives = CacheControl.from_request(client_fields)
        value = ", ".join(
            directive
            for directive, is_set in (("no-store", directives.no_store), ("no-cache", directives.no_cache))
            if is_set
        )
    if value:
        lines.append(("Cache-Control", value))
    if "no-cache" in (client_fields.combined("pragma") or "").lower():
        lines.append(("Pragma", "no-cache"))
    return lines


def _is_unusual_control(name: str, value: str) -> bool:
    match name.lower():
        case "cache-control":
            return not _DIRECTIVES.fullmatch(value)
        case "pragma":
            return value.strip().lower() != "no-cache"
    return False


def _via_members(client_fields: Fields) -> str:
    """Return the members of Via that feedproxies have written, by which another feedproxy can detect a loop."""
    members = map(str.strip, (client_fields.combined("via") or "").rsplit(",", VIA_READ_MAX)[-VIA_READ_MAX:])
    return ", ".join([member for member in members if _VIA_MEMBER.fullmatch(member)][-VIA_MEMBERS_MAX:])


def _is_ordinary_range(name: str, value: str) -> bool:
    match name:
        case "range":
            return _SIMPLE_RANGE.fullmatch(value.replace(" ", "")) is not None
        case "accept-encoding":
            return len(value) < 100 and all(
                member.partition(";")[0].strip().lower() in _CODINGS for member in value.split(",")
            )
    return False


def background_request(target: str, *, via: str, agent: str) -> Request:
    """Return the request for a background refresh of a feed, with this proxy's Via member and the User-Agent
    `agent`."""
    lines = [("User-Agent", agent), ("Accept", ACCEPT), ("Accept-Encoding", ACCEPT_ENCODING), ("Via", via)]
    return Request("GET", target, Fields(lines))


def with_via(fields: Fields, via: str) -> Fields:
    """Return the fields with this proxy's member appended to Via (RFC 9110, section 7.6.3)."""
    before = fields.combined("via")
    return fields.with_field("Via", f"{before}, {via}" if before else via)


def own_user_agent(settings: Settings) -> str:
    """Return the User-Agent of requests that are not sent for subscribers: commands, notifications, subscriptions."""
    return f"feedproxy/{__version__}" + (f" (+{settings.contact_url})" if settings.contact_url else "")
