"""WebSub: a hub for the feeds of this proxy, and a subscriber at the hubs of origins."""

import functools

from mitmproxy.addonmanager import Loader

from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.websub import hub
from feedproxy.notify.websub.subscriber import Subscriber
from feedproxy.notify.websub.subscriber_callback import SubscriberCallback
from feedproxy.notify.websub.websub_messages import NAME
from feedproxy.request.endpoint_registry import HUB_PATH
from feedproxy.server.addon import NotificationAddon


class Hub(NotificationAddon[tuple[hub.Hub, SubscriberCallback]]):
    """Addon with the endpoints of the hub, and of feedproxy's subscriptions at other hubs."""

    options = (
        "announce",
        "push_interval",
        "push_subscribe",
        "source_limit",
        "subscriptions_max",
        "websub_hub",
        "websub_lease",
        "websub_signature",
    )

    def load(self, loader: Loader) -> None:
        super().load(loader)
        self.add_endpoint(HUB_PATH, lambda part: part[0].answer, methods=("POST",))
        self.add_endpoint(
            "push/websub/",
            lambda part: part[1].answer,
            methods=("GET", "POST"),
            content_max=self._push_max,
        )

    def make_part(self, notifications: NotificationService) -> tuple[hub.Hub, SubscriberCallback]:
        app = self.app()
        key = functools.cache(lambda: app.parts.stored_secret("push-key"))
        own_hub, subscriber = hub.Hub(notifications), Subscriber(notifications, key)
        notifications.senders[NAME], notifications.subscribers[NAME] = own_hub, subscriber
        return own_hub, SubscriberCallback(notifications, subscriber, key)

    def _push_max(self, path: str) -> int:
        _, callback = self.part()
        return callback.content_max(path)


addons = [Hub()]
