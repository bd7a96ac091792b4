"""The admin listener: status page, metrics, probes and the operator's actions."""

import logging
from urllib.parse import urlsplit

from mitmproxy import ctx, exceptions
from mitmproxy.master import Master

from feedproxy.admin.admin_authorization import admin_address, admin_token
from feedproxy.admin.admin_listener import AdminListener
from feedproxy.admin.routes import start_admin_listener
from feedproxy.errors import FeedproxyError, UsageError
from feedproxy.server.addon import Addon

logger = logging.getLogger("feedproxy.admin")


class Admin(Addon):
    """Addon that starts the admin listener when the proxy runs, and closes it before the store."""

    options = ("admin", "admin_token", "admin_token_file", "admin_hosts", "reuse_port")

    def __init__(self) -> None:
        self.listener: AdminListener | None = None

    def configure(self, updated: set[str]) -> None:
        super().configure(updated)
        app = self.app()
        if updated & {"admin", "admin_token", "admin_token_file"} and app.settings.admin:
            try:
                admin_address(app.settings.admin, admin_token(app.settings))
            except UsageError as error:
                raise exceptions.OptionsError(str(error)) from error

    async def running(self) -> None:
        app, master = self.app(), ctx.master
        if not app.settings.admin or (app.worker is not None and not app.worker.is_first):
            return
        # If only this addon is loaded, it must find out itself whether the proxy listens.
        app.ready = app.ready or _listens(master)
        try:
            self.listener = await start_admin_listener(app)
        except FeedproxyError as error:
            app.failure = error
            if not app.reports_failures:
                logger.error("%s", error)
            master.shutdown()
            return
        app.listeners.add(urlsplit(self.listener.url).port or 0, for_readers=False)
        logger.info("the admin listener is at %s", self.listener.url)

    async def done(self) -> None:
        if self.listener is not None:
            await self.listener.stop()
        # If only this addon is loaded, it must close the App itself. Further calls of `close` have no effect.
        await self.app().close()


def _listens(master: Master) -> bool:
    proxy = master.addons.get("proxyserver")
    return proxy is not None and any(instance.is_running for instance in proxy.servers)


addons = [Admin()]
