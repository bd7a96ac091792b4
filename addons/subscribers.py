"""Subscriber counts, which are reported to origins in the User-Agent."""

from mitmproxy import ctx, http
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.request.entrance import Entrance
from feedproxy.server.mitm.flow_handler import get_flow_handler
from feedproxy.server.mitm.request_routing import client_context, incoming_request


class Subscribers:
    """Addon that counts each request if it is loaded alone. With the other addons, the service counts."""

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "subscriber_window", "claim_max", "claim_jump", "contact_url")

    def configure(self, _: set[str]) -> None:
        get_app(ctx.master).adopt(ctx.options)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        app = get_app(ctx.master)
        if (
            flow.response
            or app.enforces_targets
            or flow.request.method != "GET"
            or get_flow_handler(app).state_of(flow)
        ):
            return
        audience = app.service.audience
        client = client_context(incoming_request(flow), app.settings, Entrance.PROXY)
        audience.record_read(flow.request.url, client, flow.request.headers.get("user-agent", ""))
        flow.request.headers["User-Agent"] = audience.upstream_user_agent(flow.request.url)


addons = [Subscribers()]
