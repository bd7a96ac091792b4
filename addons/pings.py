"""Pings: messages that a site or feed has changed, received and sent."""

import logging

from mitmproxy.addonmanager import Loader

from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.pings.receiver import PingReceiver
from feedproxy.notify.pings.sinks import PingSinks, read_ping_sink
from feedproxy.notify.rpc.xmlrpc import CONTENT_MAX
from feedproxy.server.addon import NotificationAddon

logger = logging.getLogger("feedproxy.pings")


class Pings(NotificationAddon[PingReceiver]):
    """Addon with the ping endpoints. It also pings `ping_sinks` for the upstream's feeds."""

    options = ("ping_unknown", "ping_interval", "source_limit", "ping_sinks")
    checks = (("ping_sinks", lambda settings: [read_ping_sink(sink) for sink in settings.ping_sinks]),)

    def load(self, loader: Loader) -> None:
        super().load(loader)
        app = self.app()
        app.endpoints.add("RPC2", app.rpc, methods=("POST",), content_max=CONTENT_MAX)
        self.add_endpoint("pingSiteForm", lambda part: part.page, methods=("GET",))

    def running(self) -> None:
        options = self.app().settings
        if options.ping_sinks and not (options.upstream and options.public_url):
            logger.warning("ping_sinks has no effect: it needs upstream and public_url")

    def make_part(self, notifications: NotificationService) -> PingReceiver:
        receiver = PingReceiver(notifications)
        notifications.xmlrpc.add("weblogUpdates.ping", receiver.simple)
        notifications.xmlrpc.add("weblogUpdates.extendedPing", receiver.extended)
        notifications.add_sinks(PingSinks(notifications.settings, notifications.proxy.store.get))
        return receiver


addons = [Pings()]
