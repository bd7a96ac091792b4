"""rssCloud: a cloud for the feeds of this proxy, and a subscriber at the clouds of other feeds."""

from feedproxy.http.message import Response
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.rpc.xmlrpc import CONTENT_MAX
from feedproxy.notify.rsscloud.aggregator import RssCloudAggregator
from feedproxy.notify.rsscloud.cloud import RssCloudServer
from feedproxy.notify.rsscloud.rsscloud_messages import NAME
from feedproxy.request.endpoint_registry import Call
from feedproxy.server.addon import NotificationAddon

SHARED = ("subscriptions_max", "source_limit", "push_interval")


class RssClouds(NotificationAddon[tuple[RssCloudServer, RssCloudAggregator]]):
    """Addon with the endpoints of the cloud, and of feedproxy's registrations at other clouds."""

    options = ("rsscloud_hub", "push_subscribe", "announce", *SHARED)

    def configure(self, updated: set[str]) -> None:
        super().configure(updated)
        app = self.app()
        app.endpoints.add("RPC2", app.rpc, methods=("POST",), content_max=CONTENT_MAX)
        app.endpoints.add("soap", self._soap, methods=("POST",))
        app.endpoints.add("pleaseNotify", self._please_notify, methods=("POST",))
        app.endpoints.add("ping", self._ping, methods=("POST",))
        app.endpoints.add("push/rsscloud/", self._push, methods=("GET", "POST"))

    def make_part(self, notifications: NotificationService) -> tuple[RssCloudServer, RssCloudAggregator]:
        cloud, aggregator = RssCloudServer(notifications), RssCloudAggregator(notifications)
        notifications.senders[NAME], notifications.subscribers[NAME] = cloud, aggregator
        for name in ("rssCloud.pleaseNotify", "xmlStorageSystem.rssPleaseNotify"):
            notifications.xmlrpc.add(name, cloud.by_rpc)
        notifications.xmlrpc.add("rssCloud.ping", cloud.ping)
        notifications.xmlrpc.add("rssCloud.hello", cloud.hello)
        return cloud, aggregator

    async def _soap(self, call: Call) -> Response:
        cloud, _ = self.part()
        return await cloud.by_soap(call)

    async def _please_notify(self, call: Call) -> Response:
        cloud, _ = self.part()
        return await cloud.by_form(call)

    async def _ping(self, call: Call) -> Response:
        cloud, _ = self.part()
        return await cloud.ping_by_form(call)

    async def _push(self, call: Call) -> Response:
        _, aggregator = self.part()
        return await aggregator.endpoint(call)


addons = [RssClouds()]
