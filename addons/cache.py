"""The shared cache: stores, reuses and validates responses (RFC 9111)."""

from mitmproxy import connection, ctx, http
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.request.cacheable_and_allowed_methods import CACHED_METHODS
from feedproxy.server.addon import Addon


class Cache(Addon):
    """Addon that answers GET and HEAD from the store or by a refresh."""

    options = (
        "store",
        "memory_max",
        "store_max",
        "fleet_local",
        "fleet_prefix",
        "fleet_timeout",
        "fleet_lease",
        "fleet_expiry",
        "fleet_exact_max",
        "feed_hints",
        "hint_max",
        "skip_max",
        "default_lifetime",
        "lifetime_min",
        "lifetime_max",
        "shared_fields",
        "ignore_query",
        "targeted_fields",
        "state_freshness",
        "private",
        "deltas",
        "deltas_not_for",
        "compression_dictionaries",
        "cors",
        "keep_unchanged",
        "drain_timeout",
        # If only this addon is loaded, it also makes the fetches.
        "allow_private",
        "allow_networks",
        "allow_ports",
    )

    def load(self, loader: Loader) -> None:
        super().load(loader)
        settings.require(ctx.options, connection_strategy="lazy")

    async def request(self, flow: http.HTTPFlow) -> None:
        app = self.app()
        handler = self.flow_handler()
        has_entrance = app.enforces_targets
        if flow.response is not None or (not has_entrance and flow.request.method not in CACHED_METHODS):
            return
        await handler.handle(flow, handler.on_request(flow))

    def client_disconnected(self, client: connection.Client) -> None:
        self.flow_handler().on_client_disconnected(client.id)


addons = [Cache()]
