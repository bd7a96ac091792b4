"""Purges of the caches in front of feedproxy (a CDN, Varnish) when a feed of the upstream changes."""

import logging

from feedproxy.notify.downstream_purge import DownstreamPurge, read_purge_fields, read_purge_sink
from feedproxy.notify.notification_service import NotificationService
from feedproxy.server.addon import NotificationAddon

logger = logging.getLogger("feedproxy.purges")


class Purges(NotificationAddon[DownstreamPurge]):
    """Addon that sends purges through the delivery queue, which repeats failed purges."""

    options = ("purge_sinks", "purge_fields")
    checks = (
        ("purge_fields", lambda settings: read_purge_fields(settings.purge_fields)),
        ("purge_sinks", lambda settings: [read_purge_sink(sink) for sink in settings.purge_sinks]),
    )

    def running(self) -> None:
        options = self.app().settings
        if options.purge_sinks and not (options.upstream and options.state_freshness):
            logger.warning("purge_sinks has no effect: it needs upstream and state_freshness")

    def make_part(self, notifications: NotificationService) -> DownstreamPurge:
        protocol = DownstreamPurge(notifications.settings)
        notifications.add_sinks(protocol)

        def on_copies_invalidated(targets: tuple[str, ...]) -> None:
            requests = [request for target in targets for request in protocol.purge_requests(target)]
            if requests:
                notifications.defer(lambda: notifications.enqueue(*requests))

        notifications.proxy.events.copies_invalidated.subscribe(on_copies_invalidated)
        return protocol


addons = [Purges()]
