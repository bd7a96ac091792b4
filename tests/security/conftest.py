"""The whole proxy with both listeners, for tests that send exact bytes."""

import calendar
from collections.abc import AsyncIterator

import pytest_asyncio

from feedproxy.clock import ManualClock
from tests.stages.front import OnFront

NOON: float = calendar.timegm((2026, 11, 20, 12, 0, 0))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[OnFront]:
    made = OnFront(ManualClock(NOON), {"site_interval": 0, "feed_min_interval": 0})
    await made.open()
    yield made
    await made.close()


def bases(stage: OnFront) -> dict[str, str]:
    """Return the addresses of the fast path's listener and of mitmproxy's."""
    return {"fast path": stage.base, "mitmproxy": stage.ordinary}
