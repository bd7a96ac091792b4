"""Iteration in slices, with pauses for other tasks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

import pytest

from feedproxy import cooperative_iteration


@pytest.mark.parametrize(
    "pace", [cooperative_iteration.iterate_cooperatively, cooperative_iteration.iterate_in_background]
)
async def test_tasks_of_the_event_loop_run_between_slices_of_an_iteration(
    pace: Callable[[Iterable[int]], AsyncIterator[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cooperative_iteration, "MAX_BLOCKING_TIME", -1)
    monkeypatch.setattr(cooperative_iteration, "THROTTLED_BLOCKING_TIME", 0)
    seen: list[int] = []

    async def go() -> None:
        seen.extend([each async for each in pace(range(100))])

    going, turns = asyncio.ensure_future(go()), 0
    while not going.done():
        await asyncio.sleep(0)
        turns += 1

    assert seen == list(range(100))
    assert turns >= 100


async def test_pauses_are_a_multiple_of_the_slice_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now, rests = [100.0], []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("feedproxy.cooperative_iteration.time.monotonic", lambda: now[0])
    monkeypatch.setattr("feedproxy.cooperative_iteration.asyncio.sleep", sleep)

    async for _ in cooperative_iteration.iterate_in_background(range(8)):
        now[0] += cooperative_iteration.THROTTLED_BLOCKING_TIME * 0.4

    assert rests == pytest.approx(
        [cooperative_iteration.IDLE_FACTOR * cooperative_iteration.THROTTLED_BLOCKING_TIME * 1.2] * 2
    )
