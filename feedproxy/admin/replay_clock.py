"""The operator's listener of a replay: what time it is there, and one deed, to move it on."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from feedproxy.admin import form
from feedproxy.admin.auth import CHALLENGE, AdminAuth, listen_address
from feedproxy.admin.server import HEADERS, STOP_TIMEOUT
from feedproxy.clock import Clock, Instant, ManualClock, Seconds
from feedproxy.errors import FeedproxyError, UsageError
from feedproxy.lab.replay.virtual_time import LAST

STEP_MAX: Seconds = 100 * 366 * 86_400
"""A century at once is a slip of the finger."""


class InvalidStep(FeedproxyError):
    """`seconds` is missing or no length of time, or this clock cannot be moved."""

    status_hint = 400
    detail = "bad-step"


async def advance_clock(request: web.Request, clock: Clock) -> web.Response:
    """Move the clock on by `seconds`, from the query or a form. Raises WrongStep and WrongRequest."""
    if not isinstance(clock, ManualClock):
        raise InvalidStep("this clock runs by itself (--speed); with --step it moves when it is told to")
    text = (await form.read_parameters(request)).get("seconds", "")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= STEP_MAX or clock.now() + seconds > LAST:
        raise InvalidStep("expected ?seconds=N, a number from 0 on, a century at most")
    clock.advance(seconds)
    return web.json_response({"ok": True, "advanced": seconds, **instant_view(clock.now())})


def instant_view(now: Instant) -> dict[str, Any]:
    """An instant for programs and for people."""
    return {"now": now, "time": datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z")}


class ReplayAdmin:
    """The listener. `status` tells what is replayed, as JSON has it."""

    def __init__(self, clock: Clock, status: Callable[[], dict[str, Any]]) -> None:
        self._clock = clock
        self._status = status
        self._runner: web.AppRunner | None = None
        self._door: AdminAuth | None = None
        self.url = ""
        """Where it listens, once started."""

    async def start(self, admin: str) -> None:
        """Listen on HOST:PORT. Raises UsageError."""
        host, port = listen_address(admin, "")
        self._door = AdminAuth(host)
        application = web.Application(middlewares=[self._guarded])
        for path in ("/", "/api/status"):
            application.router.add_get(path, self._show_status)
        for path in ("/healthz", "/readyz"):
            application.router.add_get(path, _healthz)
        for path in ("/advance", "/api/advance"):
            application.router.add_post(path, self._advance)
        application.on_response_prepare.append(_sign)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=STOP_TIMEOUT)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            await runner.cleanup()
            raise UsageError(f"admin: cannot listen on {admin}: {error.strerror or error}") from error
        self._runner = runner
        bound = runner.addresses[0]
        self.url = f"http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"

    async def stop(self) -> None:
        """Close. Stopping what does not run is allowed."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _advance(self, request: web.Request) -> web.Response:
        return await advance_clock(request, self._clock)

    async def _show_status(self, _: web.Request) -> web.Response:
        return web.json_response({**instant_view(self._clock.now()), **self._status()})

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Any) -> web.StreamResponse:
        assert self._door is not None
        if refusal := self._door.refuse(request.method, request.path, request.headers):
            extra = {"WWW-Authenticate": CHALLENGE} if refusal.status == 401 else {}
            return _problem(refusal.status, refusal.detail, refusal.words, extra)
        try:
            answer: web.StreamResponse = await handler(request)
        except FeedproxyError as error:
            return _problem(error.status_hint, error.detail, str(error))
        except web.HTTPException as error:
            kept = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
            return _problem(error.status, "admin", f"{error.reason}.", kept)
        return answer


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _problem(status: int, kind: str, words: str, extra: dict[str, str] | None = None) -> web.Response:
    told = {"status": status, "type": kind, "title": words}
    return web.json_response(told, status=status, headers=extra, content_type="application/problem+json")


async def _sign(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
