"""The operator's view: status page, metrics, probes, refresh and purge, on a listener of their own."""

import logging
from urllib.parse import urlsplit

from mitmproxy import ctx, exceptions
from mitmproxy.addonmanager import Loader
from mitmproxy.master import Master

from feedproxy import settings
from feedproxy.admin.auth import admin_token, listen_address
from feedproxy.admin.server import AdminServer
from feedproxy.app import get_app
from feedproxy.errors import UsageError

logger = logging.getLogger("feedproxy.admin")


class Admin:
    """Starts the admin listener once the proxy runs, and closes it before the store is closed."""

    def __init__(self) -> None:
        self.server: AdminServer | None = None
        self.failure = ""
        """Why the listener could not be had; the proxy does not run without it."""

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "admin", "admin_token", "admin_token_file", "admin_hosts", "reuse_port")

    def configure(self, updated: set[str]) -> None:
        here = get_app(ctx.master)
        here.adopt(ctx.options)
        if updated & {"admin", "admin_token", "admin_token_file"} and here.settings.admin:
            try:
                listen_address(here.settings.admin, admin_token(here.settings))
            except UsageError as error:
                raise exceptions.OptionsError(str(error)) from error

    async def running(self) -> None:
        here, master = get_app(ctx.master), ctx.master
        if not here.settings.admin or (here.seat is not None and not here.seat.is_first):
            return
        server = AdminServer(here, lambda: here.ready or _listens(master), here.admin_actions, here.shown)
        try:
            await server.start(here.admin_sockets)
        except UsageError as error:
            self.failure = here.failure = str(error)
            if not here.reports_failures:
                logger.error("%s", error)
            master.shutdown()
            return
        self.server = server
        here.listeners.add(urlsplit(server.url).port or 0, for_readers=False)
        logger.info("the admin listener is at %s", server.url)

    async def done(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            await server.stop()
        # Loaded alone, this is all that has opened it; closing twice is allowed.
        await get_app(ctx.master).close()


def _listens(master: Master) -> bool:
    """Whether mitmproxy lets readers in, where no `feedproxy serve` says so."""
    proxy = master.addons.get("proxyserver")
    return proxy is not None and any(instance.is_running for instance in proxy.servers)


addons = [Admin()]
