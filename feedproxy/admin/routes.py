"""The admin server: the operator's pages, the same values as JSON below /api/, metrics, probes and actions.

It runs in the proxy's event loop, on its own listener. GET changes nothing. Responses must not be stored or framed.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus

from aiohttp import web

from feedproxy.admin.actions import DECISIONS, AdminActions
from feedproxy.admin.admin_authorization import AdminAuthorization, admin_address, admin_token
from feedproxy.admin.admin_listener import AdminListener, Route
from feedproxy.admin.pages.configuration_page import show_configuration
from feedproxy.admin.pages.dashboard import Dashboard
from feedproxy.admin.pages.feed_pages import OUTCOME, FeedPages, Notice, error_response
from feedproxy.admin.pages.feed_table import FeedTableCache
from feedproxy.admin.pages.moves import show_moves
from feedproxy.admin.pages.notifications import NotificationsPage
from feedproxy.admin.pages.reader_scores import ReaderScores
from feedproxy.admin.probes import Probes
from feedproxy.app import AdminHandler, App
from feedproxy.telemetry.page_redaction import redact_text
from feedproxy.web import templates

action_logger = logging.getLogger("feedproxy.operator")

LOGGED_PARAMETERS = ("action", "deed", "id", "url", "pattern", "feed", "name", "seconds", "replace", "intercept")
"""Parameters of an action that are logged."""


class AdminServer:
    """The routes of the proxy's admin listener.

    `is_listening` returns True while clients are accepted. Its default is `app.ready`.
    """

    def __init__(self, app: App, is_listening: Callable[[], bool] | None = None) -> None:
        self._app = app
        self._is_listening = is_listening or (lambda: app.ready)
        self._listener: AdminListener | None = None
        self._template_loading: asyncio.Future[None] | None = None
        """Future of a thread that loads all HTML templates after the start."""

    @property
    def url(self) -> str:
        """Return the URL of the started listener, such as `http://127.0.0.1:8081`, or "" before the start."""
        return self._listener.url if self._listener is not None else ""

    async def start(self, sockets: Sequence[socket.socket] = ()) -> None:
        """Listen on `sockets`, or at the option `admin` if `sockets` is empty. Raises UsageError if an option is
        invalid, and CannotListen if the address is in use."""
        settings = self._app.settings
        token = admin_token(settings)
        host, port = admin_address(settings.admin, token)
        authorization = AdminAuthorization(host, token, settings.admin_hosts, clock=self._app.clock)
        listener = AdminListener(self._routes(), error_response, _log_action)
        await listener.start(authorization, host, port, sockets, reuse_port=settings.reuse_port)
        self._listener = listener
        self._template_loading = asyncio.get_running_loop().run_in_executor(None, templates.make_ready)

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.stop()

    def _routes(self) -> list[Route]:
        feed_table = FeedTableCache()
        pages = FeedPages(self._app, feed_table)
        probes = Probes(self._app, pages, feed_table, self._is_listening)
        self._app.events.refresh_ended.subscribe(lambda event: feed_table.touch(event.target))
        self._app.events.updated_by_peer.subscribe(feed_table.touch)
        reader_scores = ReaderScores(self._app, pages)
        dashboard = Dashboard(self._app, pages, self._is_listening, reader_scores)
        actions = AdminActions(self._app, feed_table, pages)
        notifications = NotificationsPage(self._app, pages)
        routes: list[Route] = [
            ("GET", "/", dashboard.show),
            ("GET", "/api/status", dashboard.show),
            ("GET", "/api/history", dashboard.history),
            ("GET", "/purge", actions.confirm),
            ("GET", "/assets/{name}", pages.asset),
            ("GET", "/favicon.ico", pages.icon),
            ("GET", "/metrics", probes.metrics),
            ("GET", "/healthz", probes.healthz),
            ("GET", "/readyz", probes.readyz),
        ]
        gets: dict[str, AdminHandler] = {"feeds": pages.feeds, "feeds/{id}": pages.feed}
        gets["moves"] = partial(show_moves, pages=pages)
        gets["configuration"] = partial(show_configuration, app=self._app, pages=pages)
        gets |= {"notifications": notifications.show, "readers": reader_scores.show, **self._app.admin_pages}
        for name, page in gets.items():
            routes += [("GET", f"/{name}", page), ("GET", f"/api/{name}", page)]
        posts: dict[str, AdminHandler] = {"refresh": actions.refresh, "purge": actions.purge, "undo": actions.undo}
        posts |= {"add": actions.add, **{name: partial(actions.decide, action=name) for name in DECISIONS}}
        posts |= {"subscription": notifications.act, "ping": notifications.ping}
        posts |= {name: _with_notice(pages, action) for name, action in self._app.admin_actions.items()}
        for name, action in posts.items():
            routes += [("POST", f"/{name}", action), ("POST", f"/api/{name}", action)]
        return routes


def _with_notice(pages: FeedPages, action: AdminHandler) -> AdminHandler:
    """Return a handler that runs the action. If the action redirects, the target page shows the outcome."""

    async def act(request: web.Request) -> web.Response:
        response = await action(request)
        if response.status == HTTPStatus.SEE_OTHER and OUTCOME.get():
            return pages.redirect(response.headers["Location"], Notice(True, OUTCOME.get()))
        return response

    return act


async def _log_action(request: web.Request, status: int, error: str) -> None:
    """Log a POST to a known path, with its outcome."""
    reason = error or OUTCOME.get()
    OUTCOME.set("")
    if request.method != "POST" or request.match_info.route.resource is None:
        return
    parameters = dict(request.query)
    if request.content_type == "application/x-www-form-urlencoded":
        with contextlib.suppress(Exception):  # an unreadable form was refused
            parameters.update((name, value) for name, value in (await request.post()).items() if isinstance(value, str))
    parameters = {name: redact_text(parameters[name]) for name in LOGGED_PARAMETERS if parameters.get(name)}
    action, client = request.path.removeprefix("/api").strip("/"), request.remote or ""
    fields = {"event": "operator", "action": action, **parameters, "client": client, "status": status, "reason": reason}
    parameter_text = "".join(f" {name}={value}" for name, value in parameters.items())
    action_logger.info(
        "%s", f"operator {client} {action}{parameter_text} {status} {reason}".rstrip(), extra={"fields": fields}
    )
