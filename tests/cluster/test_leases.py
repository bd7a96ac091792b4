"""Who fetches, and whose copy counts: leases end, numbers only grow, and who comes late is refused."""

import asyncio

import pytest

from feedproxy.cluster.keys import RedisKeys
from feedproxy.cluster.redis_connection import RedisConnection
from feedproxy.cluster.redis_store import RedisStore
from feedproxy.store import codec
from feedproxy.store.resource import Resource
from tests.cluster.conftest import Start
from tests.cluster.machines import PATIENT, Machine, until
from tests.cluster.redis_server import RedisServer
from tests.stages.origin import Origin, a_feed

LASTING = "max-age=3600"
TARGET = "http://origin.example/feed"


async def a_shelf(server: RedisServer, prefix: str, machine: str, *, lease: float = 60) -> RedisStore:
    link = RedisConnection(server.url, timeout=PATIENT / 1000)
    assert await link.probe()
    return RedisStore(link, RedisKeys(prefix), machine, lease=lease, expiry=3600)


def held_still(machine: Machine) -> None:
    """As if the whole machine were suspended: what it has taken is not prolonged."""
    machine.fleet._tasks[-1].cancel()


async def test_a_lease_is_one_machines_at_a_time_and_tokens_only_grow(redis_server: RedisServer, prefix: str) -> None:
    one, other = [await a_shelf(redis_server, prefix, name) for name in ("one", "other")]

    first = await one.acquire_lease(TARGET, 0)
    assert first.token
    assert (await other.acquire_lease(TARGET, 0)).token == 0
    await one.release_lease(TARGET, first.token)
    second = await other.acquire_lease(TARGET, 0)

    assert second.token > first.token


async def test_only_the_holder_gives_a_lease_back_or_prolongs_it(redis_server: RedisServer, prefix: str) -> None:
    one, other = [await a_shelf(redis_server, prefix, name) for name in ("one", "other")]
    first = await one.acquire_lease(TARGET, 0)
    redis_server.ask("DEL", one.keys.lease(TARGET))  # its time is over
    second = await other.acquire_lease(TARGET, 0)

    assert await one.renew_leases([(TARGET, first.token)]) == [False]
    await one.release_lease(TARGET, first.token)

    assert redis_server.ask("GET", one.keys.lease(TARGET)) == str(second.token).encode()
    assert await other.renew_leases([(TARGET, second.token)]) == [True]


async def test_a_write_with_an_older_token_is_refused(redis_server: RedisServer, prefix: str) -> None:
    one, other = [await a_shelf(redis_server, prefix, name) for name in ("one", "other")]
    first = await one.acquire_lease(TARGET, 0)
    redis_server.ask("DEL", one.keys.lease(TARGET))
    second = await other.acquire_lease(TARGET, 0)
    new, old = (codec.dump(Resource(TARGET, fetched=each)) for each in (2.0, 1.0))

    assert await other.put(TARGET, second.token, new, second.token, release=True) == (True, second.token)
    assert await one.put(TARGET, first.token, old, first.token, release=True) == (False, second.token)

    found = await one.get_if_later(TARGET, 0)
    assert found.version == second.token
    assert found.data == new


async def test_what_was_fetched_before_a_purge_comes_too_late(redis_server: RedisServer, prefix: str) -> None:
    one = await a_shelf(redis_server, prefix, "one")
    taken = await one.acquire_lease(TARGET, 0)
    await one.purge(TARGET, 0)

    done, _ = await one.put(TARGET, taken.token, b"x", taken.token, release=True)

    assert not done
    assert (await one.get_if_later(TARGET, 0)).data is None


async def test_what_was_fetched_before_everything_was_purged_comes_too_late(
    redis_server: RedisServer, prefix: str
) -> None:
    one = await a_shelf(redis_server, prefix, "one")
    taken = await one.acquire_lease(TARGET, 0)
    await one.invalidate_all()

    assert not (await one.put(TARGET, taken.token, b"x", taken.token, release=True))[0]
    after = await one.acquire_lease(TARGET, 0)
    assert (await one.put(TARGET, after.token, b"x", after.token, release=True))[0]


async def test_a_purge_that_is_told_late_leaves_what_was_fetched_since(redis_server: RedisServer, prefix: str) -> None:
    one = await a_shelf(redis_server, prefix, "one")
    taken = await one.acquire_lease(TARGET, 0)
    await one.put(TARGET, taken.token, b"x", taken.token, release=True)

    await one.purge(TARGET, taken.token - 1_000_000)

    assert (await one.get_if_later(TARGET, 0)).data == b"x"


async def test_tokens_go_on_above_what_was_lost(own_redis: RedisServer, prefix: str) -> None:
    one = await a_shelf(own_redis, prefix, "one")
    before = await one.acquire_lease(TARGET, 0)
    own_redis.kill()
    own_redis.start()
    again = await a_shelf(own_redis, prefix, "one")

    assert (await again.acquire_lease(TARGET, 0)).token > before.token


async def test_a_machine_that_was_suspended_cannot_replace_what_was_fetched_meanwhile(
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
    held_still(one)
    reader = asyncio.ensure_future(one.get("/feed"))
    await origin.asked(1)
    origin.publish("/feed", a_feed("new"), cache_control=LASTING)

    seen = await other.get("/feed")  # it waits until the lease is over
    assert b"new" in seen.body
    await other.told()
    late.set()
    assert b"old" in (await reader).body  # it is what he was fetched
    await one.told()

    assert one.fleet.store.replicator.refused == 1
    target = origin.url("/feed")
    await until(lambda: one.fleet.store.stored_token(target) == other.fleet.store.stored_token(target))
    for machine in (one, other):
        seen = await machine.get("/feed")
        assert "; hit" in seen.cache
        assert b"new" in seen.body


async def test_a_lease_is_prolonged_as_long_as_the_fetch_goes_on(start: Start, origin: Origin) -> None:
    one, other = await start(fleet_lease=1), await start(fleet_lease=1)
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    origin.gate = asyncio.Event()
    readers = [asyncio.ensure_future(machine.get("/feed")) for machine in (one, other)]
    await origin.asked(1)
    target = origin.url("/feed")

    await asyncio.sleep(3)  # three times the lease; that nothing happens meanwhile has no other sign
    holder = one if one.fleet.store.coordination.token(target) else other
    if holder.fleet.store.coordination.lost_count:
        pytest.skip("this machine was too busy to prolong a lease of a second")
    assert origin.requests == 1
    origin.gate.set()

    assert [b"one" in (await each).body for each in readers] == [True, True]


async def test_a_machine_that_dies_in_flight_leaves_the_feed_to_another(
    start: Start, origin: Origin, redis_server: RedisServer
) -> None:
    one, other = await start(fleet_lease=1), await start(fleet_lease=1)
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    taken = await one.fleet.redis_store.acquire_lease(origin.url("/feed"), 0)  # and nothing is heard of it any more
    assert taken.token

    assert b"one" in (await other.get("/feed")).body
    assert origin.requests == 1


async def test_a_copy_that_is_damaged_in_redis_is_none(
    start: Start, origin: Origin, redis_server: RedisServer, prefix: str
) -> None:
    one, other = await start(), await start()
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    await one.get("/feed")
    await one.told()
    key = RedisKeys(prefix).copy(origin.url("/feed"))
    data = redis_server.ask("HGET", key, "d")
    assert isinstance(data, bytes)
    redis_server.ask("HSET", key, "d", data[:-3] + b"xxx")

    seen = await other.get("/feed")

    assert "fwd=uri-miss" in seen.cache
    assert origin.requests == 2
