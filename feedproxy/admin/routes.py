"""The routes of the admin listener: the operator's pages, their values as JSON below /api/, metrics, probes and
actions.

The listener runs in the proxy's event loop. A GET changes nothing. All responses forbid framing. All except style
sheets and scripts forbid storing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web

from feedproxy.admin.actions import DECISIONS, AdminActions
from feedproxy.admin.admin_authorization import AdminAuthorization, admin_address, admin_token
from feedproxy.admin.admin_listener import AdminListener, Handler, Route
from feedproxy.admin.feed_list_import import FeedListImport
from feedproxy.admin.html_or_json import error_response
from feedproxy.admin.pages.configuration_page import show_configuration
from feedproxy.admin.pages.dashboard import Dashboard
from feedproxy.admin.pages.feed_pages import ActionOutcome, FeedPages, Notice
from feedproxy.admin.pages.moves import show_moves
from feedproxy.admin.pages.notifications import NotificationsPage
from feedproxy.admin.pages.reader_scores import ReaderScores
from feedproxy.admin.probes import Probes
from feedproxy.admin.replay_clock import advance_clock
from feedproxy.app import App
from feedproxy.clock import Clock, SystemClock
from feedproxy.errors import FeedproxyError
from feedproxy.telemetry.page_redaction import redact_text
from feedproxy.web import templates

logger = logging.getLogger("feedproxy.operator")

LOGGED_PARAMETERS = ("action", "deed", "id", "url", "pattern", "feed", "name", "seconds", "replace", "intercept")
"""Names of the parameters that the log line of an action contains."""

type Action = Callable[[web.Request], Awaitable[ActionOutcome]]


async def start_admin_listener(app: App) -> AdminListener:
    """Return the started admin listener, at the option `admin` or on the sockets passed to this process. Raises
    UsageError if an option is invalid, and CannotListen if the address is in use."""
    settings = app.settings
    token = admin_token(settings)
    host, port = admin_address(settings.admin, token)
    authorization = AdminAuthorization(host, token, settings.admin_hosts, clock=app.clock)
    listener = AdminListener(_routes(app), error_response)
    await listener.start(authorization, host, port, app.admin_sockets, reuse_port=settings.reuse_port)
    asyncio.get_running_loop().run_in_executor(None, templates.make_ready)
    return listener


def _routes(app: App) -> list[Route]:
    pages = FeedPages(app)
    probes = Probes(app, pages)
    reader_scores = ReaderScores(app, pages)
    dashboard = Dashboard(app, pages, reader_scores)
    actions = AdminActions(app, pages)
    notifications, feed_list = NotificationsPage(app, pages), FeedListImport(app)
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
    gets: dict[str, Handler] = {"feeds": pages.feeds, "feeds/{id}": pages.feed}
    gets["moves"] = partial(show_moves, pages=pages)
    gets["configuration"] = partial(show_configuration, app=app, pages=pages)
    gets |= {"notifications": notifications.show, "readers": reader_scores.show, "opml": feed_list.show}
    for name, page in gets.items():
        routes += [("GET", f"/{name}", page), ("GET", f"/api/{name}", page)]
    posts: dict[str, Action] = {"refresh": actions.refresh, "purge": actions.purge, "undo": actions.undo}
    posts |= {"add": actions.add, **{name: partial(actions.decide, action=name) for name in DECISIONS}}
    posts |= {"subscription": notifications.act, "ping": notifications.ping, "opml": feed_list.take}
    if not isinstance(app.clock, SystemClock):
        posts["advance"] = partial(_advance, clock=app.clock)
    for name, action in posts.items():
        handler = partial(_act, action=action, pages=pages)
        routes += [("POST", f"/{name}", handler), ("POST", f"/api/{name}", handler)]
    return routes


async def _advance(request: web.Request, *, clock: Clock) -> ActionOutcome:
    view = await advance_clock(request, clock)
    return ActionOutcome(view, Notice(True, f"The time is {view['time']}."), "/")


async def _act(request: web.Request, *, action: Action, pages: FeedPages) -> web.Response:
    status, reason = 500, "internal error"
    try:
        outcome = await action(request)
        response = pages.answer(request, outcome)
        status, reason = response.status, outcome.notice.text
        return response
    except FeedproxyError as error:
        status, reason = error.status_hint, str(error)
        raise
    except web.HTTPException as error:
        status, reason = error.status, error.reason
        raise
    except asyncio.CancelledError:
        reason = "interrupted"  # by the shutdown
        raise
    finally:
        await _log_action(request, status, reason)


async def _log_action(request: web.Request, status: int, reason: str) -> None:
    """Log an action at INFO, without secrets. `reason` is its outcome in words."""
    parameters = dict(request.query)
    if request.content_type == "application/x-www-form-urlencoded":
        with contextlib.suppress(Exception):  # an unreadable form was refused
            parameters.update((name, value) for name, value in (await request.post()).items() if isinstance(value, str))
    parameters = {name: redact_text(parameters[name]) for name in LOGGED_PARAMETERS if parameters.get(name)}
    action, client = request.path.removeprefix("/api").strip("/"), request.remote or ""
    fields = {"event": "operator", "action": action, **parameters, "client": client, "status": status, "reason": reason}
    parameter_text = "".join(f" {name}={value}" for name, value in parameters.items())
    logger.info(
        "%s", f"operator {client} {action}{parameter_text} {status} {reason}".rstrip(), extra={"fields": fields}
    )
