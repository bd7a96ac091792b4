"""Base classes of the addons. Each addon uses the App of its mitmproxy master."""

import logging
from collections.abc import Callable
from typing import Any, ClassVar

from mitmproxy import ctx, exceptions
from mitmproxy.addonmanager import Loader

from feedproxy.app import App, get_app
from feedproxy.config.environment_and_set import parse_sets
from feedproxy.config.option_types import check_value, option_specs
from feedproxy.errors import FeedproxyError, UsageError
from feedproxy.http.message import Response
from feedproxy.notify.notification_service import NotificationService
from feedproxy.request.endpoint_registry import CONTENT_MAX, Call, ContentLimit, Handler
from feedproxy.server.mitm.flow_handler import FlowHandler, get_flow_handler
from feedproxy.settings import Settings, declare

logger = logging.getLogger(__name__)


class Addon:
    """An addon that declares its `options`, copies changed options to the App, and closes the App at the end."""

    options: ClassVar[tuple[str, ...]] = ()
    checks: ClassVar[tuple[tuple[str, Callable[[Settings], object]], ...]] = ()
    """Names of options, each with a function that raises UsageError or BadTarget for an invalid value."""

    @property
    def name(self) -> str:
        """Return the name under which mitmproxy registers the addon. A second addon of the same class gets another
        name. Otherwise mitmproxy would refuse it with a traceback before `load`."""
        name = type(self).__name__.lower()
        return name if ctx.master.addons.get(name) in (None, self) else f"{name} (again)"

    def app(self) -> App:
        """Return the App, which all addons share."""
        return get_app(ctx.master)

    def flow_handler(self) -> FlowHandler:
        """Return the flow handler, which all addons share."""
        return get_flow_handler(self.app())

    def load(self, loader: Loader) -> None:
        """Declare the options.

        Raises AddonHalt if the addon is loaded already, after logging an error. Because of the error, mitmdump does not
        start.
        """
        if (name := type(self).__name__.lower()) != self.name:
            logger.error(
                "the addon %s is loaded twice: load all.py, which contains all addons, or each script once", name
            )
            raise exceptions.AddonHalt
        declare(loader, *self.options)
        for name in self.options:
            if name in ctx.options.deferred:
                _parse_deferred(ctx.options.deferred, name)

    def configure(self, updated: set[str]) -> None:
        app = self.app()
        app.adopt(ctx.options)
        for option, check in self.checks:
            try:
                if option in updated:
                    check(app.settings)
            except FeedproxyError as error:
                raise exceptions.OptionsError(f"{option}: {error}") from error

    async def done(self) -> None:
        await self.app().close()


class NotificationAddon[Part](Addon):
    """An addon that adds an object, such as a hub, to the notification service. The object is the addon's *part*."""

    def __init__(self) -> None:
        self._part: Part | None = None

    def configure(self, updated: set[str]) -> None:
        super().configure(updated)
        self.app().notification_plugins[type(self).__name__] = self._add_part

    def make_part(self, notifications: NotificationService) -> Part:
        """Return the addon's part, and register its protocols with the notification service."""
        raise NotImplementedError

    def add_endpoint(
        self,
        path: str,
        handler_of: Callable[[Part], Handler],
        *,
        methods: tuple[str, ...] = ("GET", "HEAD"),
        content_max: int | ContentLimit = CONTENT_MAX,
        is_list: bool = False,
    ) -> None:
        """Add an endpoint at `path`. `handler_of` returns the endpoint's handler for a given part. The other arguments
        are those of `Endpoints.add`."""

        async def handle(call: Call) -> Response:
            return await handler_of(self.part())(call)

        self.app().endpoints.add(path, handle, methods=methods, content_max=content_max, is_list=is_list)

    def _add_part(self, notifications: NotificationService) -> None:
        self._part = self.make_part(notifications)

    def part(self) -> Part:
        """Return the addon's part. The first call opens the notification service."""
        _ = self.app().notifications
        assert self._part is not None
        return self._part


def _parse_deferred(deferred: dict[str, Any], name: str) -> None:
    """Parse the option `name` in `deferred`, which mitmdump read before the option was declared.

    An invalid value is removed, and logged as an error, so that mitmdump does not start. mitmproxy's own parser
    supports no units. At an invalid value, it would end the loading of the script without a message, and mitmproxy
    would pass all requests without feedproxy.
    """
    specs = option_specs()
    value = getattr(deferred[name], "val", deferred[name])
    try:
        if isinstance(value, list) and specs[name].kind is not list:
            deferred[name] = parse_sets([f"{name}={text}" for text in value] or [name], specs)[name]
        else:
            deferred[name] = check_value(name, value, specs[name], "")
    except UsageError as error:
        del deferred[name]
        logger.error("%s", error)
