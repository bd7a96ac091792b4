"""The desk at the entrance: it knows every flow from its arrival until it has been answered.

Addons are short because the desk does what they say: `connect` and `arrive` when a head is there, `serve` when the
request is whole, `returned` when the head of a streamed answer is there, `leave` when all is over. One desk per
Runtime. It refuses by raising FeedproxyError; the addon that called turns this into an answer with `refuse`.
"""

import fnmatch
import logging
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakKeyDictionary

from mitmproxy import http

from feedproxy.app import Runtime
from feedproxy.cache.cache_status import CacheStatus, Detail, Fwd, append
from feedproxy.clock import Instant
from feedproxy.endpoints.landing_page import gateway_redirect, landing_page, pasted_target, preview_page
from feedproxy.errors import AccessDenied, FeedproxyError, Forbidden, LoopDetected, Unreachable
from feedproxy.http import uri
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response
from feedproxy.http.message_syntax import is_well_formed
from feedproxy.request.context import PassThrough, ProxyResponse
from feedproxy.request.endpoints import Call, Endpoint
from feedproxy.request.entrance import ClientContext, Entrance, apply_entrance_rules
from feedproxy.request.problem import problem_response
from feedproxy.request.upstream_request import is_loop
from feedproxy.server.fastpath.response_template import encode_head
from feedproxy.server.mitm import landing_preview, passthrough
from feedproxy.server.mitm.backpressure import Pace
from feedproxy.server.mitm.connection_limits import Crowd
from feedproxy.server.mitm.http_layer import AT_ONCE, CONTENT_CAP, CONTENT_MAX
from feedproxy.server.mitm.parent_proxy_connections import Through, way
from feedproxy.server.mitm.passthrough import Passes, Streamed
from feedproxy.server.mitm.request_routing import (
    OWN_AUTHORITY,
    Arrival,
    Came,
    Misspelt,
    Ours,
    addressed_to_us,
    arrive,
    came,
    entrance_of,
    fields_of,
    visit_of,
)
from feedproxy.upstream.fair_limits import Asker, asking, client_of
from feedproxy.upstream.own_authority import is_own
from feedproxy.upstream.parent_proxy import Parent
from feedproxy.upstream.parent_proxy_tunnel import named

logger = logging.getLogger(__name__)

CACHED = ("GET", "HEAD")
"""The methods whose answers are stored and served; everything else streams through, but for TRACE."""

ALLOWED = (*CACHED, "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""What Allow says of a target: TRACE is missing."""


@dataclass(slots=True)
class Case:
    """One flow, as the desk sees it.

    `endpoint` and `call` are what was asked of ourselves; `streamed` counts the content that streams; `page` is what
    the reader gets where the way upstream failed; `connected` what became of a CONNECT: `tunnel`, or `intercept` where
    it ends here.
    """

    visit: ClientContext
    arrival: Arrival | None = None
    status: CacheStatus | None = None
    words: str = ""
    passing: bool = False
    interim: tuple[Response, ...] = ()
    endpoint: Endpoint | None = None
    call: Call | None = None
    streamed: Streamed | None = None
    page: http.Response | None = None
    connected: str = ""
    parent: Parent | None = None
    """The parent proxy that a request streams through."""


class Desk:
    """The cases under way, by flow id; and what may pass."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.passes = Passes()
        self.pace = Pace()
        self.crowd = Crowd()
        self._cases: dict[str, Case] = {}
        self._of_client: dict[str, set[str]] = {}

    async def connect(self, flow: http.HTTPFlow) -> None:
        """CONNECT: only to the ports and addresses that may be reached.

        Nor to a host of which a rule protects anything: what is asked for in a tunnel is not seen. Raises Forbidden,
        Unreachable, AccessDenied, BadTarget, Overload.
        """
        settings = self.runtime.settings
        host, port = flow.request.host, flow.request.port
        if settings.upstream:
            raise Forbidden("this proxy stands in front of one origin, and tunnels to no other")
        target = uri.normalise(f"https://{uri.hostport(host, port)}/")
        if not self.intercepts(host) and self.runtime.rules.protects_host(uri.host_of(target), settings):
            raise Forbidden(
                "a rule with readers or private protects feeds of this host, and a tunnel would lead past it: "
                "name the host in intercept, or ask for its feeds in the gateway's form"
            )
        readers = self.runtime.settings_for(target).readers
        if readers:
            visit = visit_of(came(flow), settings, Entrance.PROXY)
            fields = fields_of(flow.request)
            user, _ = await self.runtime.doorkeeper.admit(readers, fields, visit.address, proxy=True)
            self.passes.users[flow.client_conn.id] = user
        policy = self.runtime.connect_policy
        policy.check_port(port)
        client = client_of(visit_of(came(flow), settings, Entrance.PROXY).address)
        with asking(Asker(client, is_known=False)):
            parent = self.runtime.parent_of(target)
            address: str | Through
            if parent is not None:
                address = await way(parent, host, port, policy, tls=True)
            else:
                address = (await policy.resolve(host, port))[0]
        if _has_gone(flow):
            raise Unreachable("the reader has gone meanwhile")
        self.passes.tunnels[flow.client_conn.id] = (host, port)
        self.passes.approve(flow.client_conn.id, host, port, address)
        case = self._open(flow, Case(visit_of(came(flow), settings, Entrance.PROXY)))
        if self.intercepts(host):
            case.connected, case.status = "intercept", CacheStatus()
            case.words = "TLS intercepted; its requests are logged separately"
        else:
            case.connected, case.status = "tunnel", CacheStatus(fwd=Fwd.METHOD, detail=Detail.PASS_THROUGH)
            case.words = "CONNECT tunnel, not inspected"

    def intercepts(self, host: str) -> bool:
        """Whether what CONNECT leads to that host is decrypted here."""
        if host.lower() in self.runtime.feed_list.imported.hosts:
            return True
        patterns = self.runtime.settings.intercept
        return any(fnmatch.fnmatchcase(host.lower(), pattern.lower()) for pattern in patterns)

    async def arrive(self, flow: http.HTTPFlow) -> None:
        """A request's head is there. What is asked of us is answered; what has no cache is sent on its way."""
        if flow.response is not None or flow.error is not None:
            return
        flow.request.stream = False  # stream_large_bodies may have decided otherwise before
        settings = self.runtime.settings
        tunnel = self.passes.tunnels.get(flow.client_conn.id)
        head = came(flow)
        entrance = entrance_of(flow, settings, tunnel)
        if entrance is Entrance.PROXY and tunnel is None and await self._names_us(head):
            flow.metadata[OWN_AUTHORITY] = True
            head, entrance = addressed_to_us(head), Entrance.GATEWAY
        elif entrance is Entrance.REVERSE and head.absolute and head.authority:
            named = replace(head, url=f"http://{head.authority}{head.path}")  # mitmproxy's url is the origin's
            if await self._names_us(named):
                head = replace(addressed_to_us(named), absolute=False)
        found = arrive(head, entrance, settings, tunnel)
        if isinstance(found, Ours | Misspelt):
            self._own(flow, found)
            return
        if self._ends_here(flow, found):
            return
        found = await self._admitted(flow, found)
        has_content = _length(flow) != 0
        if is_loop(found.request.fields, self.runtime.service.pseudonym):
            raise LoopDetected("this request has passed this proxy already")
        case = self._open(flow, Case(found.visit, found))
        if found.request.method not in CACHED or has_content:
            # A GET with content means something that no cache can know (RFC 9110, 9.3.1).
            fwd = Fwd.METHOD if found.request.method not in CACHED else Fwd.BYPASS
            await self._forward(flow, case, CacheStatus(fwd=fwd, detail=Detail.PASS_THROUGH))
            flow.request.stream = True

    async def _names_us(self, head: Came) -> bool:
        here = self.runtime
        return await is_own(head.url, here.settings, here.policy, here.listeners)

    async def serve(self, flow: http.HTTPFlow) -> None:
        """A GET or HEAD is whole: answer it, or let it stream."""
        if flow.id not in self._cases:
            await self.arrive(flow)
        case = self._cases.get(flow.id)
        if case is None or case.passing or flow.response is not None:
            return
        if case.endpoint is not None and case.call is not None:
            response = await case.endpoint.handler(replace(case.call, content=flow.request.raw_content or b""))
            self._put_own(flow, case, response)
            return
        if case.arrival is None:
            return
        found = await self.runtime.service.answer(case.arrival.request, case.visit)
        if _has_gone(flow):
            self._cases[flow.id] = case  # forgotten with its client: its end, which comes now, tells of it
        match found:
            case ProxyResponse(response, status, words) as answer:
                self._put(flow, case, response, status, words)
                if case.visit.entrance is not Entrance.GATEWAY:
                    case.interim = answer.interim  # their links are meant for another origin than the gateway's
            case PassThrough(status):
                await self._forward(flow, case, status)

    async def returned(self, flow: http.HTTPFlow) -> None:
        """The head of a streamed answer is there: what is stored is invalidated before the reader hears of it."""
        case = self._cases.get(flow.id)
        if case is None or not case.passing or case.arrival is None or case.status is None or flow.response is None:
            return
        if case.parent is not None and flow.response.status_code == 407:
            case.status, case.words = CacheStatus(detail=Detail.PARENT_PROXY), f"{named(case.parent)} answered 407"
            case.streamed = passthrough.refuse_parents_challenge(flow)
            return
        response = Response(flow.response.status_code, fields_of(flow.response))
        service = self.runtime.service
        await service.admin.invalidate_after_write(case.arrival.request, response)
        settings = self.runtime.settings_for(case.arrival.request.target)
        case.streamed = passthrough.answer(flow, case.arrival, case.status, settings, via=service.via)

    def failed(self, flow: http.HTTPFlow, words: str) -> http.Response:
        """The way upstream failed: what the reader gets, and from now on is told of this flow."""
        error, case = passthrough.failure(words), self._cases.get(flow.id)
        status = CacheStatus(detail=error.detail)
        if case is not None and case.status is not None and isinstance(error, Unreachable):
            status = replace(case.status, detail=error.detail)  # a veto is none of the origin's: nothing went there
        page = passthrough.error_page(flow, words, status)
        if case is not None:
            case.status, case.words, case.page = status, words, page
        return page

    def refuse(self, flow: http.HTTPFlow, error: FeedproxyError) -> None:
        """Answer with what went wrong; nothing of it goes upstream."""
        response, status = refused(flow.request.method, fields_of(flow.request), error)
        case = self._cases.get(flow.id)
        if case is None:
            settings = self.runtime.settings
            entrance = entrance_of(flow, settings, self.passes.tunnels.get(flow.client_conn.id))
            visit = visit_of(came(flow), settings, entrance)
            case = self._open(flow, Case(visit))
        case.passing = False
        self._put(flow, case, response, status, str(error))
        self._answer_at_once(flow)

    def case(self, flow: http.HTTPFlow) -> Case | None:
        """What is known of a flow."""
        return self._cases.get(flow.id)

    def leave(self, flow: http.HTTPFlow) -> Case | None:
        """The flow is over: what was known of it, for the last time."""
        case = self._cases.pop(flow.id, None)
        if (flows := self._of_client.get(flow.client_conn.id)) is not None:
            flows.discard(flow.id)
        self.runtime.requests = len(self._cases)
        return case

    def gone(self, client: str) -> None:
        """The client has gone, and with it whatever mitmproxy forgot to end."""
        self.passes.forget(client)
        self.pace.gone(client)
        for flow in self._of_client.pop(client, ()):
            self._cases.pop(flow, None)
        self.runtime.requests = len(self._cases)

    async def _admitted(self, flow: http.HTTPFlow, found: Arrival) -> Arrival:
        """The request of one who may make it, without what he proved that with. Raises AccessDenied.

        A tunnel's user has said who he is when he asked for it; in it no client would understand 407.
        """
        request, visit = found.request, found.visit
        readers = self.runtime.settings_for(request.target).readers
        if not readers:
            return found
        client = flow.client_conn.id
        user, fields = await self.runtime.doorkeeper.admit(
            readers,
            request.fields,
            visit.address,
            proxy=visit.entrance is Entrance.PROXY and client not in self.passes.tunnels,
            user=self.passes.users.get(client, ""),
        )
        return replace(found, request=replace(request, fields=fields), visit=replace(visit, user=user))

    def _open(self, flow: http.HTTPFlow, case: Case) -> Case:
        self._cases[flow.id] = case
        if not _has_gone(flow):
            self._of_client.setdefault(flow.client_conn.id, set()).add(flow.id)
        self.runtime.requests = len(self._cases)
        return case

    def _answer_at_once(self, flow: http.HTTPFlow) -> None:
        """Nobody will read its content: where that may be much the answer does not wait for it."""
        flow.request.stream = False
        length = _length(flow)
        if flow.request.raw_content is None and (length is None or length > CONTENT_MAX):
            flow.metadata[AT_ONCE] = True

    def too_large(self, flow: http.HTTPFlow, case: Case) -> None:
        """Refuse its content: at once where it has not come yet (RFC 9110, 10.1.1)."""
        words = f"No more than {flow.metadata.get(CONTENT_CAP, CONTENT_MAX)} bytes of content are read here."
        response = problem_response(413, Detail.CONTENT_TOO_LARGE, words, request=_bare(flow))
        self._put_own(flow, case, response, Detail.CONTENT_TOO_LARGE)
        flow.metadata[AT_ONCE] = True

    def _own(self, flow: http.HTTPFlow, ours: Ours | Misspelt) -> None:
        prefix = self.runtime.settings.endpoint_prefix
        if isinstance(ours, Ours) and ours.path.startswith(prefix):
            self._endpoint(flow, ours, ours.path.removeprefix(prefix))
            return
        case, request, base = self._open(flow, Case(ours.visit)), _bare(flow), ours.visit.base
        if request.method not in CACHED:
            self._put_own(flow, case, _not_allowed(request, CACHED), Detail.METHOD)
        elif isinstance(ours, Misspelt):
            self._put_own(flow, case, gateway_redirect(ours.target, base))
        elif target := pasted_target(ours.path, base):
            flow.request.stream = False
            flow.metadata[CONTENT_CAP] = CONTENT_MAX
            case.endpoint = Endpoint(partial(self._preview, target))
            case.call = Call(replace(request, target=ours.path), ours.visit, ours.path)
            return
        else:
            self._put_own(flow, case, landing_page(ours.path, base, prefix))
        self._answer_at_once(flow)

    async def _preview(self, target: str, call: Call) -> Response:
        """The landing page for a pasted address."""
        seen = await landing_preview.look(self.runtime, target, call.client)
        return preview_page(seen, call.client.base, self.runtime.settings.endpoint_prefix)

    def _endpoint(self, flow: http.HTTPFlow, ours: Ours, below: str) -> None:
        """Refuse what no endpoint takes; what one takes is answered by `serve`, once its content is there."""
        path, _, query = below.partition("?")
        endpoint, request = self.runtime.endpoints.find(path), _bare(flow)
        case = self._open(flow, Case(ours.visit))
        if endpoint is None:
            words = "There is no such endpoint."
            self._put_own(flow, case, problem_response(404, Detail.NOT_FOUND, words, request=request), Detail.NOT_FOUND)
            self._answer_at_once(flow)
        elif request.method not in endpoint.methods:
            self._put_own(flow, case, _not_allowed(request, endpoint.methods), Detail.METHOD)
            self._answer_at_once(flow)
        else:
            flow.request.stream = False
            flow.metadata[CONTENT_CAP] = cap = endpoint.content_limit(path)
            if (_length(flow) or 0) > cap:
                self.too_large(flow, case)
                return
            case.endpoint, case.call = endpoint, Call(replace(request, target=ours.path), ours.visit, path, query)

    def _put_own(self, flow: http.HTTPFlow, case: Case, response: Response, detail: Detail | None = None) -> None:
        """An answer of our own; one that speaks of a stored copy brings its own Cache-Status."""
        status = CacheStatus(detail=detail)
        if "cache-status" not in response.fields:
            response = response.with_fields(append(response.fields, status))
        self._put(flow, case, response, status)

    def _ends_here(self, flow: http.HTTPFlow, found: Arrival) -> bool:
        """Answer what goes no further; False for what may.

        TRACE would give a page's script what its reader's browser adds to a request (RFC 9110, 9.3.8); and OPTIONS
        with `Max-Forwards: 0` is asked of us (7.6.2).
        """
        request, allow = found.request, ("Allow", ", ".join(ALLOWED))
        if request.method == "TRACE":
            status = CacheStatus(detail=Detail.METHOD)
            shown = replace(request, target=found.shown or request.target)
            response = problem_response(
                405, Detail.METHOD, "This proxy passes no TRACE.", request=shown, extra=(allow,)
            )
        elif request.method == "OPTIONS" and passthrough.hops_left(request.fields) == 0:
            status = CacheStatus()
            response = Response(200, Fields([allow, ("Content-Length", "0")]))
        else:
            return False
        case = self._open(flow, Case(found.visit))
        self._put(flow, case, response.with_fields(append(response.fields, status)), status)
        self._answer_at_once(flow)
        return True

    async def _forward(self, flow: http.HTTPFlow, case: Case, status: CacheStatus) -> None:
        assert case.arrival is not None
        target = case.arrival.request.target
        settings, parent = self.runtime.settings_for(target), self.runtime.parent_of(target)
        with asking(Asker(client_of(case.visit.address), is_known=False)):
            await passthrough.approve(self.passes, flow.client_conn.id, target, settings, self.runtime.policy, parent)
        if _has_gone(flow):
            self.passes.forget(flow.client_conn.id)
            raise Unreachable("the reader has gone meanwhile")
        passthrough.begin(flow, case.arrival, via=self.runtime.service.via, parent=parent)
        case.status, case.passing, case.parent = status, True, parent

    def _put(self, flow: http.HTTPFlow, case: Case, response: Response, status: CacheStatus, words: str = "") -> None:
        flow.response = passthrough.make(finished(response, case.visit, self.runtime.clock.now()))
        case.status, case.words = status, words


def finished(response: Response, visit: ClientContext, now: Instant) -> Response:
    """The response with what every one of ours carries when it leaves through this visit's entrance."""
    if visit.entrance is Entrance.GATEWAY and "content-security-policy" not in response.fields:
        response = response.with_fields(apply_entrance_rules(response.fields, visit, target="", upstream=""))
    if "date" not in response.fields:
        # RFC 9110, 6.6.1: who has a clock MUST say when, in 2xx, 3xx and 4xx.
        response = response.with_fields(response.fields.with_added("Date", format_http_date(now)))
    if not _is_well_formed(response):
        # Whatever made it, a stored copy that was tampered with or an option: nothing of it goes out.
        logger.error("an answer with control characters in its head is withheld")
        response, _ = refused("GET", Fields(), FeedproxyError("feedproxy failed; its log says more"))
    return response


def _is_well_formed(response: Response) -> bool:
    try:
        return is_well_formed(encode_head(response.status, response.fields, response.reason))
    except UnicodeEncodeError:
        return False


def refused(method: str, fields: Fields, error: FeedproxyError) -> tuple[Response, CacheStatus]:
    """The answer to a request of which nothing goes upstream, and what is said of it."""
    status = CacheStatus(detail=error.detail)
    extra = error.fields if isinstance(error, AccessDenied) else ()
    response = problem_response(
        error.status_hint, error.detail, str(error), request=Request(method, "", fields), extra=extra
    )
    return response.with_fields(append(response.fields, status)), status


def _not_allowed(request: Request, methods: tuple[str, ...]) -> Response:
    said = "Only GET and HEAD are allowed here." if methods == CACHED else f"This takes {' and '.join(methods)} only."
    return problem_response(405, Detail.METHOD, said, request=request, extra=(("Allow", ", ".join(methods)),))


def _bare(flow: http.HTTPFlow) -> Request:
    """The request, without its target."""
    return Request(flow.request.method, "", fields_of(flow.request))


def _has_gone(flow: http.HTTPFlow) -> bool:
    """Whether `gone` has been called for this flow's client: what is noted of it now would be noted for ever."""
    return flow.client_conn.timestamp_end is not None


def _length(flow: http.HTTPFlow) -> int | None:
    """Bytes of the request's content; None where it does not say."""
    if "transfer-encoding" in flow.request.headers:
        return None
    try:
        return int(flow.request.headers.get("content-length", "0"))
    except ValueError:
        return None


def interim_of(flow: http.HTTPFlow) -> list[http.Response]:
    """The 1xx responses that came on the way to a flow's answer, as mitmproxy sends them."""
    case = next((found for each in _desks.values() if (found := each.case(flow)) is not None), None)
    return [passthrough.make(response) for response in case.interim] if case is not None else []


def error_page(flow: http.HTTPFlow, words: str) -> http.Response:
    """The answer for a flow whose way upstream failed."""
    at = next((each for each in _desks.values() if each.case(flow) is not None), None)
    return at.failed(flow, words) if at is not None else passthrough.error_page(flow, words)


def too_large(flow: http.HTTPFlow) -> None:
    """Answer a flow that has more content than it may."""
    for each in _desks.values():
        if (case := each.case(flow)) is not None:
            each.too_large(flow, case)


_desks: "WeakKeyDictionary[Runtime, Desk]" = WeakKeyDictionary()


def desk(runtime: Runtime) -> Desk:
    """The desk of this Runtime."""
    found = _desks.get(runtime)
    if found is None:
        found = _desks[runtime] = Desk(runtime)
    return found
