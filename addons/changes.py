"""Change lists: the feeds that changed, as changes.xml and archives."""

from mitmproxy.addonmanager import Loader

from feedproxy.notify.changes.change_lists import ChangeLists
from feedproxy.notify.notification_service import NotificationService
from feedproxy.server.addon import NotificationAddon


class Changes(NotificationAddon[ChangeLists]):
    """Addon with the endpoints changes.xml, shortChanges.xml and the archives."""

    options = ("changes_when", "subscriptions_max")

    def load(self, loader: Loader) -> None:
        super().load(loader)
        self.add_endpoint("changes.xml", lambda part: part.long, is_list=True)
        self.add_endpoint("shortChanges.xml", lambda part: part.short, is_list=True)
        self.add_endpoint("changes/", lambda part: part.archive, is_list=True)

    def running(self) -> None:
        _ = self.app().notifications  # opens the service, which sends the deliveries of an earlier run

    def make_part(self, notifications: NotificationService) -> ChangeLists:
        return ChangeLists(notifications)


addons = [Changes()]
