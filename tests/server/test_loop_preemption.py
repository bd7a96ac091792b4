"""Hits between two callbacks of the event loop, and garbage collections while clients are idle."""

import asyncio
import functools
import gc
import weakref
from collections.abc import Callable

import pytest

from feedproxy.server.fastpath import gc_policy, loop_preemption
from feedproxy.server.fastpath.gc_policy import GcScheduler, freeze_startup_objects, without_collections
from feedproxy.server.fastpath.loop_preemption import call_between_callbacks
from tests.server.conftest import Opened


async def run_callbacks() -> None:
    """Run several callbacks in one iteration of the event loop."""
    for _ in range(3):
        asyncio.get_running_loop().call_soon(int)
    await asyncio.sleep(0)


async def test_readers_are_served_between_the_callbacks_of_one_iteration(
    front: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_preemption, "PREEMPT_AFTER", 0.0)
    proxy = await front()
    line = await proxy.warm()
    sent, seen = proxy.get(), list[int]()
    loop = asyncio.get_running_loop()
    lines = proxy.listener._handler._lines

    def step() -> None:
        if not seen:
            line.writer.write(sent)
            assert proxy.listener._epoll.poll(30), "it has not come"
        seen.append(proxy.listener._handler.access_logger.batch.written_count + len(lines))

    before = proxy.listener._handler.access_logger.batch.written_count + len(lines)
    for _ in range(3):
        loop.call_soon(step)
    assert (await line.hear()).status == 200

    assert seen[0] == before
    assert seen[-1] == before + 1, "answered before the turn was over"


async def test_readers_are_served_before_a_single_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_preemption, "PREEMPT_AFTER", 0.0)
    order = list[str]()
    end = call_between_callbacks(asyncio.get_running_loop(), lambda: order.append("look"))
    for _ in range(3):
        asyncio.get_running_loop().call_soon(order.append, "step")
        await asyncio.sleep(0)
    end()

    assert order.count("step") == 3
    assert all(order[place - 1] == "look" for place, what in enumerate(order) if what == "step")


async def test_callback_of_the_loop_preemption_is_not_preempted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_preemption, "PREEMPT_AFTER", 0.0)
    looks = list[int]()

    def look() -> None:
        looks.append(1)

    loop = asyncio.get_running_loop()
    end = call_between_callbacks(loop, look)
    looks.clear()
    steps = loop._ready  # type: ignore[attr-defined]  # asyncio's own
    loop.call_soon(look)
    handle = steps.popleft()
    end()

    assert handle._callback is look
    assert not looks


async def test_exception_between_two_callbacks_is_logged_and_harms_neither(caplog: pytest.LogCaptureFixture) -> None:
    def wrong() -> None:
        raise ValueError("wrong")

    end = call_between_callbacks(asyncio.get_running_loop(), wrong)
    await run_callbacks()
    end()

    assert "between two callbacks" in caplog.text


async def test_loop_preemption_makes_no_calls_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_preemption, "PREEMPT_AFTER", 0.0)
    served = list[int]()
    end = call_between_callbacks(asyncio.get_running_loop(), lambda: served.append(1))
    await run_callbacks()
    assert served

    end()
    many = len(served)
    await run_callbacks()

    assert len(served) == many


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that records the calls of Python's collector. Each collection finds one object."""
    return recorded_calls(monkeypatch, lambda: 1)


def recorded_calls(monkeypatch: pytest.MonkeyPatch, garbage: Callable[[], int]) -> list[str]:
    """Return the list that records the calls of Python's collector. A collection finds `garbage()` objects."""
    told = list[str]()

    def called(name: str) -> int:
        told.append(name)
        return garbage()

    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, functools.partial(called, name))
    return told


FULL, RECENT = ["unfreeze", "collect", "freeze"], ["collect", "freeze"]


def test_full_collection_runs_when_clients_are_idle_and_at_least_every_six_hours(looked: list[str]) -> None:
    held = GcScheduler(0.0)

    for now in range(int(gc_policy.FULL_INTERVAL_WHEN_IDLE), int(gc_policy.FULL_INTERVAL_WHEN_IDLE) + 10):
        held.maybe_collect(float(now), now)
    assert "unfreeze" not in looked, "there is a request each second"
    held.maybe_collect(int(gc_policy.FULL_INTERVAL_WHEN_IDLE) + 20.0, int(gc_policy.FULL_INTERVAL_WHEN_IDLE) + 9)
    assert looked[-3:] == FULL
    held.maybe_collect(2 * gc_policy.FULL_INTERVAL, 10**9)
    assert looked.count("unfreeze") == 2


def test_full_collection_runs_when_memory_has_doubled(looked: list[str]) -> None:
    memory = 400 << 20
    held = GcScheduler(0.0, trim=lambda: None, memory=lambda: memory, clock=float, collections=int)

    memory = 800 << 20
    held.maybe_collect(100.0, 100)
    assert "unfreeze" not in looked, "the fraction is not exceeded"
    memory += 1
    held.maybe_collect(101.0, 101)
    assert looked[-3:] == FULL
    memory = 1800 << 20
    held.maybe_collect(102.0, 102)
    assert looked.count("unfreeze") == 1, "the last full collection is a second ago"
    held.maybe_collect(101.0 + gc_policy.INTERVAL_MIN, 103)
    assert looked.count("unfreeze") == 2


def test_recent_collection_runs_when_memory_has_grown_by_a_fortieth(looked: list[str]) -> None:
    memory = 400 << 20
    held = GcScheduler(0.0, trim=lambda: None, memory=lambda: memory, clock=float, collections=int)

    memory = 410 << 20
    held.maybe_collect(100.0, 100)
    assert looked == [], "the fraction is not exceeded"
    memory += 1
    held.maybe_collect(101.0, 101)
    assert looked == RECENT
    memory += 20 << 20
    held.maybe_collect(102.0, 102)
    assert looked == RECENT, "the last collection is a second ago"
    held.maybe_collect(101.0 + gc_policy.RECENT_INTERVAL_MIN, 103)
    assert looked == 2 * RECENT


def test_recent_collection_runs_before_too_many_objects_are_new(looked: list[str]) -> None:
    collected = gc_policy.RECENT_MIDDLE_COLLECTIONS - 1
    durations = iter([0.0, 0.08, 1.0, 1.002])
    held = GcScheduler(
        0.0,
        trim=lambda: looked.append("trim"),
        memory=int,
        clock=lambda: next(durations),
        collections=lambda: collected,
    )

    held.maybe_collect(10.0, 1)
    assert looked == []
    collected += 1
    held.maybe_collect(11.0, 2)
    assert looked == RECENT
    held.maybe_collect(14.0, 3)
    assert looked == RECENT, "the first collection took 80 ms"
    held.maybe_collect(15.0, 4)
    assert looked == 2 * RECENT


def test_new_objects_are_only_frozen_after_a_collection_without_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, garbage = 400 << 20, 0
    looked = recorded_calls(monkeypatch, lambda: garbage)
    held = GcScheduler(
        0.0,
        trim=lambda: None,
        memory=lambda: memory,
        clock=float,
        collections=lambda: gc_policy.RECENT_MIDDLE_COLLECTIONS,
    )

    held.maybe_collect(10.0, 1)
    assert looked == RECENT
    held.maybe_collect(9.0 + gc_policy.CLEAN_INTERVAL, 2)
    assert looked == [*RECENT, "freeze"]
    memory = 411 << 20
    held.maybe_collect(9.5 + gc_policy.CLEAN_INTERVAL, 3)
    assert looked == [*RECENT, "freeze", *RECENT], "memory has grown"
    looked.clear()
    garbage = 1
    held.maybe_collect(9.5 + 2 * gc_policy.CLEAN_INTERVAL, 4)
    assert looked == RECENT
    held.maybe_collect(9.5 + 2 * gc_policy.CLEAN_INTERVAL + gc_policy.RECENT_INTERVAL_MIN, 5)
    assert looked == 2 * RECENT, "the last collection found garbage"


def test_middle_collections_are_counted_up_to_a_collection_of_all_objects() -> None:
    gc.disable()
    try:
        gc.collect()
        assert gc_policy.middle_collections() == 0
        gc.collect(1)
        gc.collect(0)
        assert gc_policy.middle_collections() == 1
    finally:
        gc.enable()


def test_recent_collection_runs_after_ten_minutes_without_growth(looked: list[str]) -> None:
    held = GcScheduler(0.0, trim=lambda: None, memory=lambda: 400 << 20, clock=float, collections=int)

    held.maybe_collect(gc_policy.RECENT_INTERVAL - 1, 1)
    assert looked == []
    held.maybe_collect(gc_policy.RECENT_INTERVAL, 2)
    assert looked == RECENT


def test_full_collections_take_at_most_a_thousandth_of_the_time(looked: list[str]) -> None:
    memory = 400 << 20
    durations = iter([0.0, 0.5, 20.0, 20.1, 30.0, 30.1, 40.0, 40.1])
    held = GcScheduler(0.0, trim=lambda: None, memory=lambda: memory, clock=lambda: next(durations), collections=int)

    memory = 900 << 20
    held.maybe_collect(100.0, 100)
    memory = 2000 << 20
    held.maybe_collect(599.0, 101)
    assert looked.count("unfreeze") == 1, "the first collection took 0.5 s"
    held.maybe_collect(600.0, 102)
    assert looked.count("unfreeze") == 2


def test_small_growth_of_a_small_process_causes_no_collection(looked: list[str]) -> None:
    memory = 40 << 20
    held = GcScheduler(0.0, trim=lambda: None, memory=lambda: memory, clock=float, collections=int)

    memory += gc_policy.RECENT_GROWTH_MIN
    held.maybe_collect(100.0, 100)
    assert looked == []
    memory += 1
    held.maybe_collect(101.0, 101)
    assert looked == RECENT
    memory = (40 << 20) + gc_policy.FULL_GROWTH_MIN + 1
    held.maybe_collect(102.0, 102)
    assert looked == RECENT + FULL


def test_no_collection_runs_while_the_store_is_loaded(looked: list[str]) -> None:
    with without_collections():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert looked == ["collect", "freeze"]


def test_recent_collection_frees_cycles_made_since_the_last_one() -> None:
    class Node:
        """A node of a cycle."""

    node = Node()
    node.self = node  # type: ignore[attr-defined]
    freed = weakref.ref(node)
    thresholds = gc.get_threshold()
    gc.disable()
    try:
        freeze_startup_objects()
        later = Node()
        later.self = later  # type: ignore[attr-defined]
        freed_later = weakref.ref(later)
        gc.collect(1)
        memory = 0
        held = GcScheduler(0.0, trim=lambda: None, memory=lambda: memory, clock=float, collections=int)
        del node, later
        gc.collect(1)
        assert freed_later() is not None, "it survived a collection of new objects"
        memory = gc_policy.RECENT_GROWTH_MIN + 1
        held.maybe_collect(100.0, 100)
        assert freed_later() is None
        assert freed() is not None, "only a full collection searches frozen objects"
        held.maybe_collect(gc_policy.FULL_INTERVAL, 101)
        assert freed() is None
    finally:
        # Objects stay frozen, as pytest's were before. Otherwise all later full collections would search them.
        gc.set_threshold(*thresholds)
        gc.enable()


def test_free_memory_is_returned_each_minute(looked: list[str]) -> None:
    held = GcScheduler(0.0, trim=lambda: looked.append("trim"), collections=int)

    for now in range(1, 121):
        held.maybe_collect(float(now), now)

    assert looked == ["trim"] * 2


def test_trim_without_c_library_support_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gc_policy.trim()
    monkeypatch.setattr(gc_policy, "_C_LIBRARY", object())
    gc_policy.trim()
