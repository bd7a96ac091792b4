"""WebSub: a hub for the feeds of this proxy, and a subscriber at the hubs of origins."""

import functools

from feedproxy.http.message import Response
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.websub.hub_and_subscriber import WebSub
from feedproxy.refresh.ingest.hub_and_cloud_link_policy import HUB
from feedproxy.request.endpoint_registry import Call
from feedproxy.server.addon import NotificationAddon


class Hub(NotificationAddon[WebSub]):
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

    def configure(self, updated: set[str]) -> None:
        super().configure(updated)
        app = self.app()
        app.endpoints.add(HUB, self._hub, methods=("POST",))
        app.endpoints.add("push/websub/", self._push, methods=("GET", "POST"), content_max=self._push_max)

    def make_part(self, notifications: NotificationService) -> WebSub:
        app = self.app()
        websub = WebSub(notifications, functools.cache(lambda: app.stored_secret("push-key")))
        notifications.add(websub)
        return websub

    def _push_max(self, path: str) -> int:
        return self.part().subscriber_callback.content_max(path)

    async def _hub(self, call: Call) -> Response:
        return await self.part().hub.answer(call)

    async def _push(self, call: Call) -> Response:
        return await self.part().subscriber_callback.answer(call)


addons = [Hub()]
