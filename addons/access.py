"""Access control: users, tokens and secret addresses."""

from feedproxy.http.message import Response
from feedproxy.request.endpoints import Call
from feedproxy.server.addon import Addon
from feedproxy.server.mitm import secret_urls


class Access(Addon):
    """Addon that declares the options for access control, and offers secret addresses as an endpoint.

    feedproxy's service checks passwords.
    """

    options = ("readers", "users_file", "wsse_file", "tokens_file", "wallet", "realm")

    def configure(self, updated: set[str]) -> None:
        super().configure(updated)
        app = self.app()
        if "tokens_file" not in updated:
            return
        if app.settings.tokens_file:
            app.endpoints.add(secret_urls.PATH, self.with_token)
        else:
            app.endpoints.remove(secret_urls.PATH)

    async def with_token(self, call: Call) -> Response:
        return await secret_urls.handle(self.app(), call)


addons = [Access()]
