"""The stage of the addons: the real addons, hook by hook, with an origin in memory and no sockets."""

import itertools
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import urlsplit

from feedproxy.addons.order import default_addons
from mitmproxy import connection, http
from mitmproxy.proxy import server_hooks
from mitmproxy.proxy.layers.http import _hooks as hooks
from mitmproxy.test import taddons, tflow

from feedproxy.app import App, bind_app
from feedproxy.clock import ManualClock
from feedproxy.errors import FeedproxyError
from feedproxy.feed_rules import Rules
from feedproxy.http.message import Fields, Request
from feedproxy.proxy.service import Service
from feedproxy.request.context import Entrance
from feedproxy.server.mitm import flow_handler
from feedproxy.server.mitm.request_routing import ABSOLUTE_FORM, fields_of, headers_of
from feedproxy.settings import declare, defaults
from tests.stages.origin import Origin, OriginFetcher
from tests.stages.play import ALONE, Seen, line_for, resolved


class OnAddons:
    """Calls every hook that mitmproxy would call for a request, in order.

    Forwarded requests go to the origin in memory.
    """

    def __init__(self, clock: ManualClock, settings: dict[str, Any]) -> None:
        self.clock = clock
        self.origin = Origin(clock)
        # An IP address, because a name would be looked up for the address check of streamed requests.
        self.origin.base = "http://127.0.0.1:8088"
        self.settings = settings
        self.name = "http://proxy.example:8080"

    @property
    def service(self) -> Service:
        return self.app.service

    def use_rules(self, rules: Rules) -> None:
        self.app.set_rules(rules)

    async def open(self) -> None:
        self._context = taddons.context()
        declare(self._context.options, *defaults())  # before addons exist, as in mitmproxy_master.build_master
        self._addons = self._context.master.addons
        self.app = App(self.clock, make_client=lambda _: OriginFetcher(self.origin))
        bind_app(self._context.master, self.app)
        self._addons.add(*default_addons())
        given = {**ALONE, "allow_private": True, "admin": "", "store": "memory:", "log_format": "off"}
        self._context.options.update(**{**given, **resolved(self.settings, self.origin)})

    async def close(self) -> None:
        await self.app.close()

    async def send(
        self, method: str, path: str, fields: Fields, *, entrance: Entrance, address: str, body: bytes = b""
    ) -> Seen:
        return await self.ask(method, line_for(self, entrance, path), fields, address=address, body=body)

    async def ask(self, method: str, line: str, fields: Fields, *, address: str, body: bytes = b"") -> Seen:
        if body:
            fields = fields.with_field("Content-Length", str(len(body)))
        flow = self._flow(method, line, fields, address)
        await self._addons.invoke_addon(self._entrance, server_hooks.ClientConnectedHook(flow.client_conn))
        try:
            await self._play(flow, body)
        finally:
            await self._addons.invoke_addon(self._entrance, server_hooks.ClientDisconnectedHook(flow.client_conn))
        assert flow.response is not None
        content = flow.response.raw_content or b""
        return Seen(flow.response.status_code, fields_of(flow.response), b"" if method == "HEAD" else content)

    @property
    def _entrance(self) -> Any:
        return self._addons.get("entrance")

    async def _play(self, flow: http.HTTPFlow, body: bytes) -> None:
        await self._hook(hooks.HttpRequestHeadersHook(flow))
        streams = flow.request.stream
        assert not (streams and flow.response), "mitmproxy cannot stream a request that is answered already"
        if not streams:
            flow.request.raw_content = body
        await self._hook(hooks.HttpRequestHook(flow))
        if flow.response is None:
            await self._pass(flow, body)
        else:
            await self._hook(hooks.HttpResponseHeadersHook(flow))
        await self._hook(hooks.HttpResponseHook(flow))

    async def _pass(self, flow: http.HTTPFlow, body: bytes) -> None:
        """Send a flow without a response upstream, as mitmproxy does."""
        flow.server_conn = connection.Server(address=(flow.request.host, flow.request.port))
        data = server_hooks.ServerConnectionHookData(flow.server_conn, flow.client_conn)
        await self._hook(server_hooks.ServerConnectHook(data))
        if flow.server_conn.error:
            flow.response = flow_handler.get_flow_handler(self.app).make_error_page(flow, flow.server_conn.error)
            return
        request = Request(flow.request.method, flow.request.url, fields_of(flow.request))
        try:
            answer = await self.origin.answer(request)
        except FeedproxyError as error:
            flow.response = flow_handler.get_flow_handler(self.app).make_error_page(flow, str(error))
            return
        flow.response = http.Response.make(answer.status, answer.body)
        flow.response.headers = headers_of(answer.fields.with_field("Content-Length", str(len(answer.body))))
        await self._hook(hooks.HttpResponseHeadersHook(flow))
        if callable(stream := flow.response.stream):
            pieces = [cast("Iterable[bytes]", stream(piece)) for piece in (answer.body, b"")]
            flow.response.raw_content = b"".join(itertools.chain(*pieces))

    async def _hook(self, event: Any) -> None:
        # As the product's addon manager (mitmproxy_master.py).
        for addon in [addon for addon in self._addons.chain if hasattr(addon, event.name)]:
            await self._addons.invoke_addon(addon, event)

    def _flow(self, method: str, line: str, fields: Fields, address: str) -> http.HTTPFlow:
        absolute = not line.startswith("/")
        split = urlsplit(line if absolute else self.name)
        port = split.port or (443 if split.scheme == "https" else 80)
        lines = fields if "host" in fields else Fields([("Host", split.netloc), *fields])
        path = line.removeprefix(f"{split.scheme}://{split.netloc}") if absolute else line
        client = tflow.tclient_conn()
        client.peername, client.sockname = (address, 50_000), ("127.0.0.1", 8080)
        client.timestamp_end = None
        request = http.Request(
            host=split.hostname or "",
            port=port,
            method=method.encode(),
            scheme=split.scheme.encode() if absolute else b"",
            authority=split.netloc.encode() if absolute else b"",
            path=(path or "/").encode("latin-1"),
            http_version=b"HTTP/1.1",
            headers=headers_of(lines),
            content=None,
            trailers=None,
            timestamp_start=self.clock.now(),
            timestamp_end=None,
        )
        flow = http.HTTPFlow(client, connection.Server(address=None))
        flow.request = request
        flow.metadata[ABSOLUTE_FORM] = absolute
        return flow
