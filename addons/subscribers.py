"""Who reads, and for how many: told to the origin in the User-Agent."""

from mitmproxy import ctx, http
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.request.entrance import Entrance
from feedproxy.server.mitm.flow_handler import get_flow_handler
from feedproxy.server.mitm.request_routing import client_context, incoming_request


class Subscribers:
    """In the product the service counts; alone, every request that passes is counted and speaks for all."""

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "subscriber_window", "claim_max", "claim_jump", "contact_url")

    def configure(self, _: set[str]) -> None:
        get_app(ctx.master).adopt(ctx.options)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        here = get_app(ctx.master)
        if flow.response or here.whole or flow.request.method != "GET" or get_flow_handler(here).state_of(flow):
            return
        audience = here.service.audience
        visit = client_context(incoming_request(flow), here.settings, Entrance.PROXY)
        audience.record_read(flow.request.url, visit, flow.request.headers.get("user-agent", ""))
        flow.request.headers["User-Agent"] = audience.upstream_user_agent(flow.request.url)


addons = [Subscribers()]
