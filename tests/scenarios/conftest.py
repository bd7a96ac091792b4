"""Every scenario runs on each stage, and all stages must give the same result.

On the stage `addons`, the test calls the hooks that mitmproxy calls on the stage `proxy`. Every combination of a
scenario's parameters runs on `proxy`. Each second one runs on `addons`. If there are several parameters, every value of
each is among those.
"""

import calendar
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from feedproxy.clock import ManualClock
from tests.stages.addons import OnAddons
from tests.stages.front import OnFront
from tests.stages.origin import Origin
from tests.stages.play import OnProxy, OnService, Proxy

NOON: float = calendar.timegm((2026, 11, 20, 12, 0, 0))
"""A Friday."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out each second combination on the stage `addons`, unless the same on `proxy` was not asked for."""
    combinations: dict[str, dict[tuple[str, ...], pytest.Item]] = defaultdict(dict)
    through_mitmproxy = set[tuple[str, tuple[str, ...]]]()
    for item in items:
        if isinstance(item, pytest.Function) and item.path.parent == Path(__file__).parent and "[" in item.name:
            scenario, (stage, *values) = f"{item.path}::{item.originalname}", item.callspec._idlist
            combination = tuple(values)
            if stage == "addons" and combination:
                combinations[scenario][combination] = item
            elif stage == "proxy":
                through_mitmproxy.add((scenario, combination))
    left_out = set[pytest.Item]()
    for scenario, item_by_combination in combinations.items():
        numbers: list[dict[str, int]] = [{} for _ in next(iter(item_by_combination))]
        for combination, item in item_by_combination.items():
            places = zip(numbers, combination, strict=True)
            number = sum(known.setdefault(value, len(known)) for known, value in places)
            if number % 2 and (scenario, combination) in through_mitmproxy:
                left_out.add(item)
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))


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
