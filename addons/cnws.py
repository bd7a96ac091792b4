"""Change notification by web service (CNWS): a publisher for clients, and a subscriber at `cnws_subscribe`."""

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
    """Addon with the endpoints of CNWS."""

    def __init__(self) -> None:
        self._protocol: DuplexProtocol[Publisher, Subscriber] | None = None

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "cnws_publisher", "cnws_subscribe", *SHARED)

    def configure(self, updated: set[str]) -> None:
        app = get_app(ctx.master)
        app.adopt(ctx.options)
        app.notification_plugins["cnws"] = self._add_protocol
        app.endpoints.add("cnws", self._subscribe, methods=("POST",))
        app.endpoints.add("push/cnws/", self._push, methods=("POST",))
        if "cnws_subscribe" in updated and app.settings.cnws_subscribe:
            try:
                uri.normalise(app.settings.cnws_subscribe)
            except BadTarget as error:
                raise exceptions.OptionsError(f"cnws_subscribe: expected a URL: {error}") from error

    def running(self) -> None:
        app = get_app(ctx.master)
        if not app.settings.public_url and app.settings.cnws_subscribe:
            logger.warning("cnws_subscribe has no effect: publishers cannot call this proxy (public_url is not set)")

    async def done(self) -> None:
        await get_app(ctx.master).close()

    def _add_protocol(self, notifications: NotificationService) -> None:
        self._protocol = DuplexProtocol(NAME, Publisher(notifications), Subscriber(notifications))
        notifications.add(self._protocol)

    def _opened(self) -> DuplexProtocol[Publisher, Subscriber]:
        _ = get_app(ctx.master).notifications
        assert self._protocol is not None
        return self._protocol

    async def _subscribe(self, call: Call) -> Response:
        return await self._opened().publisher.endpoint(call)

    async def _push(self, call: Call) -> Response:
        return await self._opened().subscriber.endpoint(call)


addons = [ChangeNotification()]
