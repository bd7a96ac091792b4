"""The admin listener: the operator's pages, the same as JSON under /api/, metrics, probes, and the operator's actions.

It runs in the proxy's own event loop, apart from what readers see. GET never changes anything; a POST comes from
our own pages, from the command line or from a program (admin/auth.py). Nothing of it may be stored or framed.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType

from aiohttp import web

from feedproxy.admin.actions import AdminActions
from feedproxy.admin.auth import AdminAuth, admin_token, listen_address
from feedproxy.admin.configuration import Configuration
from feedproxy.admin.dashboard import Dashboard
from feedproxy.admin.feed_pages import OUTCOME, AppView, FeedPages, Notice
from feedproxy.admin.feed_table import FeedTableCache
from feedproxy.admin.listener import AdminListener, Route
from feedproxy.admin.notifications import NotificationsPage
from feedproxy.admin.reader_scores import ReaderScores, ReadersPage
from feedproxy.admin.relocations import RelocationsPage
from feedproxy.telemetry.redacted import redact_text
from feedproxy.web import templates

logger = logging.getLogger(__name__)

actions = logging.getLogger("feedproxy.operator")

LOGGED_PARAMETERS = ("deed", "id", "url", "pattern", "feed", "name", "seconds", "replace", "intercept")
"""Parameters of an action that its line in the log has."""

type AdminHandler = Callable[[web.Request], Awaitable[web.Response]]
"""Answers a POST of the operator's."""


class AdminServer:
    """The listener. `listening` tells whether readers are let in, where the runtime does not know it.

    `more` are deeds beside those of every proxy, by their path, and `shown` what there is to be looked at.
    """

    def __init__(
        self,
        app: AppView,
        listening: Callable[[], bool] | None = None,
        more: Mapping[str, AdminHandler] = MappingProxyType({}),
        shown: Mapping[str, AdminHandler] = MappingProxyType({}),
    ) -> None:
        self._app = app
        self._more = more
        self._shown = shown
        self._listening = listening or (lambda: app.ready)
        self._listener: AdminListener | None = None
        self._pages: asyncio.Future[None] | None = None
        """Kept, so that what goes wrong in it is told."""

    @property
    def url(self) -> str:
        """Where it listens, once started: `http://127.0.0.1:8081`."""
        return self._listener.url if self._listener is not None else ""

    async def start(self, sockets: Sequence[socket.socket] = ()) -> None:
        """Listen, on these sockets where they are given.

        Raises UsageError where the options do not allow it, or the address cannot be had.
        """
        settings = self._app.settings
        token = admin_token(settings)
        host, port = listen_address(settings.admin, token)
        auth = AdminAuth(host, token, settings.admin_hosts, clock=self._app.clock)
        listener = AdminListener(self._routes(), FeedPages.failure, _record_outcome, OUTCOME.get)
        await listener.start(auth, host, port, sockets, reuse_port=settings.reuse_port)
        self._listener = listener
        self._pages = asyncio.get_running_loop().run_in_executor(None, templates.make_ready)

    async def stop(self) -> None:
        """Close. Stopping what does not run is allowed."""
        if self._listener is not None:
            await self._listener.stop()

    def _routes(self) -> list[Route]:
        clerk = FeedTableCache()
        answers = FeedPages(self._app, clerk, self._listening)
        self._app.metrics.watch(answers.touch)
        judges = ReaderScores(self._app)
        overview = Dashboard(self._app, answers, self._listening, judges)
        deeds = AdminActions(self._app, clerk, answers)
        board = NotificationsPage(self._app, answers)
        readership = ReadersPage(judges, self._app.clock, answers)
        moves = RelocationsPage(answers)
        configuration = Configuration(self._app, answers)
        routes: list[Route] = []
        for path, handler in (
            ("/", overview.show),
            ("/feeds", answers.feeds),
            ("/feeds/{id}", answers.feed),
            ("/assets/{name}", answers.asset),
            ("/moves", moves.show),
            ("/api/moves", moves.show),
            ("/configuration", configuration.show),
            ("/api/configuration", configuration.show),
            ("/purge", deeds.confirm),
            ("/api/status", overview.show),
            ("/api/history", overview.history),
            ("/api/feeds", answers.feeds),
            ("/api/feeds/{id}", answers.feed),
            ("/notifications", board.show),
            ("/api/notifications", board.show),
            ("/readers", readership.show),
            ("/api/readers", readership.show),
            ("/metrics", answers.metrics),
            ("/healthz", answers.healthz),
            ("/readyz", answers.readyz),
            ("/favicon.ico", answers.icon),
        ):
            routes.append(("GET", path, handler))
        for name, look in self._shown.items():
            routes += [("GET", f"/{name}", look), ("GET", f"/api/{name}", look)]
        own: dict[str, AdminHandler] = {"refresh": deeds.refresh, "purge": deeds.purge, "undo": deeds.undo}
        own |= {"add": deeds.add, "pause": deeds.pause, "block": deeds.block, "allow": deeds.allow}
        own |= {"subscription": board.act, "ping": board.ping}
        own |= {name: _with_notice(answers, deed) for name, deed in self._more.items()}
        for name, deed in own.items():
            routes += [("POST", f"/{name}", deed), ("POST", f"/api/{name}", deed)]
        return routes


def _with_notice(answers: FeedPages, deed: AdminHandler) -> AdminHandler:
    """An action that, where it leads back to a page, has its outcome told there."""

    async def act(request: web.Request) -> web.Response:
        response = await deed(request)
        if response.status == HTTPStatus.SEE_OTHER and OUTCOME.get():
            return answers.back(response.headers["Location"], Notice(True, OUTCOME.get()))
        return response

    return act


async def _record_outcome(request: web.Request, status: int, reason: str) -> None:
    """Log what an action did; the next request on the connection begins without an outcome."""
    await _log_action(request, status, reason)
    OUTCOME.set("")


async def _log_action(request: web.Request, status: int, words: str) -> None:
    """Write the line of what the operator did, or tried to do. What only looks leaves none."""
    if request.method != "POST" or request.match_info.route.resource is None:
        return
    given = dict(request.query)
    if request.content_type == "application/x-www-form-urlencoded":
        with contextlib.suppress(Exception):  # what cannot be read was refused
            given.update((name, value) for name, value in (await request.post()).items() if isinstance(value, str))
    said = {name: redact_text(given[name]) for name in LOGGED_PARAMETERS if given.get(name)}
    action, client = request.path.removeprefix("/api").strip("/"), request.remote or ""
    fields = {"event": "operator", "action": action, **said, "client": client, "status": status, "reason": words}
    what = "".join(f" {name}={value}" for name, value in said.items())
    actions.info("%s", f"operator {client} {action}{what} {status} {words}".rstrip(), extra={"fields": fields})
