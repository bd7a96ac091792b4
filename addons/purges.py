"""Purges of caches in front (a CDN, Varnish) when a feed of the upstream changes."""

import logging

from mitmproxy import ctx, exceptions
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.errors import UsageError
from feedproxy.notify import downstream_purge
from feedproxy.notify.notification_service import NotificationService
from feedproxy.refresh.events import CopiesInvalidated

logger = logging.getLogger("feedproxy.purges")


class Purges:
    """Addon that sends purges through the delivery queue, which retries them if a cache does not answer."""

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "purge_sinks", "purge_fields")

    def configure(self, updated: set[str]) -> None:
        app = get_app(ctx.master)
        app.adopt(ctx.options)
        app.notification_plugins["purges"] = self._add_protocol
        if updated & {"purge_sinks", "purge_fields"}:
            try:
                downstream_purge.read_purge_fields(app.settings.purge_fields)
                for sink in app.settings.purge_sinks:
                    downstream_purge.read_purge_sink(sink)
            except UsageError as error:
                raise exceptions.OptionsError(f"purge_sinks: {error}") from error

    def running(self) -> None:
        options = get_app(ctx.master).settings
        if options.purge_sinks and not (options.upstream and options.state_freshness):
            logger.warning("purge_sinks has no effect: it needs upstream and state_freshness")

    async def done(self) -> None:
        await get_app(ctx.master).close()

    def _add_protocol(self, notifications: NotificationService) -> None:
        protocol = downstream_purge.DownstreamPurge(notifications.settings)
        notifications.add(protocol)

        def on_copies_invalidated(event: CopiesInvalidated) -> None:
            requests = [request for target in event.targets for request in protocol.purge_requests(target)]
            if requests:
                notifications.defer(lambda: notifications.enqueue(*requests))

        notifications.proxy.events.copies_invalidated.subscribe(on_copies_invalidated)


addons = [Purges()]
