""" "This feed changed": pings that come in, and pings that go out."""

import logging

from mitmproxy import ctx, exceptions
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.errors import UsageError
from feedproxy.http.message import Response
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.pings.receiver import PingReceiver
from feedproxy.notify.pings.sinks import PingSinks, read_sink
from feedproxy.notify.xmlrpc import CONTENT_MAX
from feedproxy.request.endpoints import Call

logger = logging.getLogger("feedproxy.pings")


class Pings:
    """Whoever says that a site changed makes us look, once; and sinks are told of the publisher's own feeds."""

    def __init__(self) -> None:
        self._ear: PingReceiver | None = None

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "ping_unknown", "ping_interval", "source_limit", "ping_sinks")

    def configure(self, updated: set[str]) -> None:
        here = get_app(ctx.master)
        here.adopt(ctx.options)
        here.notification_plugins["pings"] = self._join
        here.endpoints.add("RPC2", here.rpc, methods=("POST",), content_max=CONTENT_MAX)
        here.endpoints.add("pingSiteForm", self._page, methods=("GET",))
        if "ping_sinks" in updated:
            try:
                for each in here.settings.ping_sinks:
                    read_sink(each)
            except UsageError as error:
                raise exceptions.OptionsError(f"ping_sinks: {error}") from error

    def running(self) -> None:
        decided = get_app(ctx.master).settings
        if decided.ping_sinks and not (decided.upstream and decided.public_url):
            logger.warning("ping_sinks hear of nothing: they are told of a publisher's feeds (upstream, public_url)")

    async def done(self) -> None:
        await get_app(ctx.master).close()

    def _join(self, notices: NotificationService) -> None:
        self._ear = ear = PingReceiver(notices)
        notices.xmlrpc.add("weblogUpdates.ping", ear.simple)
        notices.xmlrpc.add("weblogUpdates.extendedPing", ear.extended)
        notices.add(PingSinks(notices.settings, notices.service.store.get))

    async def _page(self, call: Call) -> Response:
        _ = get_app(ctx.master).notices
        assert self._ear is not None
        return await self._ear.page(call)


addons = [Pings()]
