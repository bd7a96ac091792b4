"""The shared cache: stores, reuses and validates responses (RFC 9111)."""

import logging

from mitmproxy import connection, ctx, http
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.errors import FeedproxyError
from feedproxy.server.mitm.flow_handler import CACHED_METHODS, get_flow_handler

logger = logging.getLogger(__name__)


class Cache:
    """Addon that answers GET and HEAD from the store or by a refresh."""

    def load(self, loader: Loader) -> None:
        settings.declare(
            loader,
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
            # Loaded alone, this addon also makes the fetches.
            "allow_private",
            "allow_networks",
            "allow_ports",
        )
        settings.require(ctx.options, connection_strategy="lazy")

    def configure(self, _: set[str]) -> None:
        get_app(ctx.master).adopt(ctx.options)

    async def request(self, flow: http.HTTPFlow) -> None:
        app = get_app(ctx.master)
        handler = get_flow_handler(app)
        has_entrance = app.enforces_targets
        if flow.response is not None or (not has_entrance and flow.request.method not in CACHED_METHODS):
            return
        try:
            await handler.on_request(flow)
        except FeedproxyError as error:
            handler.refuse(flow, error)
        except Exception:
            # mitmproxy's hooks fail open: after an exception, the request would go upstream unchanged.
            logger.exception("a request could not be answered")
            handler.refuse(flow, FeedproxyError("internal error; see feedproxy's log"))

    def client_disconnected(self, client: connection.Client) -> None:
        get_flow_handler(get_app(ctx.master)).on_client_disconnected(client.id)

    async def done(self) -> None:
        await get_app(ctx.master).close()


addons = [Cache()]
