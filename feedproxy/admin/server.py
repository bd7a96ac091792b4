"""The admin listener: the operator's pages, the same as JSON under /api/, metrics, probes, and the operator's actions.

It runs in the proxy's own event loop, apart from what readers see. GET never changes anything; a POST comes from
our own pages, from the command line or from a program (admin/auth.py). Nothing of it may be stored or framed.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType

from aiohttp import web

from feedproxy.admin.actions import AdminActions
from feedproxy.admin.auth import CHALLENGE, AdminAuth, admin_token, listen_address
from feedproxy.admin.configuration import Configuration
from feedproxy.admin.dashboard import Dashboard
from feedproxy.admin.feed_pages import OUTCOME, AppView, FeedPages, Notice
from feedproxy.admin.feed_table import FeedTableCache
from feedproxy.admin.notifications import NotificationsPage
from feedproxy.admin.reader_scores import ReaderScores, ReadersPage
from feedproxy.admin.relocations import RelocationsPage
from feedproxy.errors import FeedproxyError, UsageError
from feedproxy.telemetry.redacted import redact_text
from feedproxy.web import templates

logger = logging.getLogger(__name__)

actions = logging.getLogger("feedproxy.operator")

BODY_MAX = 65_536
"""Bytes of a form: a URL or two."""

STOP_TIMEOUT = 2.0
"""Seconds that answers under way have when the listener is closed."""

LOGGED_PARAMETERS = ("deed", "id", "url", "pattern", "feed", "name", "seconds", "replace", "intercept")
"""Parameters of an action that its line in the log has."""

HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        # Not no-referrer: then browsers would say `Origin: null`, even to ourselves.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Server": "feedproxy",
    }
)

type Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

type Deed = Callable[[web.Request], Awaitable[web.Response]]
"""Answers a POST of the operator's."""


class AdminServer:
    """The listener. `listening` tells whether readers are let in, where the runtime does not know it.

    `more` are deeds beside those of every proxy, by their path, and `shown` what there is to be looked at.
    """

    def __init__(
        self,
        runtime: AppView,
        listening: Callable[[], bool] | None = None,
        more: Mapping[str, Deed] = MappingProxyType({}),
        shown: Mapping[str, Deed] = MappingProxyType({}),
    ) -> None:
        self._runtime = runtime
        self._more = more
        self._shown = shown
        self._listening = listening or (lambda: runtime.ready)
        self._runner: web.AppRunner | None = None
        self._door: AdminAuth | None = None
        self._pages: asyncio.Future[None] | None = None
        """Kept, so that what goes wrong in it is told."""
        self.url = ""
        """Where it listens, once started: `http://127.0.0.1:8081`."""

    async def start(self, sockets: Sequence[socket.socket] = ()) -> None:
        """Listen, on these sockets where they are given.

        Raises UsageError where the options do not allow it, or the address cannot be had.
        """
        settings = self._runtime.settings
        token = admin_token(settings)
        host, port = listen_address(settings.admin, token)
        self._door = AdminAuth(host, token, settings.admin_hosts, clock=self._runtime.clock)
        runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=STOP_TIMEOUT)
        await runner.setup()
        try:
            for given in sockets:
                await web.SockSite(runner, given).start()
            if not sockets:
                await web.TCPSite(runner, host, port, reuse_port=settings.reuse_port or None).start()
        except OSError as error:
            await runner.cleanup()
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
            raise UsageError(f"admin: cannot listen on {settings.admin}: {why}") from error
        self._runner = runner
        self._pages = asyncio.get_running_loop().run_in_executor(None, templates.make_ready)
        bound = runner.addresses[0]
        self.url = f"http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"

    async def stop(self) -> None:
        """Close. Stopping what does not run is allowed."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _application(self) -> web.Application:
        clerk = FeedTableCache()
        answers = FeedPages(self._runtime, clerk, self._listening)
        self._runtime.metrics.watch(answers.touch)
        judges = ReaderScores(self._runtime)
        overview = Dashboard(self._runtime, answers, self._listening, judges)
        deeds = AdminActions(self._runtime, clerk, answers)
        board = NotificationsPage(self._runtime, answers)
        readership = ReadersPage(judges, self._runtime.clock, answers)
        moves = RelocationsPage(answers)
        configuration = Configuration(self._runtime, answers)
        application = web.Application(middlewares=[self._guarded], client_max_size=BODY_MAX)
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
            application.router.add_get(path, handler)
        for name, look in self._shown.items():
            application.router.add_get(f"/{name}", look)
            application.router.add_get(f"/api/{name}", look)
        own: dict[str, Deed] = {"refresh": deeds.refresh, "purge": deeds.purge, "undo": deeds.undo}
        own |= {"add": deeds.add, "pause": deeds.pause, "block": deeds.block, "allow": deeds.allow}
        own |= {"subscription": board.act, "ping": board.ping}
        own |= {name: _with_notice(answers, deed) for name, deed in self._more.items()}
        for name, deed in own.items():
            application.router.add_post(f"/{name}", deed)
            application.router.add_post(f"/api/{name}", deed)
        application.on_response_prepare.append(_add_headers)
        return application

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every request passes the door, and every failure is told in the form that was asked for."""
        assert self._door is not None
        if refusal := self._door.refuse(request.method, request.path, request.headers, request.remote or ""):
            extra = {"WWW-Authenticate": CHALLENGE} if refusal.status == 401 else {}
            if refusal.retry_after:
                extra["Retry-After"] = str(refusal.retry_after)
            return FeedPages.failure(request, refusal.status, refusal.detail, refusal.words, extra)
        OUTCOME.set("")
        try:
            response = await handler(request)
        except FeedproxyError as error:
            await _log_action(request, error.status_hint, str(error))
            return FeedPages.failure(request, error.status_hint, error.detail, str(error))
        except web.HTTPException as error:
            await _log_action(request, error.status, error.reason)
            kept = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
            return FeedPages.failure(request, error.status, "admin", f"{error.reason}.", kept)
        except Exception:
            logger.exception("the admin listener failed at %s", request.path)
            await _log_action(request, 500, "internal error")
            return FeedPages.failure(request, 500, "internal-error", "feedproxy failed; its log says more.")
        await _log_action(request, response.status, OUTCOME.get())
        return response


def _with_notice(answers: FeedPages, deed: Deed) -> Deed:
    """An action that, where it leads back to a page, has its outcome told there."""

    async def act(request: web.Request) -> web.Response:
        response = await deed(request)
        if response.status == HTTPStatus.SEE_OTHER and OUTCOME.get():
            return answers.back(response.headers["Location"], Notice(True, OUTCOME.get()))
        return response

    return act


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


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = HEADERS["Server"]
    response.headers.setdefault("Content-Security-Policy", templates.operators_policy())
