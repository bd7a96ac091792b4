"""Refresh schedulers of tests: by default, each feed has a lane of its own, and is planned once."""

from collections.abc import Awaitable, Callable
from typing import Any

from feedproxy.clock import Clock
from feedproxy.refresh.policy.refresh_ahead import Plan
from feedproxy.refresh.refresh_scheduler import RefreshScheduler


def a_scheduler(
    clock: Clock, plan_for: Callable[[str], Plan], refresh: Callable[[str], Awaitable[object]], **options: Any
) -> RefreshScheduler:

    async def load_nothing(_: str) -> None:
        pass

    given = {"plan_due": plan_for, "load_due": load_nothing, "lane_of": str, "surprises": list, **options}
    return RefreshScheduler(clock, plan_for, refresh, **given)
