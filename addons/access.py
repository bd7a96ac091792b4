"""Access control: users, tokens and secret addresses."""

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.http.message import Response
from feedproxy.request.endpoints import Call
from feedproxy.server.mitm import secret_urls


class Access:
    """Addon that declares the options for access control, and offers secret addresses as an endpoint.

    The service checks passwords.
    """

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "readers", "users_file", "wsse_file", "tokens_file", "wallet", "realm")

    def configure(self, updated: set[str]) -> None:
        app = get_app(ctx.master)
        app.adopt(ctx.options)
        if "tokens_file" not in updated:
            return
        if app.settings.tokens_file:
            app.endpoints.add(secret_urls.PATH, self.with_token)
        else:
            app.endpoints.remove(secret_urls.PATH)

    async def with_token(self, call: Call) -> Response:
        return await secret_urls.handle(get_app(ctx.master), call)


addons = [Access()]
