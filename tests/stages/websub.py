"""WebSub without a network: the proxy's hub with callbacks that respond, and its subscriber with a hub that does."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Fields, Request, Response
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.subscription_table import Role, Subscription
from feedproxy.notify.websub.hub import Hub
from feedproxy.notify.websub.subscriber import Subscriber
from feedproxy.notify.websub.subscriber_callback import SubscriberCallback
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.request.endpoint_registry import Call
from tests.stages.notify import TARGET, Stand
from tests.stages.origin import a_feed

PUBLIC = "https://feeds.example/"
HUB = "https://hub.example/"
ME = "http://me.example/callback"
FORM = "application/x-www-form-urlencoded"
LINKS = f'<{HUB}>; rel="hub", <{TARGET}>; rel="self"'


@dataclass
class WebSubStand:
    """A stand with WebSub and all other parties: callbacks that echo challenges, and a hub that accepts every
    request."""

    stand: Stand
    own_hub: Hub
    subscriber: Subscriber
    subscriber_callback: SubscriberCallback
    callback: Callable[[str], Response | FeedproxyError] = lambda _: Response(200)
    """Returns a callback's response to a call without a challenge."""
    hub: Callable[[], Response | FeedproxyError] = lambda: Response(202)
    confirms: bool = True
    """Whether callbacks repeat the challenge."""
    asked: list[dict[str, str]] = field(default_factory=list)
    """Requests of the proxy's subscriber to hubs."""

    def __post_init__(self) -> None:
        self.stand.others.answer = self._answer

    def _answer(self, url: str) -> Response | FeedproxyError:
        method, _, body = next(each for each in reversed(self.calls) if each[1] == url)
        given = dict(parse_qsl(urlsplit(url).query))
        if method == "GET" and "hub.challenge" in given and self.confirms:
            return Response(200, body=given["hub.challenge"].encode())
        if method == "POST" and url.startswith(HUB):
            self.asked.append(dict(parse_qsl(body.decode())))
            return self.hub()
        return self.callback(url)

    # -- the proxy's hub

    async def post(self, *, address: str = "192.0.2.1", media_type: str = FORM, **hub: Any) -> Response:
        """Send a request to the proxy's hub. `hub` are its parameters without their prefix."""
        content = hub.pop("content", None)
        pairs = [(f"hub.{name}", each) for name, value in hub.items() for each in _listed(value)]
        visit = ClientContext(Entrance.GATEWAY, "http://proxy.example", address)
        request = Request("POST", "/-/hub", Fields([("Content-Type", media_type)]))
        body = urlencode(pairs).encode() if content is None else content
        answer = await self.own_hub.answer(Call(request, visit, "hub", "", body))
        await self.stand.settled()
        return answer

    async def subscribe(self, callback: str = ME, topic: str = TARGET, **more: Any) -> Response:
        return await self.post(mode="subscribe", callback=callback, topic=topic, **more)

    async def change(self, *titles: str, **more: Any) -> None:
        """Publish these entries at the origin and fetch the feed."""
        self.stand.origin.publish("/feed.xml", a_feed(*titles, **more))
        await self.stand.read()

    @property
    def calls(self) -> list[tuple[str, str, bytes]]:
        return self.stand.others.calls

    @property
    def verifications(self) -> list[dict[str, list[str]]]:
        """Return the parameters of every GET."""
        return [parse_qs(urlsplit(url).query) for method, url, _ in self.calls if method == "GET"]

    @property
    def deliveries(self) -> list[tuple[str, bytes, Fields]]:
        """Return callback, body and fields of every POST that did not go to a hub."""
        both = zip(self.calls, self.stand.others.heads, strict=True)
        return [
            (url, body, fields) for (method, url, body), fields in both if method == "POST" and not url.startswith(HUB)
        ]

    async def held(self, role: Role = Role.SUBSCRIBER) -> list[Subscription]:
        return await self.stand.notifications.subscriptions.all(role=role, protocol="websub")

    # -- the proxy's subscriber

    async def read_by_somebody(self) -> None:
        """Send a reader's poll of the feed."""
        visit = ClientContext(Entrance.GATEWAY, "http://proxy.example", "192.0.2.9")
        await self.stand.app.service.answer(Request("GET", TARGET), visit)
        await self.stand.pass_time(5)

    async def at_callback(
        self, method: str = "GET", *, callback: str = "", content: bytes = b"", query: str = "", **fields: str
    ) -> Response:
        """Send a request to the callback that the hub got last."""
        path = urlsplit(callback or self.asked[-1]["hub.callback"]).path.removeprefix("/-/")
        named = Fields((name.replace("_", "-"), value) for name, value in fields.items())
        visit = ClientContext(Entrance.GATEWAY, "http://proxy.example", "192.0.2.2")
        call = Call(Request(method, f"/-/{path}", named), visit, path, query, content)
        answer = await self.subscriber_callback.answer(call)
        await self.stand.settled()
        return answer

    async def verify(self, **changed: Any) -> Response:
        """Send the hub's verification of the subscription."""
        asked = self.asked[-1]
        given = {"mode": asked["hub.mode"], "topic": asked["hub.topic"], "challenge": "abc", "lease_seconds": 86_400}
        pairs = {f"hub.{name}": value for name, value in (given | changed).items() if value is not None}
        return await self.at_callback(query=urlencode(pairs))


async def websub_at(stand_at: Callable[..., Any], **options: Any) -> WebSubStand:
    """Return a stand with WebSub."""
    made: list[tuple[Hub, Subscriber, SubscriberCallback]] = []

    def join(notifications: NotificationService) -> None:
        hub, subscriber = Hub(notifications), Subscriber(notifications, lambda: b"a key")
        notifications.senders["websub"], notifications.subscribers["websub"] = hub, subscriber
        made.append((hub, subscriber, SubscriberCallback(notifications, subscriber, lambda: b"a key")))

    stand: Stand = await stand_at(join=join, **{"public_url": PUBLIC, "websub_hub": "known", **options})
    return WebSubStand(stand, *made[0])


def links_of(fields: Fields) -> dict[str, str]:
    """Return the addresses of links by relation."""
    return {rel: href for href, rel in re.findall(r'<([^>]*)>; rel="(\w+)"', fields.get("link") or "")}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
