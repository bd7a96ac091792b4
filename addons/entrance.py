"""Gateway, explicit proxy, reverse: which of the three ways in, and to what target?"""

import logging
from typing import Any

from mitmproxy import connection, ctx, http
from mitmproxy.addonmanager import Loader
from mitmproxy.proxy import layer
from mitmproxy.proxy.layers import TCPLayer
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.errors import FeedproxyError, Forbidden, NotFound
from feedproxy.server.mitm import flow_handler, http1_patches, parent_proxy_connections, passthrough
from feedproxy.server.mitm.http_layer import FeedStream, install

logger = logging.getLogger(__name__)


class Stream(FeedStream):
    """mitmproxy's stream, with our own words for what fails on the way upstream."""

    error_page = staticmethod(flow_handler.error_page)
    interim_of = staticmethod(flow_handler.interim_responses)
    too_large = staticmethod(flow_handler.too_large)


def _peer(client: connection.Client) -> str | None:
    """Where a connection comes from; None, whatever its type says, of one that has gone before it was looked at."""
    peer: tuple[Any, ...] | None = client.peername
    return peer[0] if peer else None


class Entrance:
    """Finds the target of every request, and answers what is asked of feedproxy itself."""

    def load(self, loader: Loader) -> None:
        settings.declare(
            loader,
            "reuse_port",
            "listen",
            "workers",
            "upstream",
            "public_url",
            "endpoint_prefix",
            "intercept",
            "trusted_proxies",
            "forwarded_by",
            "connect_ports",
            "max_connections",
            "max_connections_per_address",
            "head_timeout",
            "fast_path",
            "tls_certificate",
            "tls_key",
        )
        http1_patches.apply()
        parent_proxy_connections.install()
        # An eager mitmproxy connects upstream before anybody asked whether it may.
        ctx.options.update_defer(connection_strategy="lazy", rawtcp=False, websocket=False)

    def configure(self, _: set[str]) -> None:
        here = get_app(ctx.master)
        here.adopt(ctx.options)
        here.whole = True

    def running(self) -> None:
        here, proxy = get_app(ctx.master), ctx.master.addons.get("proxyserver")
        for _, port, *_ in proxy.listen_addrs() if proxy is not None else ():
            here.listeners.add(port, for_readers=True)

    def client_connected(self, client: connection.Client) -> None:
        here = get_app(ctx.master)
        here.connections += 1
        flow_handler.get_flow_handler(here).backpressure.on_client_connected(
            client, ctx.master.addons.get("proxyserver")
        )
        if here.draining or here.connections > here.settings.max_connections:
            client.error = "feedproxy holds as many connections as it may"
        elif (peer := _peer(client)) is None:
            client.error = "the reader has gone already"
        elif not flow_handler.get_flow_handler(here).connection_limiter.acquire_for_client(
            client.id, peer, here.settings
        ):
            client.error = "feedproxy holds as many connections from that address as it may"

    def client_disconnected(self, client: connection.Client) -> None:
        here = get_app(ctx.master)
        here.connections -= 1
        flow_handler.get_flow_handler(here).connection_limiter.release_client(client.id)
        flow_handler.get_flow_handler(here).on_client_disconnected(client.id)

    def server_connect(self, data: ServerConnectionHookData) -> None:
        # Here, and not where the other limits are: no script of ours that finds targets goes without the veto.
        passthrough.enforce(data, flow_handler.get_flow_handler(get_app(ctx.master)).connect_approvals)

    def server_connected(self, data: ServerConnectionHookData) -> None:
        flow_handler.get_flow_handler(get_app(ctx.master)).backpressure.on_server_connected(data.client, data.server)

    def next_layer(self, chosen: layer.NextLayer) -> None:
        handler = flow_handler.get_flow_handler(get_app(ctx.master))
        tunnel = handler.connect_approvals.tunnels.get(chosen.context.client.id)
        if tunnel is not None and not handler.intercepts(tunnel[0]):
            chosen.layer = TCPLayer(chosen.context, ignore=True)
            return
        if chosen.layer is None and (default := ctx.master.addons.get("nextlayer")):
            default.next_layer(chosen)
        decided = get_app(ctx.master).settings
        install(chosen, Stream, decided.header_max, decided.head_timeout, handler.backpressure)

    async def http_connect(self, flow: http.HTTPFlow) -> None:
        handler = flow_handler.get_flow_handler(get_app(ctx.master))
        try:
            await handler.on_connect(flow)
        except FeedproxyError as error:
            handler.refuse(flow, error)
        except Exception:
            logger.exception("CONNECT failed")
            handler.refuse(flow, Forbidden("feedproxy could not decide whether that address may be reached"))

    async def requestheaders(self, flow: http.HTTPFlow) -> None:
        here = get_app(ctx.master)
        handler = flow_handler.get_flow_handler(here)
        try:
            if not await handler.backpressure.wait_drained(flow.client_conn.id, here.settings.answer_timeout):
                flow.kill()
                return
            await handler.on_request_headers(flow)
        except FeedproxyError as error:
            handler.refuse(flow, error)
        except Exception:
            logger.exception("a request could not be read")
            handler.refuse(flow, NotFound("feedproxy could not make sense of this request"))


addons = [Entrance()]
