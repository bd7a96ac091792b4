"""WebSub: a hub for the feeds of this proxy, and a subscriber at the hubs of origins."""

import functools

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.http.message import Response
from feedproxy.notify.notification_service import NotificationService
from feedproxy.notify.websub.websub import WebSub
from feedproxy.refresh.ingest.link_injection import HUB
from feedproxy.request.endpoints import Call


class Hub:
    """Addon with the endpoints of the hub, and with those to which other hubs distribute content."""

    def __init__(self) -> None:
        self._websub: WebSub | None = None

    def load(self, loader: Loader) -> None:
        settings.declare(
            loader,
            "announce",
            "push_interval",
            "push_subscribe",
            "source_limit",
            "subscriptions_max",
            "websub_hub",
            "websub_lease",
            "websub_signature",
        )

    def configure(self, _: set[str]) -> None:
        app = get_app(ctx.master)
        app.adopt(ctx.options)
        app.notification_plugins["websub"] = self._add_protocol
        app.endpoints.add(HUB, self._hub, methods=("POST",))
        app.endpoints.add("push/websub/", self._push, methods=("GET", "POST"), content_max=self._push_max)

    async def done(self) -> None:
        await get_app(ctx.master).close()

    def _add_protocol(self, notifications: NotificationService) -> None:
        app = get_app(ctx.master)
        self._websub = WebSub(notifications, functools.cache(lambda: app.stored_secret("push-key")))
        notifications.add(self._websub)

    def _opened(self) -> WebSub:
        _ = get_app(ctx.master).notifications
        assert self._websub is not None
        return self._websub

    def _push_max(self, path: str) -> int:
        return self._opened().distribution_receiver.content_max(path)

    async def _hub(self, call: Call) -> Response:
        return await self._opened().hub.answer(call)

    async def _push(self, call: Call) -> Response:
        return await self._opened().distribution_receiver.answer(call)


addons = [Hub()]
