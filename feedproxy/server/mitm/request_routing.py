"""Routing of a request: its entrance, its target URI and its client.

The field that the option `forwarded_by` names is read only in requests from `trusted_proxies`. Of this field, only the
part that these proxies wrote is used (request/forwarded_client_address.py).
"""

import contextlib
import re
from functools import partial
from urllib.parse import urlsplit

from mitmproxy import http
from msgspec import Struct
from msgspec.structs import replace

from feedproxy.errors import BadTarget, NotFound, WrongHost
from feedproxy.feed import pasted_address
from feedproxy.http import uri
from feedproxy.http.message import Fields, Request
from feedproxy.http.target_uri.gateway_path import gateway_target, lacks_path
from feedproxy.http.target_uri.registrable_domain import has_known_suffix
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.request.forwarded_client_address import Hop, client_hop, is_trusted_proxy
from feedproxy.request.gateway_hosts import AUTHORITY, is_gateway_host
from feedproxy.settings import Settings

ABSOLUTE_FORM = "feedproxy.absolute-form"
"""Key in `flow.metadata`: the client sent the request's target in absolute-form."""

WITHOUT_CONTENT = "feedproxy.without-content"
"""Key in `flow.metadata`: the request ended with its head."""

RESPOND_EARLY = "feedproxy.at-once"
"""Key in `flow.metadata`: the response does not wait for the request's content, and ends the connection."""

LANDING_PATHS = ("/", "/robots.txt", "/favicon.ico")
"""Paths of the gateway's own pages."""

RPC = "/RPC2"
"""Path of the XML-RPC endpoint for clients in which users can configure only a host."""

_OTHER_SCHEME = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*+:/*(?![0-9])")
_HOST_WITH_PORT = re.compile(r"[^/?#]+:[0-9]{1,5}(?:[/?#]|$)")

_BEFORE_TARGET = re.compile(r"(?:with/[^/?]*/)?(?:[^/?]+/)?as/[^/?]*/|with/[^/?]*/")
"""Pattern of the part of an endpoint's path before a target."""

ASTERISK = "*"
"""The request target of OPTIONS for a server as a whole (RFC 9112, section 3.2.4)."""

_HAS_PORT = re.compile(r":[0-9]+\Z")


class LocalPath(Struct, frozen=True):
    """A path of this proxy: the landing page, an endpoint, or an unknown path."""

    path: str


class MisspelledTarget(Struct, frozen=True):
    """A gateway path in an unusual form, and the target that it means."""

    target: str


class RoutedRequest(Struct, frozen=True):
    """A request for a target. `shown` is the target as the client addressed it."""

    request: Request
    shown: str = ""


class IncomingRequest(Struct, frozen=True):
    """The head of a received request.

    * `path` is the origin-form with its query, or ASTERISK.
    * `url` is the target of a request for the explicit proxy. At the other entrances, it is not used.
    * `named_hosts` contains the authority of an absolute-form. For other requests, it contains :authority and Host.
    """

    method: str
    path: str
    fields: Fields
    peer: str
    local_address: tuple[str, int]
    url: str = ""
    authority: str = ""
    absolute: bool = False
    tls: bool = False
    named_hosts: tuple[str, ...] = ()


def fields_of(message: http.Message) -> Fields:
    """Return the fields of a mitmproxy message, decoded as ISO-8859-1, which preserves all bytes."""
    return Fields((name.decode("latin-1"), value.decode("latin-1")) for name, value in message.headers.fields)


def client_version(flow: http.HTTPFlow) -> str:
    """Return the HTTP version of the client's request, which can be streamed to the origin in another version."""
    return "HTTP/2.0" if flow.client_conn.alpn == b"h2" else flow.request.http_version


def headers_of(fields: Fields) -> http.Headers:
    """Return fields in mitmproxy's form."""
    return http.Headers([(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields])


def incoming_request(flow: http.HTTPFlow) -> IncomingRequest:
    """Return the head of a flow's request."""
    request = flow.request
    address, port, *_ = flow.client_conn.sockname
    fields, authority = fields_of(request), request.data.authority.decode("latin-1")
    named_hosts = (authority,) if authority and not request.is_http2 else (authority, fields.get("host") or "")
    absolute, path = bool(flow.metadata.get(ABSOLUTE_FORM)), request.data.path.decode("latin-1")
    # mitmproxy's own `url` lacks the brackets of an IPv6 address.
    url = (
        f"{request.scheme}://{uri.join_host_port(request.host, request.port)}{'' if path == ASTERISK else path}"
        if absolute
        else request.url
    )
    return IncomingRequest(
        request.method,
        path,
        fields,
        peer=flow.client_conn.peername[0],
        local_address=(address.partition("%")[0], port),
        url=url,
        # In HTTP/2, :authority replaces Host.
        authority="" if request.is_http2 else authority,
        absolute=absolute,
        tls=flow.client_conn.tls,
        named_hosts=tuple(filter(None, named_hosts)),
    )


def route(
    head: IncomingRequest, client: ClientContext, settings: Settings, tunnel: tuple[str, int] | None
) -> RoutedRequest | LocalPath | MisspelledTarget:
    """Return the route of a request. `tunnel` is the host and port of the CONNECT for a request in a tunnel.

    Raises BadTarget for an invalid target, NotFound for a path without a target, and WrongHost for a host at which this
    proxy does not answer.
    """
    match client.entrance:
        case Entrance.PROXY if tunnel is not None:
            host, port = tunnel
            _check_tunnel_host(head, host, port)
            # For asterisk-form, the path of the target is empty (RFC 9112, section 3.3).
            path = "" if is_asterisk(head.method, head.path) else head.path
            target = uri.normalise(f"https://{uri.join_host_port(host, port)}{path}")
            return RoutedRequest(Request(head.method, target, head.fields))
        case Entrance.PROXY:
            return RoutedRequest(Request(head.method, uri.normalise(head.url), head.fields))
        case Entrance.REVERSE:
            return _reverse(head, client, settings)
    _check_gateway_host(head, settings)
    if is_asterisk(head.method, head.path):
        return LocalPath(head.path)
    bare = head.path.partition("?")[0]
    if bare in LANDING_PATHS or head.path.startswith(settings.endpoint_prefix):
        return LocalPath(head.path)
    if bare == RPC:
        return LocalPath(settings.endpoint_prefix + head.path.removeprefix("/"))
    try:
        target = gateway_target(head.path)
    except (NotFound, BadTarget):
        return MisspelledTarget(_guess_target(head.path, client.base, settings.endpoint_prefix))
    if lacks_path(head.path):
        return MisspelledTarget(target)
    if target.startswith(f"{client.base}/"):
        with contextlib.suppress(BadTarget):  # a local page: fetching it is refused
            return MisspelledTarget(pasted_address.read(target, client.base, settings.endpoint_prefix))
    return RoutedRequest(Request(head.method, target, head.fields))


def is_asterisk(method: str, path: str) -> bool:
    """Return True if a request is for the server as a whole (RFC 9112, section 3.2.4)."""
    return method == "OPTIONS" and path == ASTERISK


def _check_tunnel_host(head: IncomingRequest, host: str, port: int) -> None:
    """Raise WrongHost if the request names another host or port than the tunnel's. A request without a port is for the
    tunnel's port.

    "a request for an "https" resource MUST be rejected unless it has been received over a connection that has been
    secured via a certificate valid for that target URI's origin" -- RFC 9110, section 7.4.
    """
    origin = uri.normalise(f"https://{uri.join_host_port(host, port)}/")
    for named in head.named_hosts:
        try:
            named_origin = uri.normalise(f"https://{named}{'' if _HAS_PORT.search(named) else f':{port}'}/")
        except BadTarget:
            named_origin = ""
        if named_origin != origin:
            raise WrongHost("this tunnel is for another host than the request")


def _check_gateway_host(head: IncomingRequest, settings: Settings) -> None:
    """Raise WrongHost if a request names a host at which the gateway does not answer (option `gateway_hosts`). The host
    that a trusted proxy states is checked, too, because the trusted proxy can have replaced Host."""
    for authority in (head.fields.get("host") or "", _stated_hop(head, settings).host):
        if authority and not is_gateway_host(authority, settings):
            name = f"the host name {authority}" if AUTHORITY.fullmatch(authority) else "this host name"
            raise WrongHost(
                f"the gateway does not answer at {name}: "
                "if readers use the name, list it in the option gateway_hosts, or set public_url"
            )


def usual_endpoint_path(path: str, client: ClientContext, prefix: str) -> str:
    """Return the usual form of an endpoint's path that ends with a target, such as `as/atom/https://example.com/` for
    `as/atom/example.com`. Return "" if `path` has this form already, if it ends with no valid target, or outside the
    gateway. `path` is relative to `prefix`, with the query.

    A browser sends a password also to all paths in the folder of the path at which it signed in. Without the slash
    after the host, this folder would be `as/atom/https://`, which contains all hosts (`lacks_path` in
    http/target_uri/gateway_path.py).
    """
    match = _BEFORE_TARGET.match(path)
    if client.entrance is not Entrance.GATEWAY or match is None:
        return ""
    before, address = match[0], path[match.end() :]
    with contextlib.suppress(BadTarget):  # the endpoint refuses it
        try:
            target = gateway_target(f"/{address}")
        except NotFound:
            return before + pasted_address.read(address, client.base, prefix)
        return before + target if lacks_path(f"/{address}") else ""
    return ""


def _guess_target(path: str, base: str, prefix: str) -> str:
    """Return the target of an unusual gateway path: with `feed:`, encoded, or without a scheme.

    Without a scheme, the path must name a host that has a port, is an IP address, or ends with a known suffix, because
    browsers also request files such as `/apple-touch-icon.png`. Raises BadTarget for an invalid address with a scheme.
    Raises NotFound for any other path. The error's message states the address that was probably meant, or an example.
    """
    written = path.lstrip("/")
    if pasted_address.has_scheme(written):
        return pasted_address.read(written, base, prefix)
    example = "https://example.com/feed.xml"
    try:
        target = pasted_address.read(_OTHER_SCHEME.sub("", written), base, prefix)
    except BadTarget:
        target = ""
    if target and not path.startswith("//") and not _OTHER_SCHEME.match(written):
        host = uri.host_of(target)
        if _HOST_WITH_PORT.match(written) or host.rpartition(".")[2].isdigit() or has_known_suffix(host):
            return target
    if "/" in written.rstrip("/"):
        example = target or example
    raise NotFound(f"expected a feed's full URL after the slash, such as {base}/{example}")


def entrance_of(flow: http.HTTPFlow, settings: Settings, tunnel: tuple[str, int] | None) -> Entrance:
    """Return the entrance of a request. Requests in absolute-form and in tunnels are for the explicit proxy."""
    if tunnel is not None:
        return Entrance.PROXY
    if settings.upstream:
        return Entrance.REVERSE
    absolute = flow.metadata.get(ABSOLUTE_FORM)
    if absolute is None:  # unknown with mitmproxy's own layer: any foreign address means the explicit proxy
        own, port, *_ = flow.client_conn.sockname
        absolute = flow.request.port != port or flow.request.host not in (own, "localhost")
    return Entrance.PROXY if absolute else Entrance.GATEWAY


def as_gateway_request(head: IncomingRequest) -> IncomingRequest:
    """Return `head`, a request in absolute-form that names this proxy, as a request for the gateway. The host of the
    absolute-form replaces Host (RFC 9112, section 3.2.2)."""
    return replace(head, fields=head.fields.with_field("Host", urlsplit(uri.normalise(head.url)).netloc))


def _reverse(head: IncomingRequest, client: ClientContext, settings: Settings) -> RoutedRequest | LocalPath:
    if head.absolute and head.authority:
        # RFC 9112, section 3.2.2: beside an absolute-form, Host is ignored. It therefore cannot confirm the authority.
        address, port = head.local_address
        own_authorities = {uri.join_host_port(address, port), f"localhost:{port}"}
        own_authorities |= {
            urlsplit(network).netloc.lower() for network in (settings.upstream, settings.public_url) if network
        }
        if head.authority.lower() not in own_authorities:
            raise BadTarget("target refused: in reverse mode, only the upstream is served")
    path = head.path
    if is_asterisk(head.method, path):
        return RoutedRequest(Request(head.method, target_of_path("/", settings), head.fields), client.base + "/")
    if not path.startswith("/"):
        raise BadTarget("the request target is not a path")
    if path.startswith(settings.endpoint_prefix):
        return LocalPath(path)
    path = _normalize_path(path)
    return RoutedRequest(Request(head.method, target_of_path(path, settings), head.fields), client.base + path)


def target_of_path(path: str, settings: Settings) -> str:
    """Return the target of a path and query, in reverse mode or in the gateway. Raises BadTarget if the target is
    invalid, and NotFound if the path names none."""
    if settings.upstream:
        return uri.normalise(settings.upstream.rstrip("/") + _normalize_path(path))
    return gateway_target(path)


def _normalize_path(path: str) -> str:
    """Return the path without dot segments. A path with `..` cannot leave the upstream's own path."""
    return uri.normalise("http://upstream" + path).removeprefix("http://upstream")


def client_context(head: IncomingRequest, settings: Settings, entrance: Entrance) -> ClientContext:
    """Return the context of the client: entrance, address, and the base URL by which it addresses the proxy."""
    hop = _stated_hop(head, settings)
    scheme = hop.scheme or ("https" if head.tls else "http")
    host = hop.host or head.fields.get("host") or ""
    if settings.public_url:
        base = settings.public_url.rstrip("/")
    elif AUTHORITY.fullmatch(host):
        base = f"{scheme}://{host}"
    else:
        address, port = head.local_address
        base = f"{scheme}://{uri.join_host_port(address, port)}"
    return ClientContext(entrance, base, hop.address)


def _stated_hop(head: IncomingRequest, settings: Settings) -> Hop:
    """Return the client's address, and the scheme and host of its request, as the trusted proxies state them. A missing
    or invalid part is "". If the peer is not trusted, return its address, "" and ""."""
    if not is_trusted_proxy(settings, head.peer):
        return Hop(head.peer, "", "")
    hop = client_hop(head.fields, settings.forwarded_by, head.peer, partial(is_trusted_proxy, settings))
    return hop if AUTHORITY.fullmatch(hop.host) else replace(hop, host="")


def is_client_gone(flow: http.HTTPFlow) -> bool:
    """Return True if the flow's client has disconnected. A state stored after the disconnect would never be removed."""
    return flow.client_conn.timestamp_end is not None
