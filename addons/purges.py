"""Caches in front (a CDN, Varnish) hear when a feed of the publisher's is another than theirs."""

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
    """Purges what stands in front, by the queue of notifications: what is away is told later."""

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "purge_sinks", "purge_fields")

    def configure(self, updated: set[str]) -> None:
        here = get_app(ctx.master)
        here.adopt(ctx.options)
        here.notification_plugins["purges"] = self._join
        if updated & {"purge_sinks", "purge_fields"}:
            try:
                downstream_purge.read_purge_fields(here.settings.purge_fields)
                for each in here.settings.purge_sinks:
                    downstream_purge.read_purge_sink(each)
            except UsageError as error:
                raise exceptions.OptionsError(f"purge_sinks: {error}") from error

    def running(self) -> None:
        decided = get_app(ctx.master).settings
        if decided.purge_sinks and not (decided.upstream and decided.state_freshness):
            logger.warning("purge_sinks have nothing to forget: they go with upstream and state_freshness")

    async def done(self) -> None:
        await get_app(ctx.master).close()

    def _join(self, notices: NotificationService) -> None:
        protocol = downstream_purge.DownstreamPurge(notices.settings)
        notices.add(protocol)

        def on_copies_invalidated(event: CopiesInvalidated) -> None:
            orders = [order for target in event.targets for order in protocol.purge_requests(target)]
            if orders:
                notices.defer(lambda: notices.enqueue(*orders))

        notices.service.events.copies_invalidated.subscribe(on_copies_invalidated)


addons = [Purges()]
