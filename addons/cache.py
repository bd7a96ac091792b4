"""Store, reuse, validate: one shared copy in front of many readers (RFC 9111)."""

import logging

from mitmproxy import connection, ctx, http
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.errors import FeedproxyError
from feedproxy.server.mitm.flow_handler import CACHED_METHODS, get_flow_handler

logger = logging.getLogger(__name__)


class Cache:
    """Answers GET and HEAD from the store, or by way of the one path to the origin."""

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
            "targeted_fields",
            "state_freshness",
            "private",
            "deltas",
            "deltas_not_for",
            "compression_dictionaries",
            "cors",
            "keep_unchanged",
            "drain_timeout",
            # Whoever has the cache alone fetches, too.
            "allow_private",
            "allow_networks",
            "allow_ports",
        )
        ctx.options.update_defer(connection_strategy="lazy")

    def configure(self, _: set[str]) -> None:
        get_app(ctx.master).adopt(ctx.options)

    async def request(self, flow: http.HTTPFlow) -> None:
        at = get_flow_handler(get_app(ctx.master))
        alone = not get_app(ctx.master).whole
        if flow.response is not None or (alone and flow.request.method not in CACHED_METHODS):
            return
        try:
            await at.on_request(flow)
        except FeedproxyError as error:
            at.refuse(flow, error)
        except Exception:
            # An exception here would let the request go upstream as it is: mitmproxy's hooks fail open.
            logger.exception("a request could not be answered")
            at.refuse(flow, FeedproxyError("feedproxy failed; its log says more"))

    def client_disconnected(self, client: connection.Client) -> None:
        get_flow_handler(get_app(ctx.master)).on_client_disconnected(client.id)

    async def done(self) -> None:
        await get_app(ctx.master).close()


addons = [Cache()]
