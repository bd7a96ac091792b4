"""Change lists: the feeds that changed, as changes.xml and archives."""

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.http.message import Response
from feedproxy.notify.changes.change_lists import ChangeLists
from feedproxy.notify.notification_service import NotificationService
from feedproxy.request.endpoints import Call


class Changes:
    """Addon with the endpoints changes.xml, shortChanges.xml and the archives."""

    def __init__(self) -> None:
        self._lists: ChangeLists | None = None

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "changes_when", "subscriptions_max")

    def configure(self, _: set[str]) -> None:
        app = get_app(ctx.master)
        app.adopt(ctx.options)
        app.notification_plugins["changes"] = self._make_lists
        app.endpoints.add("changes.xml", self._long)
        app.endpoints.add("shortChanges.xml", self._short)
        app.endpoints.add("changes/", self._archive)

    def running(self) -> None:
        _ = get_app(ctx.master).notifications  # deliveries that an earlier run left are made now

    async def done(self) -> None:
        await get_app(ctx.master).close()

    def _make_lists(self, notifications: NotificationService) -> None:
        self._lists = ChangeLists(notifications)

    def _opened(self) -> ChangeLists:
        _ = get_app(ctx.master).notifications
        assert self._lists is not None
        return self._lists

    async def _long(self, call: Call) -> Response:
        return await self._opened().long(call)

    async def _short(self, call: Call) -> Response:
        return await self._opened().short(call)

    async def _archive(self, call: Call) -> Response:
        return await self._opened().archive(call)


addons = [Changes()]
