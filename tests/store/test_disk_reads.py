"""Reads of the disk in threads: shared by callers, discarded when a value is replaced, and limited in time."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from feedproxy.errors import StoreError
from feedproxy.store import disk_reads
from feedproxy.store.disk_reads import DiskReads
from tests.waiting import PATIENCE


class World:
    """Values that threads read while `responds` is set, and what the event loop received."""

    def __init__(self) -> None:
        self.responds = threading.Event()
        self.responds.set()
        self.values: dict[str, str] = {"a": "one", "b": "two"}
        self.started: list[str] = []
        self.received: list[tuple[str, str]] = []
        self.failures: list[str] = []
        self.closed_threads: list[str] = []
        self.reads = DiskReads(
            self._read,
            on_value=lambda key, value: self.received.append((key, value)),
            on_failure=lambda key, error: self.failures.append(f"{key}: {error}"),
            close_thread=lambda: self.closed_threads.append(threading.current_thread().name),
        )

    def _read(self, key: str) -> str:
        self.started.append(key)
        assert self.responds.wait(PATIENCE)
        if key not in self.values:
            raise StoreError("unreadable")
        return self.values[key]

    async def until_started(self, count: int = 1) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.started) < count:  # noqa: ASYNC110 -- set by threads
                await asyncio.sleep(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.responds.set()
    await made.reads.close()


async def test_disk_read_runs_in_a_thread(world: World) -> None:
    world.responds.clear()
    reading = asyncio.ensure_future(world.reads.wait_for("a"))
    await world.until_started()
    assert world.received == []

    world.responds.set()

    assert await reading
    assert world.received == [("a", "one")]


async def test_disk_read_is_shared_by_its_callers(world: World) -> None:
    await asyncio.gather(*(world.reads.wait_for("a") for _ in range(5)))

    assert world.started == ["a"]


async def test_cancelled_caller_does_not_end_the_disk_read_of_other_callers(world: World) -> None:
    world.responds.clear()
    cancelled, other = (asyncio.ensure_future(world.reads.wait_for("a")) for _ in range(2))
    await world.until_started()

    cancelled.cancel()
    await asyncio.sleep(0)
    world.responds.set()

    assert await other
    assert cancelled.cancelled()
    assert world.received == [("a", "one")]


async def test_discarded_disk_read_has_no_result(world: World) -> None:
    world.responds.clear()
    reading = asyncio.ensure_future(world.reads.wait_for("a"))
    await world.until_started()

    world.reads.discard("a")

    assert not await reading
    world.responds.set()
    assert await world.reads.wait_for("b")
    world.values["a"] = "three"
    assert await world.reads.wait_for("a")
    assert ("a", "one") not in world.received
    assert ("a", "three") in world.received


async def test_failed_disk_read_is_reported_once(world: World) -> None:
    await asyncio.gather(*(world.reads.wait_for("missing") for _ in range(3)))

    assert world.failures == ["missing: unreadable"]
    assert world.received == []


async def test_disk_read_beyond_the_time_limit_counts_as_failed_until_it_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_reads, "READ_TIMEOUT", 0.01)
    world.responds.clear()

    await world.reads.wait_for("a")
    await world.reads.wait_for("b")

    assert world.reads.is_stalled
    assert world.started == ["a"]
    assert world.failures == ["a: store: a read has taken more than 0.01 s"]
    world.responds.set()
    async with asyncio.timeout(PATIENCE):
        while world.reads.is_stalled:  # noqa: ASYNC110 -- set by threads
            await asyncio.sleep(0)
    assert world.received == [("a", "one")]


async def test_disk_read_that_ends_while_the_event_loop_is_blocked_does_not_count_as_late(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_reads, "READ_TIMEOUT", 0.05)
    reading = asyncio.ensure_future(world.reads.wait_for("a"))
    await asyncio.sleep(0)

    time.sleep(0.1)  # noqa: ASYNC251 -- the read ends, and its time limit passes, before the event loop runs again

    assert await reading
    assert not world.reads.is_stalled
    assert world.failures == []


async def test_disk_reads_of_different_keys_run_at_the_same_time(world: World) -> None:
    world.responds.clear()
    reading = [asyncio.ensure_future(world.reads.wait_for(key)) for key in "ab"]

    await world.until_started(2)

    world.responds.set()
    await asyncio.gather(*reading)


async def test_close_ends_the_threads_of_disk_reads(world: World) -> None:
    await world.reads.wait_for("a")

    await world.reads.close()

    assert world.closed_threads == ["feedproxy-store-read"]


async def test_disk_reads_without_a_permitted_thread_fail_and_later_reads_try_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        async with asyncio.timeout(PATIENCE):
            await world.reads.wait_for("a")
    assert world.failures == ["a: store: no thread can be started to read the disk"]

    await world.reads.wait_for("a")
    assert world.received == [("a", "one")]
