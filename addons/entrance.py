"""The entrances: gateway, explicit proxy and reverse mode. The entrance determines the target of a request."""

from mitmproxy import connection, ctx, exceptions, http
from mitmproxy.addonmanager import Loader
from mitmproxy.proxy import layer
from mitmproxy.proxy.layers import TCPLayer
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.tls import TlsData

from feedproxy import settings
from feedproxy.errors import UsageError
from feedproxy.server.addon import Addon
from feedproxy.server.mitm import (
    http1_limits_and_corrections,
    international_names,
    passthrough,
    server_addresses,
)
from feedproxy.server.mitm.connect_and_interception import is_intercepted
from feedproxy.server.mitm.handshake_deadlines import HANDSHAKE_RECORD
from feedproxy.server.mitm.http_layer import install
from feedproxy.server.mitm.supported_modes import check_modes


class Entrance(Addon):
    """Addon that routes each request to its target or endpoint, and limits connections."""

    options = (
        "reuse_port",
        "listen",
        "workers",
        "upstream",
        "public_url",
        "endpoint_prefix",
        "intercept",
        "gateway_hosts",
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

    def load(self, loader: Loader) -> None:
        super().load(loader)
        http1_limits_and_corrections.install()
        international_names.install()
        server_addresses.install()
        # With `eager`, mitmproxy would connect to the upstream before the target is checked.
        settings.require(ctx.options, connection_strategy="lazy", rawtcp=False, websocket=False)

    def configure(self, updated: set[str]) -> None:
        super().configure(updated)
        app = self.app()
        app.enforces_targets = True
        if updated & {"mode", "upstream"}:
            try:
                check_modes(ctx.options.mode, app.settings)
            except UsageError as error:
                raise exceptions.OptionsError(f"mode: {error}") from error

    def running(self) -> None:
        app, proxy = self.app(), ctx.master.addons.get("proxyserver")
        for _, port, *_ in proxy.listen_addrs() if proxy is not None else ():
            app.listeners.add(port, for_readers=True)

    def client_connected(self, client: connection.Client) -> None:
        self.flow_handler().on_client_connected(client, ctx.master.addons.get("proxyserver"))

    def client_disconnected(self, client: connection.Client) -> None:
        self.flow_handler().release_connection(client.id)
        self.flow_handler().on_client_disconnected(client.id)

    def server_connect(self, data: ServerConnectionHookData) -> None:
        # The check is made in this addon, because every script that determines targets contains this addon.
        passthrough.enforce(data, self.flow_handler().connect_approvals)

    def server_connected(self, data: ServerConnectionHookData) -> None:
        self.flow_handler().backpressure.on_server_connected(data.client, data.server)

    def next_layer(self, chosen: layer.NextLayer) -> None:
        handler = self.flow_handler()
        tunnel = handler.connect_approvals.tunnels.get(chosen.context.client.id)
        if tunnel is not None and not is_intercepted(tunnel[0], self.app()):
            chosen.layer = TCPLayer(chosen.context, ignore=True)
            return
        if chosen.data_client().startswith(HANDSHAKE_RECORD):
            timeout = self.app().settings.head_timeout
            handler.handshakes.start(chosen.context.client.id, timeout, handler.backpressure.abort)
        if chosen.layer is None and (default := ctx.master.addons.get("nextlayer")):
            default.next_layer(chosen)
        options = self.app().settings
        install(chosen, handler, handler.backpressure, head_max=options.header_max, head_timeout=options.head_timeout)

    def tls_established_client(self, data: TlsData) -> None:
        self.flow_handler().handshakes.cancel(data.context.client.id)

    async def http_connect(self, flow: http.HTTPFlow) -> None:
        handler = self.flow_handler()
        await handler.handle(flow, handler.on_connect(flow))

    async def requestheaders(self, flow: http.HTTPFlow) -> None:
        handler = self.flow_handler()
        await handler.handle(flow, handler.on_request_headers(flow))


addons = [Entrance()]
