"""Subscriber counts. feedproxy reports them to origins in the User-Agent."""

from mitmproxy import http

from feedproxy.request.context import Entrance
from feedproxy.server.addon import Addon
from feedproxy.server.mitm.request_routing import client_context, incoming_request


class Subscribers(Addon):
    """Addon that counts the readers of requests that feedproxy's service does not handle (all, if loaded alone)."""

    options = ("subscriber_window", "claim_max", "claim_jump", "contact_url")

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        app = self.app()
        if flow.response or app.enforces_targets or flow.request.method != "GET" or self.flow_handler().state_of(flow):
            return
        audience = app.service.audience
        client = client_context(incoming_request(flow), app.settings, Entrance.PROXY)
        audience.record_read(flow.request.url, client, flow.request.headers.get("user-agent", ""))
        flow.request.headers["User-Agent"] = audience.upstream_user_agent(flow.request.url)


addons = [Subscribers()]
