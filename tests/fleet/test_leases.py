"""Leases expire, tokens only increase, and a copy with an older token is refused."""

import asyncio

import pytest

from feedproxy.clock import Clock, SystemClock
from feedproxy.fleet.redis_connection import RedisConnection
from feedproxy.fleet.redis_keys import RedisKeys
from feedproxy.fleet.redis_operations import RedisOperations
from feedproxy.store import resource_codec
from feedproxy.store.resource import Resource
from tests.fleet.conftest import Start
from tests.fleet.machines import PATIENT, Machine, WrongClock, until
from tests.fleet.redis_server import RedisServer
from tests.stages.origin import Origin, a_feed

LASTING = "max-age=3600"
TARGET = "http://origin.example/feed"


async def a_store(
    server: RedisServer, prefix: str, machine: str, *, lease: float = 60, clock: Clock | None = None
) -> RedisOperations:
    link = RedisConnection(server.url, timeout=PATIENT / 1000)
    assert await link.probe()
    return RedisOperations(link, RedisKeys(prefix), machine, clock or SystemClock(), lease=lease, expiry=3600)


def suspend_renewal(machine: Machine) -> None:
    """Stop the machine's renewal of leases, as if the whole machine were suspended."""
    machine.fleet._tasks[-1].cancel()


async def test_lease_has_one_holder_and_growing_tokens(redis_server: RedisServer, prefix: str) -> None:
    one, other = [await a_store(redis_server, prefix, name) for name in ("one", "other")]

    first, _ = await one.acquire_lease(TARGET, 0)
    assert first
    assert (await other.acquire_lease(TARGET, 0))[0] == 0
    await one.release_lease(TARGET, first)
    second, _ = await other.acquire_lease(TARGET, 0)

    assert second > first


async def test_lease_is_released_and_renewed_by_its_holder_only(redis_server: RedisServer, prefix: str) -> None:
    one, other = [await a_store(redis_server, prefix, name) for name in ("one", "other")]
    first, _ = await one.acquire_lease(TARGET, 0)
    redis_server.ask("DEL", one.keys.lease(TARGET))  # the lease has expired
    second, _ = await other.acquire_lease(TARGET, 0)

    assert await one.renew_leases([(TARGET, first)]) == [False]
    await one.release_lease(TARGET, first)

    assert redis_server.ask("GET", one.keys.lease(TARGET)) == str(second).encode()
    assert await other.renew_leases([(TARGET, second)]) == [True]


async def test_lease_token_refuses_older_write(redis_server: RedisServer, prefix: str) -> None:
    one, other = [await a_store(redis_server, prefix, name) for name in ("one", "other")]
    first, _ = await one.acquire_lease(TARGET, 0)
    redis_server.ask("DEL", one.keys.lease(TARGET))
    second, _ = await other.acquire_lease(TARGET, 0)
    new, old = (resource_codec.dump(Resource(TARGET, fetched=fetched)) for fetched in (2.0, 1.0))

    assert await other.put(TARGET, second, new, second, release=True) == (True, second)
    assert await one.put(TARGET, first, old, first, release=True) == (False, second)

    found = await one.get_if_later(TARGET, 0)
    assert found.version == second
    assert found.data == new


async def test_lease_acquired_before_a_purge_of_its_target_permits_no_write(
    redis_server: RedisServer, prefix: str
) -> None:
    one = await a_store(redis_server, prefix, "one")
    taken, _ = await one.acquire_lease(TARGET, 0)
    await one.purge(TARGET, 0)

    done, _ = await one.put(TARGET, taken, b"x", taken, release=True)

    assert not done
    assert (await one.get_if_later(TARGET, 0)).data is None


async def test_lease_acquired_before_a_purge_of_all_targets_permits_no_write(
    redis_server: RedisServer, prefix: str
) -> None:
    one = await a_store(redis_server, prefix, "one")
    taken, _ = await one.acquire_lease(TARGET, 0)
    await one.invalidate_all()

    assert not (await one.put(TARGET, taken, b"x", taken, release=True))[0]
    after, _ = await one.acquire_lease(TARGET, 0)
    assert (await one.put(TARGET, after, b"x", after, release=True))[0]


async def test_purge_sent_late_keeps_copies_fetched_since(redis_server: RedisServer, prefix: str) -> None:
    one = await a_store(redis_server, prefix, "one")
    taken, _ = await one.acquire_lease(TARGET, 0)
    await one.put(TARGET, taken, b"x", taken, release=True)

    await one.purge(TARGET, 600)

    assert (await one.get_if_later(TARGET, 0)).data == b"x"


async def test_lease_tokens_continue_above_lost_ones(own_redis: RedisServer, prefix: str) -> None:
    one = await a_store(own_redis, prefix, "one")
    before, _ = await one.acquire_lease(TARGET, 0)
    own_redis.kill()
    own_redis.start()
    again = await a_store(own_redis, prefix, "one")

    assert (await again.acquire_lease(TARGET, 0))[0] > before


@pytest.mark.parametrize("ahead", [0, 300, -300])
async def test_token_without_lease_is_the_time_of_redis(redis_server: RedisServer, prefix: str, ahead: float) -> None:
    clock = WrongClock(ahead)
    one = await a_store(redis_server, prefix, "one", clock=clock)
    before = clock.now()

    await one.last_event_number()

    duration = clock.now() - before
    assert one.token_at(before) == pytest.approx((before - ahead) * 1_000_000, abs=duration * 1_000_000 if ahead else 1)


async def test_lease_of_suspended_machine_cannot_replace_later_copy(
    start: Start, origin: Origin, redis_server: RedisServer
) -> None:
    one, other = await start(fleet_lease=1), await start(fleet_lease=1)
    origin.publish("/feed", a_feed("old"), cache_control=LASTING)
    late = asyncio.Event()
    answer = origin.answer

    async def slowly(request: object) -> object:
        said = await answer(request)  # type: ignore[arg-type]
        if b"old" in said.body:
            await late.wait()
        return said

    origin.answer = slowly  # type: ignore[assignment, method-assign]
    suspend_renewal(one)
    reader = asyncio.ensure_future(one.get("/feed"))
    await origin.asked(1)
    origin.publish("/feed", a_feed("new"), cache_control=LASTING)

    seen = await other.get("/feed")  # waits until the lease has expired
    assert b"new" in seen.body
    await other.flush()
    late.set()
    assert b"old" in (await reader).body  # the copy that was fetched
    await one.flush()

    assert one.fleet.store.redis_queue.refused == 1
    target = origin.url("/feed")
    await until(lambda: one.fleet.store.stored_token(target) == other.fleet.store.stored_token(target))
    for machine in (one, other):
        seen = await machine.get("/feed")
        assert "; hit" in seen.cache
        assert b"new" in seen.body


async def test_lease_is_renewed_during_the_fetch(start: Start, origin: Origin) -> None:
    one, other = await start(fleet_lease=1), await start(fleet_lease=1)
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    origin.gate = asyncio.Event()
    readers = [asyncio.ensure_future(machine.get("/feed")) for machine in (one, other)]
    await origin.asked(1)
    target = origin.url("/feed")

    await asyncio.sleep(3)  # three times the lease duration: a renewal has no other visible effect
    holder = one if one.fleet.store.coordination.token(target) else other
    if holder.fleet.store.coordination.lost_count:
        pytest.skip("this machine was too busy to prolong a lease of a second")
    assert origin.requests == 1
    origin.gate.set()

    assert [b"one" in (await reader).body for reader in readers] == [True, True]


async def test_lease_of_dead_machine_passes_to_another(start: Start, origin: Origin, redis_server: RedisServer) -> None:
    one, other = await start(fleet_lease=1), await start(fleet_lease=1)
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    taken = await one.fleet.redis_operations.acquire_lease(origin.url("/feed"), 0)  # and is never renewed
    assert taken

    assert b"one" in (await other.get("/feed")).body
    assert origin.requests == 1


async def test_copy_damaged_in_redis_is_ignored(
    start: Start, origin: Origin, redis_server: RedisServer, prefix: str
) -> None:
    one, other = await start(), await start()
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    await one.get("/feed")
    await one.flush()
    key = RedisKeys(prefix).copy(origin.url("/feed"))
    data = redis_server.ask("HGET", key, "d")
    assert isinstance(data, bytes)
    redis_server.ask("HSET", key, "d", data[:-3] + b"xxx")

    seen = await other.get("/feed")

    assert "fwd=uri-miss" in seen.cache
    assert origin.requests == 2
