"""Copies, purges and changes of one machine reach all machines."""

import asyncio
from pathlib import Path

from feedproxy.fleet import redis_operations
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.context import ClientContext, Entrance, ProxyResponse
from tests.fleet.conftest import Start
from tests.fleet.machines import Machine, until
from tests.fleet.redis_server import RedisServer
from tests.stages.origin import Origin, a_feed

LASTING = "max-age=3600"


async def pair(start: Start, **options: object) -> tuple[Machine, Machine]:
    return await start(**options), await start(**options)


async def test_fleet_copy_of_one_machine_answers_on_another(start: Start, origin: Origin) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    one, other = await pair(start)

    first = await one.get("/feed")
    await one.flush()
    second = await other.get("/feed")

    assert "fwd=uri-miss" in first.cache
    assert "; hit" in second.cache
    assert second.body == first.body
    assert second.fields.get("etag") == first.fields.get("etag")
    assert origin.requests == 1


async def test_fleet_machines_share_one_pseudonym(start: Start, origin: Origin) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    one, other = await pair(start)

    assert (await one.get("/feed")).fields.get("via") == (await other.get("/feed")).fields.get("via")


async def test_fleet_stale_copy_is_validated_with_a_peers_validator(start: Start, origin: Origin) -> None:
    origin.publish("/feed", a_feed("one"), cache_control="max-age=0")
    one, other = await pair(start)

    await one.get("/feed")
    await one.flush()
    seen = await other.get("/feed")

    assert "if-none-match" in origin.heard
    assert "fwd=stale; fwd-status=304" in seen.cache
    assert b"one" in seen.body


async def test_fleet_new_version_arrives_without_a_request(start: Start, origin: Origin) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    one, other = await pair(start)
    await one.get("/feed")
    await one.flush()
    await other.get("/feed")

    origin.publish("/feed", a_feed("two"), cache_control=LASTING)
    await one.get("/feed", Cache_Control="no-cache", Sec_Fetch_Mode="navigate")
    await until(lambda: b"two" in other.service.store.get(origin.url("/feed")).variants[0].content.bodies["identity"])  # type: ignore[union-attr]

    seen = await other.get("/feed")
    assert "; hit" in seen.cache
    assert b"two" in seen.body
    assert origin.requests == 2


async def test_fleet_collapses_requests_of_two_machines(start: Start, origin: Origin) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    one, other = await pair(start)
    origin.gate = asyncio.Event()

    crowd = [asyncio.ensure_future(machine.get("/feed")) for _ in range(50) for machine in (one, other)]
    await until(lambda: one.service.admin.active_refreshes == other.service.admin.active_refreshes == 1)
    await until(lambda: origin.requests == 1)
    origin.gate.set()
    seen = await asyncio.gather(*crowd)

    assert origin.requests == 1
    assert {answer.status for answer in seen} == {200}
    assert len({answer.body for answer in seen}) == 1
    assert sum("collapsed" not in answer.cache for answer in seen) == 1


async def test_fleet_fetches_unstorable_response_for_each_request(start: Start, origin: Origin) -> None:
    origin.publish("/feed", a_feed("one"), cache_control="no-store")
    one, other = await pair(start)

    seen = await asyncio.gather(*(machine.get("/feed") for machine in (one, other, one, other)))

    assert origin.requests == 4
    assert all(b"one" in answer.body for answer in seen)


async def test_fleet_shares_failures(start: Start, origin: Origin) -> None:
    origin.publish("/feed", a_feed("one"), cache_control="max-age=0")
    one, other = await pair(start)
    await one.get("/feed")
    await one.flush()
    origin.break_down(500)

    seen = await one.get("/feed")
    await one.flush()
    again = await other.get("/feed")

    assert b"one" in seen.body
    assert b"one" in again.body
    assert origin.requests == 2
    assert "back-off" in again.cache


async def test_fleet_purge_reaches_every_machine(start: Start, origin: Origin) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    target = origin.url("/feed")
    one, other = await pair(start)
    await one.get("/feed")
    await one.flush()
    await other.get("/feed")

    assert await one.service.admin.purge(target) == [target]
    await until(lambda: other.service.store.get(target) is None)

    assert "fwd=uri-miss" in (await other.get("/feed")).cache
    assert origin.requests == 2


async def test_fleet_purge_counts_copies_of_other_machines(start: Start, origin: Origin) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    target = origin.url("/feed")
    one, other = await pair(start)
    await one.get("/feed")
    await one.flush()

    assert await other.service.admin.purge(target) == [target]
    await until(lambda: one.service.store.get(target) is None)


async def test_fleet_purge_by_pattern_reaches_copies_of_other_machines(start: Start, origin: Origin) -> None:
    for path in ("/a/1", "/a/2", "/b/1"):
        origin.publish(path, a_feed(path), cache_control=LASTING)
    one, other = await pair(start)
    for path in ("/a/1", "/a/2", "/b/1"):
        await one.get(path)
    await one.flush()

    purged = await other.service.admin.purge(pattern="*/a/*")

    assert sorted(purged) == [origin.url("/a/1"), origin.url("/a/2")]
    await until(lambda: not any(one.service.store.get(target) for target in purged))
    assert "; hit" in (await one.get("/b/1")).cache
    assert "fwd=uri-miss" in (await one.get("/a/1")).cache


async def test_fleet_purge_discards_running_fetch_of_another_machine(start: Start, origin: Origin) -> None:
    origin.publish("/feed", a_feed("old"), cache_control=LASTING)
    target = origin.url("/feed")
    one, other = await pair(start)
    origin.gate = asyncio.Event()
    reader = asyncio.ensure_future(one.get("/feed"))
    await origin.asked(1)

    await other.service.admin.purge(target)
    origin.gate.set()

    assert b"old" in (await reader).body
    await one.flush()
    origin.publish("/feed", a_feed("new"), cache_control=LASTING)
    assert b"new" in (await other.get("/feed")).body


async def test_fleet_lost_event_is_read_from_the_log(start: Start, origin: Origin, redis_server: RedisServer) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    target = origin.url("/feed")
    one, other = await pair(start)
    await one.get("/feed")
    await one.flush()
    await other.get("/feed")
    deaf = other.fleet.event_listener._task  # as if its connection were blocked
    assert deaf is not None
    deaf.cancel()

    await one.service.admin.purge(target)

    await until(lambda: other.service.store.get(target) is None)
    assert other.fleet.event_listener.gaps


async def test_fleet_machine_compares_everything_after_a_long_outage(start: Start, origin: Origin) -> None:
    shelf_max, redis_operations.LOG_MAX = redis_operations.LOG_MAX, 3
    try:
        one, other = await pair(start)
        paths = [f"/{number}" for number in range(8)]
        for path in paths:
            origin.publish(path, a_feed(path), cache_control=LASTING)
            await one.get(path)
        await one.flush()
        for path in paths:
            await other.get(path)
        await until(lambda: other.fleet.comparison_count)
        before = other.fleet.comparison_count
        other.fleet.connection.up = False  # disconnected from here on; its loop reconnects later
        other.fleet.connection.next_probe = float("inf")
        for path in paths[:6]:
            await one.service.admin.purge(origin.url(path))
        other.fleet.connection.next_probe = 0.0

        await until(lambda: other.fleet.comparison_count > before)
        await until(lambda: not any(other.service.store.get(origin.url(path)) for path in paths[:6]))
        assert ["; hit" in (await other.get(path)).cache for path in paths[6:]] == [True, True]
    finally:
        redis_operations.LOG_MAX = shelf_max


async def test_fleet_copies_with_credentials_are_separate_in_redis(
    start: Start, origin: Origin, tmp_path: Path
) -> None:
    wallet = tmp_path / "wallet.yaml"
    wallet.write_text("- match: http://origin.example/*\n  user: bob\n  bearer: {token: secret}\n")
    wallet.chmod(0o600)
    lasting = Fields([("Content-Type", "application/rss+xml"), ("Cache-Control", LASTING)])
    origin.speak(
        lambda request: Response(200, lasting, a_feed("private" if "authorization" in request.fields else "public"))
    )
    one, other = await pair(start, wallet=str(wallet))

    assert b"private" in await read_by(one, origin.url("/feed"), "bob")
    await one.flush()
    assert b"public" in await read_by(other, origin.url("/feed"), "")
    assert b"public" in await read_by(other, origin.url("/feed"), "eve")
    assert b"private" in await read_by(other, origin.url("/feed"), "bob")
    assert origin.requests == 2


async def read_by(machine: Machine, target: str, user: str) -> bytes:
    visit = ClientContext(Entrance.GATEWAY, "http://proxy.example", "198.51.100.1", user=user)
    answer = await machine.service.answer(Request("GET", target), visit)
    assert isinstance(answer, ProxyResponse)
    return answer.response.body


async def test_fleet_machine_drops_copies_purged_before_its_start(start: Start, origin: Origin, tmp_path: Path) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    target = origin.url("/feed")
    folder = tmp_path / "other"
    one, other = await start(), await start(folder=folder)
    await one.get("/feed")
    await one.flush()
    await other.get("/feed")
    await other.close()
    await one.service.admin.purge(target)

    again = await start(folder=folder)

    await until(lambda: again.service.store.get(target) is None)


async def test_group_invalidated_on_one_machine_is_invalid_on_all(start: Start, origin: Origin) -> None:
    for path in ("/one", "/two"):
        origin.publish(path, a_feed("old"), cache_control=LASTING, cache_groups='"news"')
    one, other = await pair(start, upstream=origin.base)
    await one.get("/one")
    await other.get("/two")
    await one.flush()
    await other.flush()
    await other.get("/one")
    for path in ("/one", "/two"):
        origin.publish(path, a_feed("new"), cache_control=LASTING, cache_groups='"news"')

    response = Response(200, Fields([("Cache-Group-Invalidation", '"news"')]))
    await one.service.admin.invalidate_after_write(Request("POST", origin.url("/form")), response)
    await one.flush()

    for machine in (one, other):
        for path in ("/one", "/two"):
            await until_new(machine, path)


async def until_new(machine: Machine, path: str) -> None:
    """Wait until the machine has fetched the feed again. It learns of other machines' changes within a moment."""
    for _ in range(500):
        if b"<title>new</title>" in (await machine.get(path)).plain:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} is old")
