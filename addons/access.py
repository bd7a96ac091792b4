"""May this reader have this feed?"""

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.http.message import Response
from feedproxy.request.endpoints import Call
from feedproxy.server.mitm import secret_urls


class Access:
    """Passwords are asked for at the desk, with every request; secret addresses are an endpoint."""

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "readers", "users_file", "wsse_file", "tokens_file", "wallet", "realm")

    def configure(self, updated: set[str]) -> None:
        here = get_app(ctx.master)
        here.adopt(ctx.options)
        if "tokens_file" not in updated:
            return
        if here.settings.tokens_file:
            here.endpoints.add(secret_urls.PATH, self.with_token)
        else:
            here.endpoints.remove(secret_urls.PATH)

    async def with_token(self, call: Call) -> Response:
        return await secret_urls.handle(get_app(ctx.master), call)


addons = [Access()]
