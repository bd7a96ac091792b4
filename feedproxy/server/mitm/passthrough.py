"""Requests that mitmproxy streams over its own connections: methods other than GET and HEAD, large content, tunnels.

If a hook raises an exception, mitmproxy sends the request upstream nevertheless. Therefore each server is approved for
each client connection in advance, and `enforce` refuses all other servers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mitmproxy import http
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from feedproxy.cache.cache_status import CacheStatus, Detail, append
from feedproxy.errors import FeedproxyError, Forbidden, LoopDetected
from feedproxy.http import uri
from feedproxy.http.field_values import split_list
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.request.gateway_challenges import unusable_challenge_response
from feedproxy.request.loops_and_max_forwards import with_lower_max_forwards
from feedproxy.request.problem_details import problem_response
from feedproxy.request.response_fields_by_entrance import (
    apply_entrance_rules,
    make_private,
    sandboxed,
)
from feedproxy.request.upstream_and_public_urls import is_upstream_target
from feedproxy.request.upstream_request import streamed_fields, with_via
from feedproxy.server.mitm.request_routing import (
    ASTERISK,
    WITHOUT_CONTENT,
    RoutedRequest,
    fields_of,
    headers_of,
    is_asterisk,
)
from feedproxy.server.mitm.server_addresses import ParentProxyHost, pinned_name, route_through_parent
from feedproxy.settings import Settings
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.parent_proxy import OPTION, Parent
from feedproxy.upstream.parent_proxy_tunnel import parent_name
from feedproxy.upstream.upstream_errors import ParentFailed, ParentRefused, Unreachable

FRAMING = ("transfer-encoding", "content-length")

SHOWN_TARGET = "feedproxy.shown"
"""Key in `flow.metadata`: the target of a streamed request, as the client addressed it."""


@dataclass(slots=True)
class ConnectApprovals:
    """The servers to which feedproxy may connect for each client connection.

    `approved` maps host and port to the server's checked address, to a ParentProxyHost for a server behind a parent
    proxy, or to None if any address is permitted, because the operator configured the host. `tunnels` has the host and
    port of each permitted CONNECT.
    """

    approved: dict[str, dict[tuple[str, int], str | ParentProxyHost | None]] = field(default_factory=dict)
    tunnels: dict[str, tuple[str, int]] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    """For each client connection, the user that its CONNECT authenticated."""

    def approve(self, client: str, host: str, port: int, address: str | ParentProxyHost | None) -> None:
        """Approve a server at this address for a client connection."""
        self.approved.setdefault(client, {})[host.lower(), port] = address

    def forget(self, client: str) -> None:
        """Remove the approvals of a closed client connection."""
        self.approved.pop(client, None)
        self.tunnels.pop(client, None)
        self.users.pop(client, None)


class BodyCounter:
    """Counter of streamed content. If `replacement` is given, the client gets these bytes in place of the content."""

    __slots__ = ("_replacement", "size")

    def __init__(self, replacement: bytes | None = None) -> None:
        self._replacement = replacement
        self.size = 0

    def __call__(self, data: bytes) -> tuple[bytes, ...]:
        if self._replacement is not None:
            data, self._replacement = self._replacement, b""
        self.size += len(data)
        return (data,) if data else ()


async def approve(
    approvals: ConnectApprovals,
    client: str,
    target: str,
    settings: Settings,
    policy: AddressPolicy,
    parent: Parent | None,
) -> None:
    """Check a target's address, unless the operator configured its host (option `upstream`), and approve its server for
    this client connection. Raises Forbidden if the address is not permitted, Unreachable if it is unknown, and
    ParentFailed if the parent cannot be used."""
    host, port = uri.split_host_port(target)
    is_own = is_upstream_target(target, settings)  # the operator configured this host
    if parent is not None:
        tls = target.startswith("https:")
        approvals.approve(
            client,
            host,
            port,
            await route_through_parent(parent, host, port, policy, tls=tls, skip_address_check=is_own),
        )
    elif is_own:
        approvals.approve(client, host, port, None)
    else:
        policy.check_port(port)
        approvals.approve(client, host, port, (await policy.resolve(host, port))[0])


ORIGIN_ALPN = (b"http/1.1",)
"""The protocols that are offered to origins. With an HTTP/2 client, mitmproxy would offer HTTP/2. It would then not
limit the origin's frames, nor pass on 1xx responses, nor responses in progress when the origin sends GOAWAY."""


def enforce(data: ServerConnectionHookData, approvals: ConnectApprovals) -> None:
    """Let mitmproxy connect only to an approved server, at its checked address. For all other servers, set the
    server's error."""
    try:
        address = data.server.address
        if address is None:
            raise Forbidden("mitmproxy names no server for this connection")
        host, port, *_ = address
        approved = approvals.approved.get(data.client.id, {})
        if isinstance(host, ParentProxyHost) and any(host is approved_host for approved_host in approved.values()):
            return  # mitmproxy opens the connection again
        if (host.lower(), port) not in approved:
            raise Forbidden(f"{host}:{port} was not approved")
        pinned = approved[host.lower(), port]
        if isinstance(pinned, ParentProxyHost):
            data.server.sni = data.server.sni or host
            data.server.address = (pinned, pinned.parent.port)
        elif pinned is not None and pinned != host:
            data.server.sni = data.server.sni or host
            data.server.address = (pinned_name(host, pinned), port)
            approvals.approve(data.client.id, pinned, port, pinned)
        if data.client.alpn_offers:
            data.server.alpn_offers = ORIGIN_ALPN
    except Exception as error:  # the connection must not open without a decision
        data.server.error = str(error) or "refused"


def prepare_request(
    flow: http.HTTPFlow, routed: RoutedRequest, client: ClientContext, *, via: str, parent: Parent | None
) -> None:
    """Prepare a request for streaming to its origin or to a parent proxy."""
    fields, method = routed.request.fields, flow.request.method
    framing = _framing(fields)
    fields = with_lower_max_forwards(streamed_fields(fields.without(*FRAMING), client), routed.request.method)
    if client.entrance is Entrance.REVERSE:
        scheme, _, name = client.base.partition("://")
        fields = fields.with_field("X-Forwarded-For", client.address)
        fields = fields.with_field("X-Forwarded-Proto", scheme).with_field("X-Forwarded-Host", name.partition("/")[0])
    if not framing and flow.request.is_http2:
        # HTTP/2 has its own framing. With HTTP/1.1, the content needs Transfer-Encoding, or the upstream would read it
        # as another request.
        flow.request.http_version, flow.request.authority = "HTTP/1.1", ""
        if not flow.metadata.get(WITHOUT_CONTENT) and (method not in ("GET", "HEAD") or flow.request.raw_content):
            framing = [("Transfer-Encoding", "chunked")]
        elif method in ("POST", "PUT", "PATCH"):
            # "A user agent SHOULD send Content-Length in a request when the method defines a meaning for enclosed
            # content and it is not sending Transfer-Encoding." -- RFC 9110, section 8.6
            framing = [("Content-Length", "0")]
    fields = with_via(Fields((*fields, *framing)), via)
    is_for_server = is_asterisk(flow.request.method, flow.request.path)
    _set_target(flow.request, routed.request.target)
    flow.metadata[SHOWN_TARGET] = routed.shown or routed.request.target
    if not flow.request.is_http2:
        flow.request.authority = ""  # origins get origin-form (RFC 9112, section 3.2.1), also through a tunnel
    host, port = uri.split_host_port(routed.request.target)
    default = 443 if routed.request.target.startswith("https:") else 80
    authority = uri.join_host_port(host, port)
    fields = fields.with_field("Host", authority.removesuffix(f":{port}") if port == default else authority)
    if parent is not None and parent.is_http and default == 80:
        # If there is an authority, mitmproxy writes absolute-form (RFC 9112, section 3.2.2). It drops the authority of
        # HTTP/2.
        flow.request.http_version, flow.request.authority = "HTTP/1.1", fields.get("host") or ""
        if parent.authorization:
            fields = fields.with_field("Proxy-Authorization", parent.authorization)
    if is_for_server:
        # "[…] the last proxy on the request chain MUST send a request-target of "*" when it forwards the request to the
        # indicated origin server." -- RFC 9112, section 3.2.4. To another proxy, absolute-form has no path.
        flow.request.path = "" if flow.request.authority and not flow.request.is_http2 else ASTERISK
    flow.request.headers = headers_of(fields)


def _set_target(request: http.Request, target: str) -> None:
    """Set scheme, host, port and path of a request. The attribute `url` of mitmproxy would decode an international
    name, but `enforce` compares names in encoded form."""
    parts = urlsplit(target)
    request.scheme, request.path = parts.scheme, target.removeprefix(f"{parts.scheme}://{parts.netloc}")
    request.host, request.port = uri.split_host_port(target)


def prepare_response(
    flow: http.HTTPFlow, request: Request, client: ClientContext, status: CacheStatus, settings: Settings, *, via: str
) -> BodyCounter:
    """Prepare the head of a streamed response, and return a counter of the response's content."""
    assert flow.response is not None
    fields = fields_of(flow.response)
    framing = _framing(fields)
    if flow.request.http_version == "HTTP/1.0":
        framing = [(name, value) for name, value in framing if name.lower() != "transfer-encoding"]
    fields = fields.end_to_end().without(*FRAMING, "alt-svc")
    fields = apply_entrance_rules(fields, client, target=request.target, upstream=settings.upstream)
    if settings.readers or client.user:
        fields = make_private(fields)
    fields = append(with_via(fields, via), status)
    closes = "close" in split_list((request.fields.combined("connection") or "").lower())
    counter = BodyCounter()
    if flow.response.status_code == 205:
        # "[...] a server MUST NOT generate content in a 205 response." -- RFC 9110, section 15.3.6. Content that the
        # origin sends nevertheless is discarded, and the client need not wait for its end.
        closes = closes or [value for _, value in framing] != ["0"]
        framing, counter = [("Content-Length", "0")], BodyCounter(b"")
    has_content = flow.request.method != "HEAD" and flow.response.status_code not in (204, 304)
    if (has_content and not framing) or closes:
        # The connection must end, for one of two reasons. Its end delimits the content (RFC 9112, section 6.3), or
        # the client requested it (section 9.6). mitmproxy does not know of the request, because the field is not
        # sent upstream.
        fields = fields.with_field("Connection", "close")
    flow.response.headers = headers_of(Fields((*fields, *framing)))
    flow.response.http_version = "HTTP/1.1"
    flow.response.stream = counter
    return counter


def _framing(fields: Fields) -> list[tuple[str, str]]:
    """Return the framing fields with values in lower case, because some recipients compare transfer codings
    case-sensitively."""
    # "All transfer-coding names are case-insensitive" -- RFC 9112, section 7
    return [(name, value.lower()) for name, value in fields if name.lower() in FRAMING]


def refuse_parents_challenge(
    flow: http.HTTPFlow, request: Request, client: ClientContext, status: CacheStatus
) -> BodyCounter:
    """Replace a streamed 407 from a parent proxy by an error (ParentRefused), because such a 407 is not for the client.
    Return the counter of the error's content."""
    sentence = "The parent proxy (upstream_proxy) refuses its user name and password."
    response = problem_response(ParentRefused.status_hint, ParentRefused.detail, sentence, request=request)
    return _replace_streamed(flow, response.with_fields(append(response.fields, status)), client)


def refuse_unusable_challenges(
    flow: http.HTTPFlow, request: Request, client: ClientContext, status: CacheStatus
) -> BodyCounter:
    """Replace a streamed 401 by an error, because no client can answer its challenges through the gateway. Return the
    counter of the error's content."""
    return _replace_streamed(flow, unusable_challenge_response(request, status), client)


def _replace_streamed(flow: http.HTTPFlow, response: Response, client: ClientContext) -> BodyCounter:
    """Put `response` in place of the streamed response, and end the connection after it. Return the counter of the
    content of `response`."""
    assert flow.response is not None
    fields = apply_entrance_rules(response.fields, client, target="", upstream="").without("content-length")
    flow.response.status_code, flow.response.reason = response.status, ""
    flow.response.http_version = "HTTP/1.1"
    flow.response.headers = headers_of(fields.with_field("Connection", "close"))
    counter = BodyCounter(response.body if flow.request.method != "HEAD" else b"")
    flow.response.stream = counter
    return counter


def classify_failure(message: str) -> FeedproxyError:
    """Return the error for mitmproxy's message about a failure upstream."""
    if "Connection killed" not in message:
        return ParentRefused(message) if f"({OPTION})" in message else Unreachable(message)
    # The cause is that `enforce` refused the connection, or that mitmproxy refused to connect to itself.
    return LoopDetected(message) if "destination unknown" in message else Forbidden(message)


FAILURE_SENTENCES = {
    Unreachable.detail: "The origin cannot be reached.",
    ParentRefused.detail: Detail.PARENT_PROXY.sentence,
    Forbidden.detail: "This proxy is not allowed to connect to the address or port of the target.",
    LoopDetected.detail: "The target leads back to this proxy.",
}
"""Messages for clients, by the detail of the error. They replace mitmproxy's messages, which contain addresses."""


def error_page(flow: http.HTTPFlow, message: str, status: CacheStatus | None = None) -> http.Response:
    """Return the response after a failure upstream, in place of mitmproxy's page."""
    error = classify_failure(message)
    shown = flow.metadata.get(SHOWN_TARGET, flow.request.url)
    request = Request("GET", shown, fields_of(flow.request))
    response = problem_response(error.status_hint, error.detail, FAILURE_SENTENCES[error.detail], request=request)
    fields = append(response.fields, status or CacheStatus(detail=error.detail)).with_field("Connection", "close")
    return to_mitmproxy(Response(response.status, sandboxed(fields), response.body))


def to_mitmproxy(response: Response) -> http.Response:
    """Return a response in mitmproxy's form."""
    response_for_mitmproxy = http.Response.make(response.status, response.body)
    response_for_mitmproxy.headers = headers_of(response.fields)
    if response.reason:
        response_for_mitmproxy.reason = response.reason
    return response_for_mitmproxy


async def enforce_address_policy(
    data: ServerConnectionHookData, policy: AddressPolicy, parent_of: Callable[[str], Parent | None]
) -> None:
    """Let mitmproxy connect only to addresses that the policy permits. For all others, set the server's error. An addon
    list with `entrance` does not need this function, because `entrance` approves each server in advance."""
    try:
        if data.server.address is None:
            raise Forbidden("mitmproxy names no server for this connection")
        host, port, *_ = data.server.address
        if isinstance(host, ParentProxyHost):
            return  # mitmproxy opens the connection again
        tls = data.server.tls or port == 443
        parent = parent_of(uri.normalise(f"{'https' if tls else 'http'}://{uri.join_host_port(host, port)}/"))
        data.server.sni = data.server.sni or host
        if parent is None:
            policy.check_port(port)
            data.server.address = ((await policy.resolve(host, port))[0], port)
            return
        parent_host = await route_through_parent(parent, host, port, policy, tls=tls)
        if parent_host.is_plain:
            raise ParentFailed(f"addons/entrance.py is required for a request through {parent_name(parent)}")
        data.server.address = (parent_host, parent.port)
    except Exception as error:  # the connection must not open without a decision
        data.server.error = str(error) or "refused"
