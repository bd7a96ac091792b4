"""rssCloud: a cloud for the feeds of this proxy, and a subscriber at the clouds of other feeds."""

from mitmproxy.addonmanager import Loader

from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.rpc.xmlrpc import CONTENT_MAX
from feedproxy.notify.rsscloud.aggregator import RssCloudAggregator
from feedproxy.notify.rsscloud.cloud import RssCloudServer
from feedproxy.notify.rsscloud.rsscloud_messages import NAME
from feedproxy.request.endpoint_registry import CLOUD_PATH
from feedproxy.server.addon import NotificationAddon


class RssClouds(NotificationAddon[tuple[RssCloudServer, RssCloudAggregator]]):
    """Addon with the endpoints of the cloud, and of feedproxy's registrations at other clouds."""

    options = (
        *("rsscloud_hub", "push_subscribe", "announce"),
        *("subscriptions_max", "source_limit", "push_interval"),
    )

    def load(self, loader: Loader) -> None:
        super().load(loader)
        app = self.app()
        app.endpoints.add("RPC2", app.rpc, methods=("POST",), content_max=CONTENT_MAX)
        self.add_endpoint("soap", lambda part: part[0].by_soap, methods=("POST",))
        self.add_endpoint(CLOUD_PATH, lambda part: part[0].by_form, methods=("POST",))
        self.add_endpoint("ping", lambda part: part[0].ping_by_form, methods=("POST",))
        self.add_endpoint("push/rsscloud/", lambda part: part[1].endpoint, methods=("GET", "POST"))

    def make_part(self, notifications: NotificationService) -> tuple[RssCloudServer, RssCloudAggregator]:
        cloud, aggregator = RssCloudServer(notifications), RssCloudAggregator(notifications)
        notifications.senders[NAME], notifications.subscribers[NAME] = cloud, aggregator
        for name in ("rssCloud.pleaseNotify", "xmlStorageSystem.rssPleaseNotify"):
            notifications.xmlrpc.add(name, cloud.by_rpc)
        notifications.xmlrpc.add("rssCloud.ping", cloud.ping)
        notifications.xmlrpc.add("rssCloud.hello", cloud.hello)
        return cloud, aggregator


addons = [RssClouds()]
