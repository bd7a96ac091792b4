"""Every scenario runs on each stage, and all stages must give the same result."""

import calendar
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from feedproxy.clock import ManualClock
from tests.stages.addons import OnAddons
from tests.stages.front import OnFront
from tests.stages.origin import Origin
from tests.stages.play import OnProxy, OnService, Proxy

NOON: float = calendar.timegm((2026, 11, 20, 12, 0, 0))
"""A Friday."""

type Opened = Callable[..., Awaitable[tuple[Proxy, Origin, ManualClock]]]


async def _stages(make: Callable[..., Any]) -> AsyncIterator[Opened]:
    opened: list[Any] = []

    async def open_with(**settings: Any) -> tuple[Proxy, Origin, ManualClock]:
        made = make(ManualClock(NOON), settings)
        await made.open()
        opened.append(made)
        return Proxy(made), made.origin, made.clock

    yield open_with
    for each in opened:
        await each.close()


@pytest.fixture(params=[OnService, OnAddons, OnProxy, OnFront], ids=["service", "addons", "proxy", "front"])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Opened]:
    """Open the stage with these settings: `proxy, origin, clock = await stage(feed_hints="off")`."""
    async for each in _stages(request.param):
        yield each


@pytest.fixture(params=[OnAddons, OnProxy, OnFront], ids=["addons", "proxy", "front"])
async def door(request: pytest.FixtureRequest) -> AsyncIterator[Opened]:
    """The stages that have entrances: for scenarios that begin with a request line, or with another method."""
    async for each in _stages(request.param):
        yield each
