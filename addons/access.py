"""Access control: users, tokens and secret addresses."""

from feedproxy.server.addon import Addon
from feedproxy.server.mitm import token_paths


class Access(Addon):
    """Addon with the options for access control, and the endpoint for secret addresses."""

    options = ("readers", "users_file", "wsse_file", "tokens_file", "wallet", "realm")

    def configure(self, updated: set[str]) -> None:
        super().configure(updated)
        app = self.app()
        if "tokens_file" not in updated:
            return
        if app.settings.tokens_file:
            app.endpoints.add(token_paths.PATH, lambda call: token_paths.handle(app, call))
        else:
            app.endpoints.remove(token_paths.PATH)


addons = [Access()]
