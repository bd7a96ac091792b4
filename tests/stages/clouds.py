"""rssCloud and CNWS on a stand without a network. Their endpoints are called as other hosts call them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Fields, Request, Response
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.rsscloud.aggregator import RssCloudAggregator
from feedproxy.notify.rsscloud.cloud import RssCloudServer
from feedproxy.notify.rsscloud.rsscloud_messages import NAME
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.request.endpoint_registry import Call
from tests.stages.notify import Stand

WORKSTATION = "192.0.2.7"
PUBLIC = "https://proxy.example/"


@dataclass
class Clouds:
    """Both roles of rssCloud and the stand."""

    stand: Stand
    hub: RssCloudServer
    aggregator: RssCloudAggregator

    async def push(self, path: str, content: bytes = b"", *, query: str = "") -> Response:
        """Call one of the proxy's addresses from outside."""
        return await self.aggregator.endpoint(call(path, content, query=query, method="GET" if query else "POST"))


def call(
    path: str, content: bytes = b"", *, query: str = "", method: str = "POST", address: str = WORKSTATION, **fields: str
) -> Call:
    """Return a request for an endpoint, as the router passes it on."""
    named = Fields((name.replace("_", "-"), value) for name, value in fields.items())
    visit = ClientContext(Entrance.GATEWAY, "http://proxy.example", address)
    return Call(Request(method, f"/-/{path}", named), visit, path, query, content)


async def clouds_on(stand_at: Callable[..., Any], **options: Any) -> Clouds:
    """Return a stand with rssCloud."""
    made: list[tuple[RssCloudServer, RssCloudAggregator]] = []

    def join(notifications: NotificationService) -> None:
        hub = RssCloudServer(notifications)
        aggregator = RssCloudAggregator(notifications)
        notifications.senders[NAME], notifications.subscribers[NAME] = hub, aggregator
        made.append((hub, aggregator))
        for name in ("rssCloud.pleaseNotify", "xmlStorageSystem.rssPleaseNotify"):
            notifications.xmlrpc.add(name, hub.by_rpc)
        notifications.xmlrpc.add("rssCloud.ping", hub.ping)
        notifications.xmlrpc.add("rssCloud.hello", hub.hello)

    stand = await stand_at(join=join, **{"ping_interval": 0, "source_limit": 0, **options})
    return Clouds(stand, *made[0])


def answering(true: bytes = b"") -> Callable[[str], Response | FeedproxyError]:
    """Return a function that answers all calls: it echoes challenges and answers other calls with `true`."""

    def answer(url: str) -> Response:
        given = parse_qs(urlsplit(url).query).get("challenge")
        return Response(200, Fields(), given[0].encode() if given else true)

    return answer
