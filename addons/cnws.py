"""Change notification by web service (CNWS): a publisher, and a subscriber at the services in `cnws_subscribe`."""

import logging

from mitmproxy import exceptions

from feedproxy.errors import BadTarget
from feedproxy.http import uri
from feedproxy.http.message import Response
from feedproxy.notify.cnws.cnws_messages import NAME
from feedproxy.notify.cnws.publisher import Publisher
from feedproxy.notify.cnws.subscriber import Subscriber
from feedproxy.notify.notification_service import NotificationService
from feedproxy.request.endpoint_registry import Call
from feedproxy.server.addon import NotificationAddon

SHARED = ("subscriptions_max", "source_limit", "push_interval")

logger = logging.getLogger("feedproxy.cnws")


class ChangeNotification(NotificationAddon[tuple[Publisher, Subscriber]]):
    """Addon with the endpoints of CNWS."""

    options = ("cnws_publisher", "cnws_subscribe", *SHARED)

    def configure(self, updated: set[str]) -> None:
        super().configure(updated)
        app = self.app()
        app.endpoints.add("cnws", self._subscribe, methods=("POST",))
        app.endpoints.add("push/cnws/", self._push, methods=("POST",))
        if "cnws_subscribe" in updated and app.settings.cnws_subscribe:
            try:
                uri.normalise(app.settings.cnws_subscribe)
            except BadTarget as error:
                raise exceptions.OptionsError(f"cnws_subscribe: expected a URL: {error}") from error

    def running(self) -> None:
        app = self.app()
        if not app.settings.public_url and app.settings.cnws_subscribe:
            logger.warning("cnws_subscribe has no effect: publishers cannot call this proxy (public_url is not set)")

    def make_part(self, notifications: NotificationService) -> tuple[Publisher, Subscriber]:
        publisher, subscriber = Publisher(notifications), Subscriber(notifications)
        notifications.senders[NAME], notifications.subscribers[NAME] = publisher, subscriber
        return publisher, subscriber

    async def _subscribe(self, call: Call) -> Response:
        publisher, _ = self.part()
        return await publisher.endpoint(call)

    async def _push(self, call: Call) -> Response:
        _, subscriber = self.part()
        return await subscriber.endpoint(call)


addons = [ChangeNotification()]
