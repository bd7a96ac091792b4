"""A failed refresh has its error as a value in the result."""

from feedproxy.clock import ManualClock
from feedproxy.upstream.upstream_errors import Unreachable
from tests.stages.play import OnService


async def test_failed_refresh_leaves_no_garbage_that_refers_to_its_task() -> None:
    stage = OnService(ManualClock(1_795_176_000.0), {"polling": "off"})
    await stage.open()
    failure = Unreachable("refused")
    failure.__cause__ = OSError("refused")
    stage.origin.break_down(failure)

    result = await stage.service._coordinator.refresh(stage.origin.url("/feed.rss"))

    assert result.error is failure
    assert failure.__traceback__ is None
    assert failure.__cause__ is failure.__context__ is None
    await stage.close()
