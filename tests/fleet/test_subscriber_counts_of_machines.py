"""Readers are counted once over all machines, and remain pseudonymous."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from feedproxy.clock import ManualClock
from feedproxy.fleet.redis_keys import RedisKeys
from feedproxy.fleet.subscriber_counts_of_machines import SubscriberSums
from tests.fleet.conftest import Start
from tests.fleet.machines import Machine, until
from tests.fleet.redis_server import RedisServer
from tests.stages.origin import Origin, a_feed

NOW = "max-age=0"


def subscribers(origin: Origin) -> str:
    """Return the last number that the origin received."""
    return (origin.heard.get("user-agent") or "").partition("; ")[0].partition("(")[2]


async def test_fleet_sums_count_each_reader_once(start: Start, origin: Origin) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=NOW)
    one, other = await start(), await start()
    for number in range(3):
        await one.get("/feed", reader=f"198.51.100.{number}")
        await one.flush()
    for number in range(2, 6):
        await other.get("/feed", reader=f"198.51.100.{number}")
        await other.flush()

    assert subscribers(origin) == "6 subscribers"
    await one.get("/feed", reader="198.51.100.0")
    assert subscribers(origin) == "6 subscribers"
    assert one.service.counts.view(origin.url("/feed"), one.app.clock.now()).total == 6


async def test_fleet_sums_do_not_decrease_after_redis_has_lost_its_data(
    start: Start, origin: Origin, own_redis: RedisServer
) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=NOW)
    one, other = await start(url=own_redis.url), await start(url=own_redis.url)
    for machine, numbers in ((one, range(3)), (other, range(3, 6))):
        for number in numbers:
            await machine.get("/feed", reader=f"198.51.100.{number}")
            await machine.flush()
    for machine in (one, other):
        await machine.fleet.sync(origin.url("/feed"))
        assert machine.fleet.sums.sum_of(origin.url("/feed"))[0] == 6

    own_redis.kill()
    await one.get("/feed", reader="198.51.100.0")
    await until(lambda: not one.fleet.connection.up)
    own_redis.start()
    await until(lambda: one.fleet.connection.up and other.fleet.connection.up)
    await one.get("/feed", reader="198.51.100.9")
    await one.fleet.sync(origin.url("/feed"))

    assert one.fleet.sums.sum_of(origin.url("/feed"))[0] == 6


async def test_fleet_sums_do_not_decrease_after_a_restart_of_redis_between_two_requests(
    start: Start, origin: Origin, own_redis: RedisServer
) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=NOW)
    one, other = await start(url=own_redis.url), await start(url=own_redis.url)
    for machine, number in ((one, 1), (other, 2)):
        await machine.get("/feed", reader=f"198.51.100.{number}")
        await machine.flush()
    await one.fleet.sync(origin.url("/feed"))
    assert one.fleet.sums.sum_of(origin.url("/feed"))[0] == 2

    own_redis.kill()
    own_redis.start()
    await one.fleet.sync(origin.url("/feed"))

    assert one.fleet.connection.outage_count == 0
    assert one.fleet.sums.sum_of(origin.url("/feed"))[0] == 2


async def test_fleet_sums_count_largest_claim_of_a_fetcher(start: Start, origin: Origin) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=NOW)
    one, other = await start(), await start()
    await one.get("/feed", agent="Fetcher/1 (40 subscribers; feed-id=7)")
    await one.flush()
    await other.get("/feed", agent="Fetcher/1 (30 subscribers; feed-id=7)")
    await other.flush()
    await other.get("/feed", reader="198.51.100.9")

    assert subscribers(origin) == "41 subscribers"


@pytest.mark.parametrize("crowd", [300, 3000])
async def test_fleet_sums_of_a_crowd_are_within_the_stated_error(start: Start, origin: Origin, crowd: int) -> None:
    origin.publish("/feed", a_feed("one"), cache_control="max-age=3600")
    one, other = await start(fleet_exact_max=100), await start(fleet_exact_max=100)
    for machine, numbers in ((one, range(0, crowd * 2 // 3)), (other, range(crowd // 3, crowd))):
        await note(machine, origin.url("/feed"), numbers)
    sums = one.fleet.sums
    assert sums is not None

    await one.fleet.sync(origin.url("/feed"))

    assert abs(sums.sum_of(origin.url("/feed"))[0] - crowd) <= crowd * 0.04  # five times the standard deviation


async def note(machine: Machine, target: str, numbers: Sequence[int]) -> None:
    from feedproxy.request.context import ClientContext, Entrance

    for number in numbers:
        visit = ClientContext(Entrance.GATEWAY, "http://proxy.example", f"10.0.{number // 250}.{number % 250}")
        machine.service.audience.record_read(target, visit, "reader/1")
    await machine.fleet.sync(target)
    await until(lambda: not machine.fleet.sums.waiting)


async def test_fleet_sums_are_exact_up_to_the_bound(start: Start, origin: Origin) -> None:
    one, other = await start(fleet_exact_max=500), await start(fleet_exact_max=500)
    target = origin.url("/feed")
    await note(one, target, range(0, 300))
    await note(other, target, range(200, 500))
    await one.fleet.sync(target)

    assert one.fleet.sums is not None
    assert one.fleet.sums.sum_of(target) == (500, 0)


async def test_fleet_sums_contain_pseudonyms_only(
    start: Start, origin: Origin, redis_server: RedisServer, prefix: str
) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=NOW)
    one = await start()
    await one.get("/feed", reader="203.0.113.77", agent="A-Reader/9.9")
    await one.flush()
    await until(lambda: not one.fleet.sums.waiting)

    keys = redis_server.ask("KEYS", f"{{{prefix}}}*")
    assert isinstance(keys, list)
    kept = [key for key in keys if b":copy:" not in key]
    assert any(b":readers:" in key for key in kept)
    everything = b"".join(key + (redis_server.ask("DUMP", key) or b"") for key in kept)
    assert b"203.0.113" not in everything
    assert b"A-Reader" not in everything


class SlowRedis:
    """A connection to Redis that answers each fetch of sums when the test says so."""

    def __init__(self) -> None:
        self.outage_count = 0
        self.answers: list[asyncio.Future[list[Any]]] = []

    async def run_each(self, calls: list[Any], *, timeout_factor: float) -> list[Any]:
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


FEED = "https://example.com/feed"


class OverlappingFetches:
    """Sums whose fetches a test begins and answers in any order."""

    def __init__(self) -> None:
        self.clock, self.redis = ManualClock(1_795_176_000.0), SlowRedis()
        self.sums = SubscriberSums(
            self.redis,  # type: ignore[arg-type]  # it has the two members that the sums use
            RedisKeys("test"),
            "machine",
            lambda *_: 0,
            self.clock,
            window=3600,
            period=3600,
            exact_max=100,
            claim_max=100,
        )
        self.tasks: list[asyncio.Task[None]] = []

    async def begin(self, target: str = FEED) -> None:
        self.tasks.append(asyncio.create_task(self.sums.refresh(target)))
        await asyncio.sleep(0)
        self.clock.advance(seconds=1)

    async def answer(self, number: int, data_id: bytes, readers: int) -> None:
        self.redis.answers[number].set_result([data_id, readers, []])
        await self.tasks[number]


async def test_fleet_sum_does_not_decrease_by_a_fetch_that_began_before_data_was_found_lost() -> None:
    fetches = OverlappingFetches()
    await fetches.begin()
    await fetches.answer(0, b"data", 6)
    fetches.redis.outage_count = 1
    await fetches.begin()
    await fetches.begin("https://example.com/other")
    await fetches.answer(2, b"new data", 1)
    await fetches.answer(1, b"new data", 1)

    assert fetches.sums.sum_of(FEED) == (6, 0)


async def test_fleet_sum_of_an_overtaken_fetch_does_not_replace_a_newer_one() -> None:
    fetches = OverlappingFetches()
    await fetches.begin()
    await fetches.begin()
    await fetches.answer(1, b"data", 9)
    await fetches.answer(0, b"data", 4)

    assert fetches.sums.sum_of(FEED) == (9, 0)
