"""Limits of requests to origins: addresses, timeouts, sizes and intervals."""

import logging

from mitmproxy import ctx, http
from mitmproxy.addonmanager import Loader
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from feedproxy import settings
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.server.addon import Addon
from feedproxy.server.mitm import passthrough, server_addresses

logger = logging.getLogger(__name__)


class Origin(Addon):
    """Addon with the options that limit requests to origins. It checks the addresses to which mitmproxy connects."""

    options = (
        "allow_private",
        "allow_networks",
        "allow_ports",
        "upstream_proxy",
        "connect_timeout",
        "fetch_timeout",
        "answer_timeout",
        "buffer_max",
        "header_max",
        "redirects_max",
        "feed_min_interval",
        "site_interval",
        "polling",
        "stale_while_refreshing",
        "reload_interval",
        "on_bad_update",
        "stale_max",
    )

    def load(self, loader: Loader) -> None:
        super().load(loader)
        server_addresses.install()
        settings.require(ctx.options, connection_strategy="lazy")

    async def server_connect(self, data: ServerConnectionHookData) -> None:
        app = self.app()
        # Without the addon `entrance`, mitmproxy determines the targets, and only addresses are checked.
        if not app.enforces_targets:
            await passthrough.enforce_address_policy(data, app.parts.policy, app.parent_of)

    async def responseheaders(self, flow: http.HTTPFlow) -> None:
        try:
            await self.flow_handler().on_response_headers(flow)
        except Exception:
            logger.exception(
                "origin: response of %s not streamed and its connection closed, by a defect of feedproxy; please report"
                " the traceback",
                redact_target(flow.request.url),
            )
            flow.kill()


addons = [Origin()]
