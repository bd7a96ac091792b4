"""rssCloud: a cloud for the feeds of this proxy, and an aggregator at the clouds of feeds that are read."""

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.http.message import Response
from feedproxy.notify.duplex_protocol import DuplexProtocol
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.rpc.xmlrpc import CONTENT_MAX
from feedproxy.notify.rsscloud.aggregator import RssCloudAggregator
from feedproxy.notify.rsscloud.cloud import RssCloudServer
from feedproxy.notify.rsscloud.messages import NAME
from feedproxy.request.endpoints import Call

SHARED = ("subscriptions_max", "source_limit", "push_interval")


class RssClouds:
    """Addon with the endpoints of the cloud, and with those that other clouds notify."""

    def __init__(self) -> None:
        self._protocol: DuplexProtocol[RssCloudServer, RssCloudAggregator] | None = None

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "rsscloud_hub", "push_subscribe", "announce", *SHARED)

    def configure(self, updated: set[str]) -> None:
        app = get_app(ctx.master)
        app.adopt(ctx.options)
        app.notification_plugins["rsscloud"] = self._add_protocol
        app.endpoints.add("RPC2", app.rpc, methods=("POST",), content_max=CONTENT_MAX)
        app.endpoints.add("soap", self._soap, methods=("POST",))
        app.endpoints.add("pleaseNotify", self._please_notify, methods=("POST",))
        app.endpoints.add("ping", self._ping, methods=("POST",))
        app.endpoints.add("push/rsscloud/", self._push, methods=("GET", "POST"))

    async def done(self) -> None:
        await get_app(ctx.master).close()

    def _add_protocol(self, notifications: NotificationService) -> None:
        hub = RssCloudServer(notifications)
        self._protocol = DuplexProtocol(NAME, hub, RssCloudAggregator(notifications))
        notifications.add(self._protocol)
        for name in ("rssCloud.pleaseNotify", "xmlStorageSystem.rssPleaseNotify"):
            notifications.xmlrpc.add(name, hub.by_rpc)
        notifications.xmlrpc.add("rssCloud.ping", hub.ping)
        notifications.xmlrpc.add("rssCloud.hello", hub.hello)

    def _opened(self) -> DuplexProtocol[RssCloudServer, RssCloudAggregator]:
        _ = get_app(ctx.master).notifications
        assert self._protocol is not None
        return self._protocol

    async def _soap(self, call: Call) -> Response:
        return await self._opened().publisher.by_soap(call)

    async def _please_notify(self, call: Call) -> Response:
        return await self._opened().publisher.by_form(call)

    async def _ping(self, call: Call) -> Response:
        return await self._opened().publisher.ping_by_form(call)

    async def _push(self, call: Call) -> Response:
        return await self._opened().subscriber.endpoint(call)


addons = [RssClouds()]
