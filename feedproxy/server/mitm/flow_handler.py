"""Handling of mitmproxy's flows, from the request's head to the end of the response.

The addons call one method for each hook: `on_client_connected` for a connection, `on_connect` and `on_request_headers`
for a head, `on_request` for a complete request, `on_response_headers` for the head of a streamed response, and `pop` at
the end. A method refuses a request by raising FeedproxyError, for which `handle` sends the response.
"""

import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from mitmproxy import http
from mitmproxy.connection import Client
from msgspec.structs import replace

from feedproxy.app import App
from feedproxy.cache.cache_status import CacheStatus, Detail, Fwd, append
from feedproxy.client_network import client_network
from feedproxy.endpoints import landing_preview
from feedproxy.endpoints.landing_page import gateway_redirect, landing_page, pasted_target, preview_page
from feedproxy.errors import (
    ContentBudgetExceeded,
    ContentTooLarge,
    FeedproxyError,
    LoopDetected,
    MethodNotAllowed,
    NotFound,
)
from feedproxy.http.credential_fields import is_credential
from feedproxy.http.message import Request, Response
from feedproxy.http.target_uri.gateway_path import gateway_path
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.proxy.cors import preflight_response
from feedproxy.proxy.representations import conversions
from feedproxy.request.cacheable_and_allowed_methods import (
    CACHED_METHODS,
    check_method,
    options_response,
    reason_to_stream,
)
from feedproxy.request.context import ClientContext, Entrance, PassThrough, ProxyResponse
from feedproxy.request.endpoint_registry import CONTENT_MAX, Call, Endpoint
from feedproxy.request.gateway_challenges import has_only_unusable_challenges
from feedproxy.request.loops_and_max_forwards import is_loop, may_forward
from feedproxy.server.access_record import CLIENT_GONE, record_unreadable
from feedproxy.server.client_connection_limit import ConnectionLimiter
from feedproxy.server.mitm import passthrough
from feedproxy.server.mitm.backpressure import WriteBackpressure
from feedproxy.server.mitm.connect_and_interception import is_intercepted, permit_connect
from feedproxy.server.mitm.content_budget import ContentBudget
from feedproxy.server.mitm.handshake_deadlines import HandshakeDeadlines
from feedproxy.server.mitm.passthrough import BodyCounter, ConnectApprovals
from feedproxy.server.mitm.request_routing import (
    RESPOND_EARLY,
    WITHOUT_CONTENT,
    IncomingRequest,
    LocalPath,
    MisspelledTarget,
    RoutedRequest,
    as_gateway_request,
    client_context,
    entrance_of,
    fields_of,
    incoming_request,
    is_asterisk,
    is_client_gone,
    route,
    usual_endpoint_path,
)
from feedproxy.server.response_head import finish_response, refusal_response
from feedproxy.server.unsent_output_limit import UnsentOutputLimit
from feedproxy.upstream.origin_connection_limits import Requester, requesting
from feedproxy.upstream.own_urls import is_own
from feedproxy.upstream.parent_proxy import Parent
from feedproxy.upstream.parent_proxy_tunnel import parent_name
from feedproxy.upstream.upstream_errors import Unreachable

logger = logging.getLogger(__name__)

UNSENT_MIN = 65_536
"""A response with less content than this many bytes usually fits the buffer of the client's socket."""


@dataclass(slots=True)
class FlowState:
    """The state of a flow.

    * `endpoint` and `call` are set for requests to an endpoint.
    * `streamed` is the counter of streamed content.
    * `error_page` is the response after a failure upstream.
    * `connect_result` is the result of a CONNECT: `tunnel`, or `intercept` if feedproxy decrypts TLS.
    """

    client: ClientContext
    routed_request: RoutedRequest | None = None
    status: CacheStatus | None = None
    reason: str = ""
    is_streaming: bool = False
    interim: tuple[Response, ...] = ()
    final_target: str = ""
    """The target at which the request ended, for example after a redirect (`ProxyResponse` in request/context.py).
    Empty if this is the requested target."""
    endpoint: Endpoint | None = None
    call: Call | None = None
    content_max: int = CONTENT_MAX
    """The request may have at most this many bytes of content, unless the content streams upstream."""
    streamed: BodyCounter | None = None
    error_page: http.Response | None = None
    connect_result: str = ""
    parent: Parent | None = None
    """Parent proxy of a streamed request, or None if there is none."""
    usual_path: str = ""
    """The path of the requested endpoint in its usual spelling, without `/-/`, or "" if the request has this spelling.
    In place of a 401, a request with another spelling gets a redirect to this path. A browser then asks for the
    password at the usual path."""


class FlowHandler:
    """Handler of mitmproxy's flows for one App, with the state of each flow and the approved connections."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.connect_approvals = ConnectApprovals()
        self.backpressure = WriteBackpressure()
        self.connection_limiter = ConnectionLimiter()
        self.unsent_output_limit = UnsentOutputLimit(lambda: app.settings)
        self.unsent_output_limit.sources.append(self.backpressure.unsent_outputs)
        self.handshakes = HandshakeDeadlines()
        self._content_budget = ContentBudget()
        self._flows: dict[str, FlowState] = {}
        self._flows_of_client: dict[str, set[str]] = {}

    def on_client_connected(self, client: Client, proxyserver: Any) -> None:
        """Count a new connection. Refuse it, by setting its error, if a limit is reached, if the proxy is shutting
        down, or if the client has disconnected. `proxyserver` is mitmproxy's addon of that name."""
        app = self.app
        app.connections += 1
        self.backpressure.on_client_connected(client, proxyserver)
        peer: tuple[Any, ...] | None = client.peername  # mitmproxy's type does not include None
        if app.draining or app.connections > app.settings.max_connections:
            client.error = "max_connections is reached"
        elif not peer:
            client.error = "the client has disconnected"
        elif not self.connection_limiter.acquire(client.id, peer[0], app.settings):
            client.error = "max_connections_per_address is reached"

    def release_connection(self, client: str) -> None:
        """Remove a connection from the count, because its client has disconnected."""
        self.app.connections -= 1
        self.connection_limiter.release(client)

    async def handle(self, flow: http.HTTPFlow, handling: Awaitable[None]) -> None:
        """Await the handling of a flow in a hook, and refuse the flow after an exception. mitmproxy's hooks fail open:
        the request would go upstream without feedproxy's checks."""
        try:
            await handling
        except FeedproxyError as error:
            self.refuse(flow, error)
        except Exception:
            logger.exception(
                "flow handler: %s %s answered 500, by a defect of feedproxy; please report the traceback",
                flow.request.method,
                redact_target(flow.request.url),
            )
            self.refuse(flow, FeedproxyError("internal error; see feedproxy's log"))

    async def on_connect(self, flow: http.HTTPFlow) -> None:
        """Handle a CONNECT. Raises Forbidden, Unreachable, AccessDenied, BadTarget or Overload if it is refused."""
        state = self._register(flow, FlowState(await permit_connect(flow, self.app, self.connect_approvals)))
        if is_intercepted(flow.request.host, self.app):
            state.connect_result, state.status = "intercept", CacheStatus()
            state.reason = "TLS intercepted; its requests are logged separately"
        else:
            state.connect_result, state.status = "tunnel", CacheStatus(fwd=Fwd.METHOD, detail=Detail.PASS_THROUGH)
            state.reason = "CONNECT tunnel, not inspected"

    async def on_request_headers(self, flow: http.HTTPFlow) -> None:
        """Handle the head of a request. Respond locally, or stream the request upstream if its response cannot be
        cached.

        First wait at most `answer_timeout` seconds until the client has read most of its earlier responses. If the
        client does not read them in this time, end the flow.
        """
        settings = self.app.settings
        if not await self.backpressure.wait_drained(flow.client_conn.id, settings.answer_timeout):
            flow.kill()
            return
        if flow.response is not None or flow.error is not None:
            return
        flow.request.stream = False  # the option stream_large_bodies may have set streaming
        tunnel = self.connect_approvals.tunnels.get(flow.client_conn.id)
        head = incoming_request(flow)
        entrance = entrance_of(flow, settings, tunnel)
        if entrance is Entrance.PROXY and tunnel is None and await self._is_own_address(head):
            head, entrance = as_gateway_request(head), Entrance.GATEWAY
        elif entrance is Entrance.REVERSE and head.absolute and head.authority:
            renamed = replace(head, url=f"http://{head.authority}{head.path}")  # mitmproxy shows the origin's URL
            if await self._is_own_address(renamed):
                head = replace(as_gateway_request(renamed), absolute=False)
        state = self._register(flow, FlowState(client_context(head, settings, entrance)))
        routed = route(head, state.client, settings, tunnel)
        if not isinstance(routed, RoutedRequest):
            self._handle_local_path(flow, state, routed)
            return
        if (response := self._local_response(routed)) is not None:
            self._set_local_response(flow, state, response)
            return
        state.client, routed = await self._authorize(flow, state.client, routed)
        if is_loop(routed.request.fields, self.app.service.pseudonym):
            raise LoopDetected("request loop: Via already names this proxy")
        state.routed_request = routed
        fwd = reason_to_stream(routed.request.method, has_content=_content_length(flow) != 0)
        if fwd is not None:
            await self._stream_upstream(flow, state, CacheStatus(fwd=fwd, detail=Detail.PASS_THROUGH))
            flow.request.stream = True

    async def _is_own_address(self, head: IncomingRequest) -> bool:
        app = self.app
        return await is_own(head.url, app.settings, app.parts.policy, app.listeners)

    async def on_request(self, flow: http.HTTPFlow) -> None:
        """Respond to a request that has arrived completely: by an endpoint or, for a GET or HEAD of a target, by the
        service. The service can decide to stream the request."""
        if flow.id not in self._flows:
            await self.on_request_headers(flow)
        state = self._flows.get(flow.id)
        if state is None or state.is_streaming or flow.response is not None:
            return
        if state.endpoint is not None and state.call is not None:
            response = await state.endpoint.handler(replace(state.call, content=flow.request.raw_content or b""))
            self._set_local_response(flow, state, response)
            return
        if state.routed_request is None:
            return
        routed = await self.app.service.answer(state.routed_request.request, state.client)
        if is_client_gone(flow):
            self._flows[flow.id] = state  # the state is removed when the client disconnects, which is logged next
        match routed:
            case ProxyResponse(response, status, reason) as answer:
                self._set_response(flow, state, response, status, reason)
                state.final_target = answer.final_target
                if state.client.entrance is not Entrance.GATEWAY:
                    state.interim = answer.interim  # the links in 1xx responses are relative to the target's origin
            case PassThrough(status):
                await self._stream_upstream(flow, state, status)

    async def on_response_headers(self, flow: http.HTTPFlow) -> None:
        """Handle the head of a streamed response. After an unsafe request, stored responses are invalidated before the
        client gets the head (RFC 9111, section 4.4)."""
        state = self._flows.get(flow.id)
        if (
            state is None
            or not state.is_streaming
            or state.routed_request is None
            or state.status is None
            or flow.response is None
        ):
            return
        client, request = state.client, state.routed_request.request
        if state.parent is not None and flow.response.status_code == 407:
            state.status = replace(state.status, detail=Detail.PARENT_PROXY)
            state.reason = f"{parent_name(state.parent)} answered 407"
            state.streamed = passthrough.refuse_parents_challenge(flow, request, client, state.status)
            return
        response = Response(flow.response.status_code, fields_of(flow.response))
        service = self.app.service
        await service.admin.invalidate_after_write(request, response)
        await self._recheck_size_after_refusal(state, response)
        if has_only_unusable_challenges(response.status, response.fields, client, request.target):
            state.status = replace(state.status, detail=Detail.AUTHENTICATION)
            state.reason = Detail.AUTHENTICATION.sentence
            state.streamed = passthrough.refuse_unusable_challenges(flow, request, client, state.status)
            return
        settings = self.app.settings_for(request.target)
        state.streamed = passthrough.prepare_response(flow, request, client, state.status, settings, via=service.via)

    async def _recheck_size_after_refusal(self, state: FlowState, response: Response) -> None:
        """If the origin has refused this streamed request with Retry-After, or has refused the operator's credential
        (401), forget that the target's content is too large for the store. The next request is then fetched. Unlike
        streaming, a fetch obeys Retry-After, and pauses after a refused credential of the operator."""
        assert state.routed_request is not None
        request = state.routed_request.request
        if request.method not in CACHED_METHODS:
            return
        key = self.app.parts.access_control.origin_credentials.key_for(request.target, state.client.user)
        has_own_credential = key != request.target
        # One client's credentials say nothing about the origin's response to others.
        is_shared = has_own_credential or not any(is_credential(name) for name, _ in request.fields)
        is_delayed = response.status >= 400 and "retry-after" in response.fields and is_shared
        if is_delayed or (response.status == 401 and has_own_credential):
            await self.app.service.admin.recheck_size(key)

    def make_error_page(self, flow: http.HTTPFlow, reason: str) -> http.Response:
        """Return the response to the client after a failed request to a server. Record the failure in the flow's
        state."""
        error, state = passthrough.classify_failure(reason), self._flows.get(flow.id)
        status = CacheStatus(detail=error.detail)
        if state is not None and state.status is not None and isinstance(error, Unreachable):
            status = replace(state.status, detail=error.detail)  # otherwise no request was sent
        page = passthrough.error_page(flow, reason, status)
        if state is not None:
            state.status, state.reason, state.error_page = status, reason, page
        return page

    def interim_responses(self, flow: http.HTTPFlow) -> list[http.Response]:
        """Return the 1xx responses to send before a flow's response, in mitmproxy's form."""
        state = self._flows.get(flow.id)
        return [passthrough.to_mitmproxy(response) for response in state.interim] if state is not None else []

    def streamed_interim_response(self, flow: http.HTTPFlow, response: http.Response) -> http.Response | None:
        """Return the 1xx response to send for `response`, a 1xx of the origin to a streamed request. Return None if the
        flow has no state, and at the gateway, which sends no 1xx."""
        state = self._flows.get(flow.id)
        if state is None or state.client.entrance is Entrance.GATEWAY:
            return None  # the links in 1xx responses are relative to the target's origin
        fields = fields_of(response).end_to_end().without("content-length", "alt-svc")
        return passthrough.to_mitmproxy(Response(response.status_code, fields))

    def reserve_content(self, flow: http.HTTPFlow, size: int) -> None:
        """Reserve `size` bytes for the content of a request. Content of at most CONTENT_MAX bytes needs no reservation.
        Raises ContentTooLarge if the endpoint accepts less, and ContentBudgetExceeded if too much is reserved
        already."""
        state = self._flows.get(flow.id)
        cap = state.content_max if state is not None else CONTENT_MAX
        if size > cap:
            raise ContentTooLarge(f"No more than {cap} bytes of content are read here.")
        if size <= CONTENT_MAX or state is None:
            return
        if not self._content_budget.reserve(flow.id, state.client.address, size, cap):
            raise ContentBudgetExceeded("Too much content is being received at present. Please try again later.")

    def refuse(self, flow: http.HTTPFlow, error: FeedproxyError) -> None:
        """Respond to a flow with the error. Nothing is sent upstream."""
        refusal = refusal_response(flow.request.method, fields_of(flow.request), error)
        state = self._flows.get(flow.id)
        if state is None:
            settings = self.app.settings
            entrance = entrance_of(flow, settings, self.connect_approvals.tunnels.get(flow.client_conn.id))
            client = client_context(incoming_request(flow), settings, entrance)
            state = self._register(flow, FlowState(client))
        state.is_streaming = False
        self._set_response(flow, state, refusal.response, refusal.status, refusal.reason)

    def count_unreadable(self, client: Client, status: int, page: bytes) -> None:
        """Count the complete response `page` to a request of this client with an unreadable head."""
        is_tunnel = client.id in self.connect_approvals.tunnels
        record_unreadable(self.app, Entrance.PROXY if is_tunnel else None, status, page)

    def state_of(self, flow: http.HTTPFlow) -> FlowState | None:
        """Return the state of a flow, or None if this handler does not handle the flow, or if the flow has ended."""
        return self._flows.get(flow.id)

    def pop(self, flow: http.HTTPFlow) -> FlowState | None:
        """Remove and return the state of a flow that has ended. Return None if the flow has no state."""
        state = self._flows.pop(flow.id, None)
        self._content_budget.release(flow.id)
        if (flows := self._flows_of_client.get(flow.client_conn.id)) is not None:
            flows.discard(flow.id)
        self.app.requests = len(self._flows)
        return state

    def on_client_disconnected(self, client: str) -> None:
        """Remove what is recorded for a disconnected client: its approvals, its deadlines, and the states of its flows
        that mitmproxy has not ended."""
        self.connect_approvals.forget(client)
        self.handshakes.cancel(client)
        self.backpressure.on_client_disconnected(client)
        for flow in self._flows_of_client.pop(client, ()):
            self._flows.pop(flow, None)
            self._content_budget.release(flow)
        self.app.requests = len(self._flows)

    async def _authorize(
        self, flow: http.HTTPFlow, client: ClientContext, routed: RoutedRequest
    ) -> tuple[ClientContext, RoutedRequest]:
        """Return the client with its user, and the request without the client's credentials. Return both unchanged if
        the target has no `readers`. Raises AccessDenied if the client is not authorized. In a tunnel, the user is that
        of the CONNECT: clients do not support 407 there."""
        request = routed.request
        readers = self.app.settings_for(request.target).readers
        if not readers:
            return client, routed
        connection = flow.client_conn.id
        user, fields = await self.app.parts.access_control.authorize(
            readers,
            request.fields,
            client.address,
            proxy=client.entrance is Entrance.PROXY and connection not in self.connect_approvals.tunnels,
            user=self.connect_approvals.users.get(connection, ""),
        )
        return replace(client, user=user), replace(routed, request=replace(request, fields=fields))

    def _register(self, flow: http.HTTPFlow, state: FlowState) -> FlowState:
        self._flows[flow.id] = state
        if not is_client_gone(flow):
            self._flows_of_client.setdefault(flow.client_conn.id, set()).add(flow.id)
        self.app.requests = len(self._flows)
        return state

    def _respond_early(self, flow: http.HTTPFlow) -> None:
        """Respond before the request's content has arrived, and discard the content. Short content of HTTP/1 is read
        before the response, so that the connection can be used again."""
        flow.request.stream = False
        length = _content_length(flow)
        is_long = length is None or length > CONTENT_MAX
        is_http2 = flow.request.is_http2 and not flow.metadata.get(WITHOUT_CONTENT)
        if flow.request.raw_content is None and (is_long or is_http2):
            flow.metadata[RESPOND_EARLY] = True

    def _handle_local_path(
        self, flow: http.HTTPFlow, state: FlowState, local_path: LocalPath | MisspelledTarget
    ) -> None:
        base, prefix = state.client.base, self.app.settings.endpoint_prefix
        if isinstance(local_path, LocalPath) and local_path.path.startswith(prefix):
            self._find_endpoint(flow, state, local_path.path)
            return
        request = _request_without_target(flow)
        if is_asterisk(request.method, flow.request.path):
            response = options_response()
        elif request.method not in CACHED_METHODS:
            raise MethodNotAllowed("Only GET and HEAD are allowed here.", CACHED_METHODS)
        elif isinstance(local_path, MisspelledTarget):
            response = gateway_redirect(gateway_path(local_path.target), base)
        elif target := pasted_target(local_path.path, base, prefix):
            flow.request.stream = False
            state.endpoint = Endpoint(partial(self._preview, target))
            state.call = Call(replace(request, target=local_path.path), state.client, local_path.path)
            return
        else:
            response = landing_page(local_path.path, base, prefix)
        self._set_local_response(flow, state, response)

    async def _preview(self, target: str, call: Call) -> Response:
        preview = await landing_preview.load_preview(self.app.service, self.app.settings_for, target, call.client)
        return preview_page(preview, call.client.base, self.app.settings.endpoint_prefix)

    def _find_endpoint(self, flow: http.HTTPFlow, state: FlowState, own_path: str) -> None:
        """Find the endpoint of a request, which `on_request` answers after its content has arrived. Respond at once to
        a CORS preflight. Raises NotFound, MethodNotAllowed, ContentTooLarge or ContentBudgetExceeded if the request is
        refused."""
        prefix, request = self.app.settings.endpoint_prefix, _request_without_target(flow)
        path, _, query = own_path.removeprefix(prefix).partition("?")
        endpoint = self.app.endpoints.find(path)
        if endpoint is None:
            raise NotFound("There is no such endpoint.")
        call = Call(replace(request, target=own_path), state.client, path, query)
        if request.method not in endpoint.methods:
            if (response := self._endpoint_preflight_response(endpoint, call)) is not None:
                self._set_local_response(flow, state, response)
                return
            allowed = endpoint.methods
            raise MethodNotAllowed(f"This path accepts only {' and '.join(allowed)}.", allowed)
        flow.request.stream = False
        state.content_max = endpoint.content_limit(path)
        self.reserve_content(flow, _content_length(flow) or 0)  # content of unknown length is reserved as it arrives
        state.endpoint, state.call = endpoint, call
        state.usual_path = usual_endpoint_path(own_path.removeprefix(prefix), state.client, prefix)

    def _set_local_response(self, flow: http.HTTPFlow, state: FlowState, response: Response) -> None:
        """Set a response that this proxy itself made. Cache-Status is added if the response has none."""
        status = CacheStatus()
        if "cache-status" not in response.fields:
            response = response.with_fields(append(response.fields, status))
        self._set_response(flow, state, response, status)

    def _local_response(self, routed: RoutedRequest) -> Response | None:
        """Return the response to a CORS preflight for a stored feed, or to an OPTIONS that must not be forwarded.
        Return None for any other request. Raises MethodNotAllowed for a method that is refused."""
        request = routed.request
        check_method(request.method)
        if not may_forward(request):
            return options_response()
        return self._preflight_response(request)

    def _preflight_response(self, request: Request) -> Response | None:
        response = preflight_response(request, self.app.settings_for(request.target))
        target = self.app.service.resolve_target(request).target if response is not None else ""
        return response if response is not None and self.app.service.admin.is_feed(target) else None

    def _endpoint_preflight_response(self, endpoint: Endpoint, call: Call) -> Response | None:
        """Return the response to a CORS preflight for a public list or for the conversion of a stored feed. Return None
        for each other call."""
        if endpoint.is_list:
            return preflight_response(call.request, self.app.settings)
        if call.request.method != "OPTIONS" or not call.path.startswith(conversions.PATH):
            return None
        _, target = self.app.service.conversions.parse_call(call)
        return self._preflight_response(replace(call.request, target=target))

    async def _stream_upstream(self, flow: http.HTTPFlow, state: FlowState, status: CacheStatus) -> None:
        assert state.routed_request is not None
        target = state.routed_request.request.target
        settings, parent = self.app.settings_for(target), self.app.parent_of(target)
        with requesting(Requester(client_network(state.client.address), is_known=False)):
            await passthrough.approve(
                self.connect_approvals, flow.client_conn.id, target, settings, self.app.parts.policy, parent
            )
        if is_client_gone(flow):
            self.connect_approvals.forget(flow.client_conn.id)
            raise Unreachable(CLIENT_GONE)
        routed = replace(state.routed_request, request=self._with_credentials(state))
        passthrough.prepare_request(flow, routed, state.client, via=self.app.service.via, parent=parent)
        state.status, state.is_streaming, state.parent = status, True, parent

    def _with_credentials(self, state: FlowState) -> Request:
        """Return the request to stream upstream. A GET or HEAD gets the operator's credential for the target and user,
        unless the credential is a query parameter: the addresses of streamed requests are logged and recorded."""
        assert state.routed_request is not None
        request, credentials = state.routed_request.request, self.app.parts.access_control.origin_credentials
        key = credentials.key_for(request.target, state.client.user)
        if key == request.target or request.method not in CACHED_METHODS:
            return request
        credentialed = credentials.with_credentials(replace(request, target=key))
        return credentialed if credentialed.target == request.target else request

    def _set_response(
        self, flow: http.HTTPFlow, state: FlowState, response: Response, status: CacheStatus, reason: str = ""
    ) -> None:
        """Set the response, and record it in the flow's state. If content is still arriving, respond at once."""
        if response.status == 401 and state.usual_path:
            response = gateway_redirect(self.app.settings.endpoint_prefix + state.usual_path, state.client.base)
            response = response.with_fields(append(response.fields, status))
        response = finish_response(response, flow.request.method, state.client, self.app.clock.now())
        flow.response = passthrough.to_mitmproxy(response)
        state.status, state.reason = status, reason
        if len(response.body) >= UNSENT_MIN:
            self.unsent_output_limit.check_soon()
        self._respond_early(flow)


def _request_without_target(flow: http.HTTPFlow) -> Request:
    return Request(flow.request.method, "", fields_of(flow.request))


def _content_length(flow: http.HTTPFlow) -> int | None:
    if "transfer-encoding" in flow.request.headers:
        return None
    try:
        return int(flow.request.headers.get("content-length", "0"))
    except ValueError:
        return None


def get_flow_handler(app: App) -> FlowHandler:
    """Return the flow handler of this App."""
    if app.flow_handler is None:
        app.flow_handler = FlowHandler(app)
    return cast("FlowHandler", app.flow_handler)
