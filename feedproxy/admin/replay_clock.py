"""The admin listener of a replay. It shows the replay's time and advances its clock."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from feedproxy.admin import request_parameters
from feedproxy.admin.admin_listener import AdminListener, Route
from feedproxy.clock import Clock, Instant, ManualClock, Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.lab.replay.time_arguments import LAST

STEP_MAX: Seconds = 100 * 366 * 86_400
"""Largest step of the clock in seconds: a century."""


class InvalidStep(FeedproxyError, status=400, detail="bad-step"):
    """Error for a missing or invalid `seconds`, and for a clock that cannot be advanced."""


async def advance_clock(request: web.Request, clock: Clock) -> dict[str, Any]:
    """Advance the clock by the parameter `seconds`. Return the new time as JSON values. Raises InvalidStep if `seconds`
    is invalid or the clock runs by itself, and InvalidForm if the form is invalid."""
    if not isinstance(clock, ManualClock):
        raise InvalidStep("the clock runs by itself (--speed): expected a replay with --step")
    text = (await request_parameters.read_parameters(request)).get("seconds", "")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    most = max(0, min(STEP_MAX, math.floor(LAST - clock.now())))
    if not 0 <= seconds <= most:
        raise InvalidStep(f"seconds: {text!r}: expected a number from 0 to {most}")
    clock.advance(seconds)
    return {"ok": True, "advanced": seconds, **instant_view(clock.now())}


def instant_view(now: Instant) -> dict[str, Any]:
    """Return an instant in Unix seconds (`now`) and in ISO 8601 (`time`)."""
    return {"now": now, "time": datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z")}


def replay_admin(clock: Clock, status: Callable[[], dict[str, Any]]) -> AdminListener:
    """Return the admin listener of a replay. `status` returns the state of the replay as JSON values."""

    async def advance(request: web.Request) -> web.Response:
        return web.json_response(await advance_clock(request, clock))

    async def show_status(_: web.Request) -> web.Response:
        return web.json_response({**instant_view(clock.now()), **status()})

    routes: list[Route] = [("GET", path, show_status) for path in ("/", "/api/status")]
    routes += [("GET", path, _healthz) for path in ("/healthz", "/readyz")]
    routes += [("POST", path, advance) for path in ("/advance", "/api/advance")]
    return AdminListener(routes, _problem)


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _problem(_: web.Request, status: int, code: str, message: str, extra: Mapping[str, str]) -> web.Response:
    problem = {"status": status, "type": code, "title": message}
    return web.json_response(problem, status=status, headers=extra, content_type="application/problem+json")
