"""The same feed in other formats: `/-/as/FORMAT/TARGET`, and by Accept where `negotiate` allows it."""

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

from feedproxy import settings
from feedproxy.app import get_app
from feedproxy.http.message import Response
from feedproxy.proxy.representations.conversions import PATH
from feedproxy.request.endpoints import Call


class Formats:
    """Offers the endpoint; the service does the rest, for negotiation too."""

    def load(self, loader: Loader) -> None:
        settings.declare(loader, "negotiate")
        get_app(ctx.master).endpoints.add(PATH, self._convert)

    def configure(self, _: set[str]) -> None:
        get_app(ctx.master).adopt(ctx.options)

    async def _convert(self, call: Call) -> Response:
        here, visit = get_app(ctx.master), call.client
        formats = here.service.conversions
        wanted, target = formats.parse_call(call)
        # Who may not have the feed may not have it in another format either.
        readers = here.settings_for(target).readers
        user, fields = await here.doorkeeper.authorize(readers, call.request.fields, visit.address, proxy=False)
        return await formats.respond(call, wanted, target, fields, user=user)


addons = [Formats()]
