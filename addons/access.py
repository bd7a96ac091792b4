"""Access control: users, tokens and secret addresses."""

from feedproxy.http.message import Response
from feedproxy.request.endpoint_registry import Call
from feedproxy.server.addon import Addon
from feedproxy.server.mitm import token_paths


class Access(Addon):
    """Addon that declares the options for access control, and offers secret addresses as an endpoint.

    access/authorization.py checks passwords.
    """

    options = ("readers", "users_file", "wsse_file", "tokens_file", "wallet", "realm")

    def configure(self, updated: set[str]) -> None:
        super().configure(updated)
        app = self.app()
        if "tokens_file" not in updated:
            return
        if app.settings.tokens_file:
            app.endpoints.add(token_paths.PATH, self.with_token)
        else:
            app.endpoints.remove(token_paths.PATH)

    async def with_token(self, call: Call) -> Response:
        return await token_paths.handle(self.app(), call)


addons = [Access()]
