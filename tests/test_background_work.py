"""Work in the background continues after a defect, and ends with its owner."""

import asyncio

import pytest

from feedproxy.background_work import cancel, finish, repeat
from tests.waiting import PATIENCE


async def forever(log: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        log.append("ended")


async def fail() -> None:
    raise ValueError("a defect")


async def test_cancelled_tasks_have_ended_when_the_call_returns() -> None:
    log: list[str] = []
    task = asyncio.create_task(forever(log))
    await asyncio.sleep(0)

    await cancel(None, task)

    assert (task.cancelled(), log) == (True, ["ended"])


async def test_exception_of_a_cancelled_task_is_ignored() -> None:
    task = asyncio.create_task(fail())
    await asyncio.sleep(0)

    await cancel(task)

    with pytest.raises(ValueError, match="a defect"):
        task.result()


async def test_tasks_that_take_too_long_are_cancelled() -> None:
    log: list[str] = []
    slow, quick = asyncio.create_task(forever(log)), asyncio.create_task(asyncio.sleep(0))

    await finish([slow, quick], 0.01)

    assert (slow.cancelled(), quick.cancelled()) == (True, False)
    await finish([], 0.0)


async def test_repetition_continues_after_a_defect_which_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    attempts, is_repeated = list[int](), asyncio.Event()

    async def work() -> None:
        attempts.append(len(attempts))
        if len(attempts) == 1:
            raise ZeroDivisionError
        is_repeated.set()

    task = asyncio.ensure_future(repeat(0, work, "subscribers: removal of readers"))
    await asyncio.wait_for(is_repeated.wait(), PATIENCE)
    await cancel(task)

    assert caplog.messages == [
        "subscribers: removal of readers failed by a defect of feedproxy, trying again; please report the traceback"
    ]
