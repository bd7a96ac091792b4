"""Conversions of feeds to other formats: at `/-/as/FORMAT/TARGET`, and by Accept if the option `negotiate` is set."""

from mitmproxy.addonmanager import Loader

from feedproxy.http.message import Response
from feedproxy.proxy.representations.conversions import PATH
from feedproxy.request.endpoint_registry import Call
from feedproxy.server.addon import Addon


class Formats(Addon):
    """Addon with the endpoint for conversions."""

    options = ("negotiate",)

    def load(self, loader: Loader) -> None:
        super().load(loader)
        self.app().endpoints.add(PATH, self._convert)

    async def _convert(self, call: Call) -> Response:
        app, client = self.app(), call.client
        formats = app.service.conversions
        output_format, target = formats.parse_call(call)
        # A conversion is only for the permitted readers of its feed.
        readers = app.settings_for(target).readers
        user, fields = await app.parts.access_control.authorize(
            readers, call.request.fields, client.address, proxy=False
        )
        return await formats.respond(call, output_format, target, fields, user=user)


addons = [Formats()]
