"""Pings: messages that a site or feed has changed, received and sent."""

import logging

from mitmproxy import ctx, exceptions
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.errors import UsageError
from feedproxy.http.message import Response
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.pings.receiver import PingReceiver
from feedproxy.notify.pings.sinks import PingSinks, read_ping_sink
from feedproxy.notify.rpc.xmlrpc import CONTENT_MAX
from feedproxy.request.endpoints import Call

logger = logging.getLogger("feedproxy.pings")


class Pings:
    """Addon with the ping endpoints. It also sends pings for the upstream's feeds to `ping_sinks`."""

    def __init__(self) -> None:
        self._receiver: PingReceiver | None = None

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "ping_unknown", "ping_interval", "source_limit", "ping_sinks")

    def configure(self, updated: set[str]) -> None:
        app = get_app(ctx.master)
        app.adopt(ctx.options)
        app.notification_plugins["pings"] = self._add_protocol
        app.endpoints.add("RPC2", app.rpc, methods=("POST",), content_max=CONTENT_MAX)
        app.endpoints.add("pingSiteForm", self._page, methods=("GET",))
        if "ping_sinks" in updated:
            try:
                for sink in app.settings.ping_sinks:
                    read_ping_sink(sink)
            except UsageError as error:
                raise exceptions.OptionsError(f"ping_sinks: {error}") from error

    def running(self) -> None:
        options = get_app(ctx.master).settings
        if options.ping_sinks and not (options.upstream and options.public_url):
            logger.warning("ping_sinks has no effect: it needs upstream and public_url")

    async def done(self) -> None:
        await get_app(ctx.master).close()

    def _add_protocol(self, notifications: NotificationService) -> None:
        self._receiver = receiver = PingReceiver(notifications)
        notifications.xmlrpc.add("weblogUpdates.ping", receiver.simple)
        notifications.xmlrpc.add("weblogUpdates.extendedPing", receiver.extended)
        notifications.add(PingSinks(notifications.settings, notifications.proxy.store.get))

    async def _page(self, call: Call) -> Response:
        _ = get_app(ctx.master).notifications
        assert self._receiver is not None
        return await self._receiver.page(call)


addons = [Pings()]
