"""The change notification service of 2003: others subscribe here, and we with the publishers that a rule names."""

import logging

from mitmproxy import ctx, exceptions
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.errors import BadTarget
from feedproxy.http import uri
from feedproxy.http.message import Response
from feedproxy.notify.cnws.messages import NAME
from feedproxy.notify.cnws.publisher import Publisher
from feedproxy.notify.cnws.subscriber import Subscriber
from feedproxy.notify.duplex_protocol import DuplexProtocol
from feedproxy.notify.notification_service import NotificationService
from feedproxy.request.endpoints import Call

SHARED = ("subscriptions_max", "source_limit", "push_interval")

logger = logging.getLogger("feedproxy.cnws")


class ChangeNotification:
    """Publisher and subscriber."""

    def __init__(self) -> None:
        self._made: DuplexProtocol[Publisher, Subscriber] | None = None

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "cnws_publisher", "cnws_subscribe", *SHARED)

    def configure(self, updated: set[str]) -> None:
        here = get_app(ctx.master)
        here.adopt(ctx.options)
        here.notification_plugins["cnws"] = self._join
        here.endpoints.add("cnws", self._subscribe, methods=("POST",))
        here.endpoints.add("push/cnws/", self._push, methods=("POST",))
        if "cnws_subscribe" in updated and here.settings.cnws_subscribe:
            try:
                uri.normalise(here.settings.cnws_subscribe)
            except BadTarget as error:
                raise exceptions.OptionsError(f"cnws_subscribe is an address to subscribe at: {error}") from error

    def running(self) -> None:
        here = get_app(ctx.master)
        if not here.settings.public_url and here.settings.cnws_subscribe:
            logger.warning("CNWS: we subscribe with nobody, for nobody could call us (public_url is not set)")

    async def done(self) -> None:
        await get_app(ctx.master).close()

    def _join(self, notices: NotificationService) -> None:
        self._made = DuplexProtocol(NAME, Publisher(notices), Subscriber(notices))
        notices.add(self._made)

    def _both(self) -> DuplexProtocol[Publisher, Subscriber]:
        _ = get_app(ctx.master).notices
        assert self._made is not None
        return self._made

    async def _subscribe(self, call: Call) -> Response:
        return await self._both().publisher.endpoint(call)

    async def _push(self, call: Call) -> Response:
        return await self._both().subscriber.endpoint(call)


addons = [ChangeNotification()]
