"""Change lists: the feeds that changed, as changes.xml and archives."""

from feedproxy.http.message import Response
from feedproxy.notify.changes.change_lists import ChangeLists
from feedproxy.notify.notification_service import NotificationService
from feedproxy.request.endpoint_registry import Call
from feedproxy.server.addon import NotificationAddon


class Changes(NotificationAddon[ChangeLists]):
    """Addon with the endpoints changes.xml, shortChanges.xml and the archives."""

    options = ("changes_when", "subscriptions_max")

    def configure(self, updated: set[str]) -> None:
        super().configure(updated)
        app = self.app()
        app.endpoints.add("changes.xml", self._long)
        app.endpoints.add("shortChanges.xml", self._short)
        app.endpoints.add("changes/", self._archive)

    def running(self) -> None:
        _ = self.app().notifications  # opens the service, which sends the deliveries of an earlier run

    def make_part(self, notifications: NotificationService) -> ChangeLists:
        return ChangeLists(notifications)

    async def _long(self, call: Call) -> Response:
        return await self.part().long(call)

    async def _short(self, call: Call) -> Response:
        return await self.part().short(call)

    async def _archive(self, call: Call) -> Response:
        return await self.part().archive(call)


addons = [Changes()]
