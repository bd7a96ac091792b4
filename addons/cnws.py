"""Change notification by web service (CNWS): a publisher, and a subscriber at the services in `cnws_subscribe`."""

import logging

from mitmproxy.addonmanager import Loader

from feedproxy.http import uri
from feedproxy.notify.cnws.cnws_messages import NAME
from feedproxy.notify.cnws.publisher import Publisher
from feedproxy.notify.cnws.subscriber import Subscriber
from feedproxy.notify.notification_service import NotificationService
from feedproxy.server.addon import NotificationAddon

logger = logging.getLogger("feedproxy.cnws")


class ChangeNotification(NotificationAddon[tuple[Publisher, Subscriber]]):
    """Addon with the endpoints of CNWS."""

    options = ("cnws_publisher", "cnws_subscribe", "subscriptions_max", "source_limit", "push_interval")
    checks = (("cnws_subscribe", lambda settings: settings.cnws_subscribe and uri.normalise(settings.cnws_subscribe)),)

    def load(self, loader: Loader) -> None:
        super().load(loader)
        self.add_endpoint("cnws", lambda part: part[0].endpoint, methods=("POST",))
        self.add_endpoint("push/cnws/", lambda part: part[1].endpoint, methods=("POST",))

    def running(self) -> None:
        app = self.app()
        if not app.settings.public_url and app.settings.cnws_subscribe:
            logger.warning("cnws_subscribe has no effect: publishers cannot call this proxy (public_url is not set)")

    def make_part(self, notifications: NotificationService) -> tuple[Publisher, Subscriber]:
        publisher, subscriber = Publisher(notifications), Subscriber(notifications)
        notifications.senders[NAME], notifications.subscribers[NAME] = publisher, subscriber
        return publisher, subscriber


addons = [ChangeNotification()]
