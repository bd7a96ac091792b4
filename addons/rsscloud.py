"""rssCloud: others register here for feeds; and we register with the clouds of feeds that are read here."""

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.http.message import Response
from feedproxy.notify.duplex_protocol import DuplexProtocol
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.rsscloud.aggregator import RssCloudAggregator
from feedproxy.notify.rsscloud.cloud import RssCloudServer
from feedproxy.notify.rsscloud.messages import NAME
from feedproxy.notify.xmlrpc import CONTENT_MAX
from feedproxy.request.endpoints import Call

SHARED = ("subscriptions_max", "source_limit", "push_interval")


class RssClouds:
    """The cloud and the workstation."""

    def __init__(self) -> None:
        self._made: DuplexProtocol[RssCloudServer, RssCloudAggregator] | None = None

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "rsscloud_hub", "push_subscribe", "announce", *SHARED)

    def configure(self, updated: set[str]) -> None:
        here = get_app(ctx.master)
        here.adopt(ctx.options)
        here.notification_plugins["rsscloud"] = self._join
        here.endpoints.add("RPC2", here.rpc, methods=("POST",), content_max=CONTENT_MAX)
        here.endpoints.add("soap", self._soap, methods=("POST",))
        here.endpoints.add("pleaseNotify", self._please_notify, methods=("POST",))
        here.endpoints.add("ping", self._ping, methods=("POST",))
        here.endpoints.add("push/rsscloud/", self._push, methods=("GET", "POST"))

    async def done(self) -> None:
        await get_app(ctx.master).close()

    def _join(self, notices: NotificationService) -> None:
        hub = RssCloudServer(notices)
        self._made = DuplexProtocol(NAME, hub, RssCloudAggregator(notices))
        notices.add(self._made)
        for name in ("rssCloud.pleaseNotify", "xmlStorageSystem.rssPleaseNotify"):
            notices.xmlrpc.add(name, hub.by_rpc)
        notices.xmlrpc.add("rssCloud.ping", hub.ping)
        notices.xmlrpc.add("rssCloud.hello", hub.hello)

    def _both(self) -> DuplexProtocol[RssCloudServer, RssCloudAggregator]:
        _ = get_app(ctx.master).notices
        assert self._made is not None
        return self._made

    async def _soap(self, call: Call) -> Response:
        return await self._both().publisher.by_soap(call)

    async def _please_notify(self, call: Call) -> Response:
        return await self._both().publisher.by_form(call)

    async def _ping(self, call: Call) -> Response:
        return await self._both().publisher.ping_by_form(call)

    async def _push(self, call: Call) -> Response:
        return await self._both().subscriber.endpoint(call)


addons = [RssClouds()]
