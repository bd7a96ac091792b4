"""The refresh scheduler refreshes due feeds, a few at a time, and each once."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest

from feedproxy.clock import ManualClock
from feedproxy.cooperative_iteration import THROTTLED_BLOCKING_TIME
from feedproxy.refresh.policy.refresh_ahead import Later, Plan, Refresh, Rest
from feedproxy.refresh.refresh_scheduler import (
    CONCURRENT_MAX,
    CONCURRENT_MIN,
    LANE_WIDTH,
    SLEEP_MAX,
    SLOW_AFTER,
    RefreshScheduler,
)
from tests.refresh.schedules import a_scheduler
from tests.waiting import PATIENCE

NOON = 1_800_000_000.0


class World:
    """Feeds that are due at given instants. A refresh lasts until the gate is opened."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOON)
        self.due: dict[str, float] = {}
        self.refreshed: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.scheduler = a_scheduler(self.clock, self.plan_for, self.refresh)

    def plan_for(self, target: str) -> Plan:
        if target not in self.due:
            return Rest("nobody reads it")
        at = self.due[target]
        return Refresh("now") if at <= self.clock.now() else Later(at, "later")

    async def refresh(self, target: str) -> None:
        self.refreshed.append(target)
        await self.gate.wait()
        self.due[target] = self.clock.now() + 3600
        self.scheduler.reschedule(target)

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.scheduler.close()


async def test_each_feed_is_refreshed_at_its_instant(world: World) -> None:
    world.due = {"a": NOON + 100, "b": NOON + 50}
    for target in world.due:
        world.scheduler.reschedule(target)

    await world.pass_time(60)
    assert world.refreshed == ["b"]
    await world.pass_time(60)
    assert world.refreshed == ["b", "a"]


async def test_refresh_counts_as_due_from_its_instant_until_its_end(world: World) -> None:
    world.due = {"a": NOON + 100}
    world.scheduler.reschedule("a")
    world.gate.clear()
    await world.pass_time(99)
    assert not world.scheduler.has_due

    world.clock.advance(1)  # no task runs between the jump and the question
    assert world.scheduler.has_due
    for _ in range(20):
        await asyncio.sleep(0)
        assert world.scheduler.has_due
    assert world.refreshed == ["a"]

    world.gate.set()
    await world.pass_time(0)
    assert not world.scheduler.has_due


async def test_postponed_feed_waits_for_its_new_instant_and_takes_one_place(world: World) -> None:
    world.due = {"a": NOON + 100}
    world.scheduler.reschedule("a")
    for later in range(200, 260, 10):
        world.due["a"] = NOON + later
        world.scheduler.reschedule("a")
    assert len(world.scheduler._heap) == 1

    await world.pass_time(240)
    assert world.refreshed == []
    await world.pass_time(20)
    assert world.refreshed == ["a"]


async def test_feed_that_is_advanced_and_postponed_again_is_refreshed_once(world: World) -> None:
    for at in (100, 50, 200):
        world.due["a"] = NOON + at
        world.scheduler.reschedule("a")

    await world.pass_time(190)
    assert world.refreshed == []
    await world.pass_time(20)
    await world.pass_time(20)
    assert world.refreshed == ["a"]


async def test_due_feed_is_planned_as_one_that_is_refreshed_next(world: World) -> None:
    planned: list[str] = []

    def plan_due(target: str) -> Plan:
        planned.append(target)
        return world.plan_for(target)

    world.scheduler = a_scheduler(world.clock, world.plan_for, world.refresh, plan_due=plan_due)
    world.due = {"a": NOON + 100}
    world.scheduler.reschedule("a")
    assert not planned

    await world.pass_time(110)

    assert planned == world.refreshed == ["a"]


async def test_other_tasks_run_while_a_due_feed_is_read(world: World) -> None:
    seen: list[str] = []
    is_read = asyncio.Event()

    def end_read() -> None:
        seen.append("other task")
        is_read.set()

    async def load_due(target: str) -> None:
        seen.append("read")
        asyncio.get_running_loop().call_soon(end_read)
        await is_read.wait()

    def plan_due(target: str) -> Plan:
        seen.append("plan")
        return world.plan_for(target)

    world.scheduler = a_scheduler(world.clock, world.plan_for, world.refresh, plan_due=plan_due, load_due=load_due)
    world.due = {"a": NOON + 100}
    world.scheduler.reschedule("a")

    await world.pass_time(110)

    assert seen == ["read", "other task", "plan"]
    assert world.refreshed == ["a"]


async def test_feed_refreshed_by_another_process_is_rescheduled(world: World) -> None:
    world.due = {"a": NOON + 100}
    world.scheduler.reschedule("a")
    await world.pass_time(50)
    world.due["a"] = NOON + 3000

    await world.pass_time(60)

    assert world.refreshed == []
    assert "a" in world.scheduler


async def test_rhythms_of_unread_feed_are_removed(world: World) -> None:
    world.due = {"a": NOON + 100}
    world.scheduler.reschedule("a")
    world.due.clear()

    await world.pass_time(110)

    assert world.refreshed == []
    assert len(world.scheduler) == 0


async def test_number_of_concurrent_refreshes_is_limited(world: World) -> None:
    world.gate.clear()
    world.due = {str(number): NOON + 10 for number in range(3 * CONCURRENT_MIN)}
    for target in world.due:
        world.scheduler.reschedule(target)

    await world.pass_time(20)
    assert len(world.refreshed) == CONCURRENT_MIN
    world.gate.set()
    await world.pass_time(0)
    await world.pass_time(0)
    assert len(world.refreshed) == len(set(world.refreshed)) == 3 * CONCURRENT_MIN


async def test_start_plans_all_feeds_that_are_read(world: World) -> None:
    world.due = {str(number): NOON + 10 + number for number in range(30)}
    world.scheduler.start(list(world.due), lambda _: None)
    await _until(lambda: len(world.scheduler) == 30)

    await world.pass_time(60)
    await _until(lambda: len(world.refreshed) == 30)

    assert sorted(world.refreshed) == sorted(world.due)


async def test_other_callbacks_run_between_the_starts_of_two_refreshes(world: World) -> None:
    world.due = {str(number): NOON + 10 for number in range(CONCURRENT_MIN)}
    for target in world.due:
        world.scheduler.reschedule(target)
    loop, started = asyncio.get_running_loop(), [0]

    def count_started() -> None:
        started.append(len(world.refreshed))
        if started[-1] < CONCURRENT_MIN:
            loop.call_soon(count_started)

    loop.call_soon(count_started)
    world.clock.advance(20)
    await _until(lambda: started[-1] == CONCURRENT_MIN)

    assert max(later - earlier for earlier, later in pairwise(started)) == 1


async def test_start_plans_a_feed_at_its_earliest_possible_instant(world: World) -> None:
    looked: list[str] = []

    def plan_for(target: str) -> Plan:
        looked.append(target)
        return world.plan_for(target)

    await world.scheduler.close()
    world.due = {"soon": NOON + 50, "later": NOON + 5000, "unknown": NOON + 5000}
    world.scheduler = a_scheduler(world.clock, plan_for, world.refresh)
    world.scheduler.start(list(world.due), {"soon": NOON + 40, "later": NOON + 4000}.get)
    await _until(lambda: len(world.scheduler) == 3)
    assert looked == ["unknown"]

    await world.pass_time(100)

    assert looked == ["unknown", "soon", "soon"]
    assert world.refreshed == ["soon"]


async def test_rescheduling_does_not_grow_the_heap(world: World) -> None:
    for number in range(1000):
        world.due["a"] = NOON + 10_000 - number
        world.scheduler.reschedule("a")

    assert len(world.scheduler._heap) < 100


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 -- the awaited change happens inside the tested code
            await asyncio.sleep(0.001)


async def test_start_with_many_feeds_leaves_most_of_the_time_to_others(world: World) -> None:
    """Feeds are planned in slices with pauses between them.

    A hit waits for at most one slice, however slow planning is.
    """
    names = [str(number) for number in range(40)]
    world.due = dict.fromkeys(names, NOON + 100)
    plan_for, loop = world.plan_for, asyncio.get_running_loop()
    looked: list[float] = []

    def slow(target: str) -> Plan:
        looked.append(loop.time())
        while loop.time() - looked[-1] < THROTTLED_BLOCKING_TIME / 2:
            pass
        return plan_for(target)

    scheduler = a_scheduler(world.clock, slow, world.refresh)
    scheduler.start(names, lambda _: None)
    turns = 0
    while len(scheduler) < len(names):
        await asyncio.sleep(0)
        turns += 1
    await scheduler.close()

    in_one_go = [later - earlier < THROTTLED_BLOCKING_TIME for earlier, later in pairwise(looked)]
    assert turns > len(names) // 4
    assert "1111" not in "".join("1" if each else "0" for each in in_one_go)


def laned(world: World) -> RefreshScheduler:
    """Return a scheduler whose lanes are the feeds' first letters."""
    world.scheduler = a_scheduler(world.clock, world.plan_for, world.refresh, lane_of=lambda target: target[0])
    return world.scheduler


async def test_slow_site_delays_no_other(world: World) -> None:
    await world.scheduler.close()
    scheduler = laned(world)
    world.gate.clear()
    world.due = {f"slow{number}": NOON + 10 for number in range(50)} | {f"{letter}": NOON + 20 for letter in "abcd"}
    for target in world.due:
        scheduler.reschedule(target)

    await world.pass_time(30)

    slow = [target for target in world.refreshed if target.startswith("slow")]
    assert len(slow) == LANE_WIDTH
    assert set(world.refreshed) >= set("abcd")
    world.gate.set()
    for _ in range(60):
        await world.pass_time(0)
    assert sorted(world.refreshed) == sorted(world.due)


async def test_concurrency_limit_adapts_to_the_number_of_due_feeds_and_their_duration(world: World) -> None:
    world.gate.clear()
    world.due = {str(number): NOON + 10 for number in range(3000)}
    for target in world.due:
        world.scheduler.reschedule(target)
    world.scheduler._mean_duration = 1.0

    await world.pass_time(20)
    async with asyncio.timeout(PATIENCE):
        while len(world.refreshed) < CONCURRENT_MAX:  # noqa: ASYNC110 -- the awaited change happens inside the tested code
            await asyncio.sleep(0.001)

    assert CONCURRENT_MIN < world.scheduler.limit <= CONCURRENT_MAX
    assert len(world.refreshed) == CONCURRENT_MAX


async def test_fast_origins_need_few_concurrent_refreshes(world: World) -> None:
    world.scheduler._mean_duration = 0.005
    world.scheduler._waiting = {str(number) for number in range(1000)}

    assert world.scheduler.limit == CONCURRENT_MIN


async def test_unresponsive_sites_delay_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.scheduler.close()
    scheduler = laned(world)
    world.gate.clear()
    world.due = {f"{letter}{number}": NOON + 10 for letter in "abcd" for number in range(LANE_WIDTH)}
    for target in world.due:
        scheduler.reschedule(target)
    await world.pass_time(15)
    assert len(world.refreshed) == CONCURRENT_MIN == scheduler.limit
    started = time.monotonic()

    monkeypatch.setattr("feedproxy.refresh.refresh_scheduler.time.monotonic", lambda: started + 10)
    for letter in "efg":
        world.due[letter] = NOON + 20
        scheduler.reschedule(letter)
    await world.pass_time(10)

    assert set(world.refreshed) >= set("efg")


async def test_waiting_feed_starts_when_a_refresh_in_progress_becomes_slow(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.gate.clear()
    world.due = {str(number): NOON + 10 for number in range(CONCURRENT_MIN + 1)}
    for target in world.due:
        world.scheduler.reschedule(target)
    await world.pass_time(15)
    assert len(world.refreshed) == CONCURRENT_MIN
    started = time.monotonic()

    monkeypatch.setattr("feedproxy.refresh.refresh_scheduler.time.monotonic", lambda: started + SLOW_AFTER + 1)
    await world.pass_time(SLOW_AFTER + 1)

    assert sorted(world.refreshed) == sorted(world.due)


async def test_completed_refresh_sets_no_further_alarm(world: World) -> None:
    world.due = {str(number): NOON + 10 for number in range(30)} | {"late": NOON + 50}
    for target in world.due:
        world.scheduler.reschedule(target)
    await world.pass_time(1)
    alarms: list[float] = []
    sleep = world.clock.sleep

    async def counted(seconds: float) -> None:
        alarms.append(seconds)
        await sleep(seconds)

    world.clock.sleep = counted  # type: ignore[method-assign]
    await world.pass_time(10)
    await world.pass_time(0)

    assert len(world.refreshed) == 30
    assert len(alarms) <= 2


async def test_feed_with_an_unexpected_poll_is_replanned_within_a_minute(world: World) -> None:
    await world.scheduler.close()
    surprises: list[str] = []

    def take() -> list[str]:
        taken = list(surprises)
        surprises.clear()
        return taken

    world.scheduler = a_scheduler(world.clock, world.plan_for, world.refresh, surprises=take)
    world.scheduler.start([], lambda _: None)
    await world.pass_time(1)
    world.due = {"a": NOON + 200}
    surprises.append("a")

    await world.pass_time(SLEEP_MAX)
    assert "a" in world.scheduler
    assert world.scheduler.next_at == NOON + 200


async def test_feed_with_the_earliest_possible_plan_is_not_replanned_after_an_unexpected_poll(world: World) -> None:
    await world.scheduler.close()
    planned: list[float] = []

    def plan_for(target: str) -> Plan:
        planned.append(world.clock.now())
        return Later(world.clock.now() + 200, "later", is_earliest=len(planned) == 1)

    world.scheduler = a_scheduler(world.clock, plan_for, world.refresh, surprises=lambda: ["a"])
    world.scheduler.reschedule("a")
    await world.pass_time(0)

    await world.pass_time(SLEEP_MAX)
    assert planned == [NOON]
    await world.pass_time(200 - SLEEP_MAX)
    assert NOON + 200 in planned
    await world.pass_time(SLEEP_MAX)
    assert planned[-1] == NOON + 200 + SLEEP_MAX


async def test_failed_refresh_frees_its_lane(world: World) -> None:
    await world.scheduler.close()

    async def fail(target: str) -> None:
        world.refreshed.append(target)
        del world.due[target]
        raise RuntimeError("a test's own")

    world.scheduler = a_scheduler(world.clock, world.plan_for, fail, lane_of=lambda _: "one")
    world.due = {str(number): NOON + 10 for number in range(10)}
    for target in world.due:
        world.scheduler.reschedule(target)
    for _ in range(12):
        await world.pass_time(20)
    assert len(world.refreshed) == 10
