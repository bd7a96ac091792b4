"""Conversions of feeds to other formats: at `/-/as/FORMAT/TARGET`, and by Accept if the option `negotiate` is set."""

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.http.message import Response
from feedproxy.proxy.representations.conversions import PATH
from feedproxy.request.endpoints import Call


class Formats:
    """Addon with the endpoint for conversions. The service makes them, and negotiates by Accept."""

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "negotiate")
        get_app(ctx.master).endpoints.add(PATH, self._convert)

    def configure(self, _: set[str]) -> None:
        get_app(ctx.master).adopt(ctx.options)

    async def _convert(self, call: Call) -> Response:
        app, client = get_app(ctx.master), call.client
        formats = app.service.conversions
        wanted, target = formats.parse_call(call)
        # A conversion is only for the permitted readers of its feed.
        readers = app.settings_for(target).readers
        user, fields = await app.gatekeeper.authorize(readers, call.request.fields, client.address, proxy=False)
        return await formats.respond(call, wanted, target, fields, user=user)


addons = [Formats()]
