"""Redis is killed, stopped or disconnected: clients notice nothing, and machines catch up afterwards."""

import asyncio
import contextlib
import logging
import os
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from feedproxy.clock import SystemClock
from feedproxy.errors import UsageError
from feedproxy.fleet import redis_queue, synchronization
from feedproxy.fleet.redis_connection import (
    RedisConnection,
    RedisRefused,
    RedisRefusedForNow,
    RedisUnavailable,
    _refusal,
    _short_message,
    host_and_port,
)
from feedproxy.fleet.redis_keys import RedisKeys
from feedproxy.fleet.redis_operations import RedisOperations
from feedproxy.fleet.redis_queue import RedisQueue
from feedproxy.process import proxy_process
from feedproxy.process.option_sources import ServePlan
from feedproxy.repeated_log_messages import RepeatedMessages
from feedproxy.store.resource import Resource
from feedproxy.subscribers.reader_pseudonyms import Pseudonym
from tests.fleet.conftest import Start
from tests.fleet.machines import WrongClock, until
from tests.fleet.redis_server import RedisServer
from tests.fleet.wire import Wire
from tests.stages.origin import Origin, a_feed

LASTING = "max-age=3600"
SHORT = 300
"""Milliseconds until Redis counts as lost. They are few because these tests wait for that."""
TRANSFER_MAX = 0.2
"""Seconds that the transfer of a message to Redis can take on a busy machine."""


async def test_redis_killed_is_refilled_without_failed_requests(
    start: Start, origin: Origin, own_redis: RedisServer
) -> None:
    one, other = await start(url=own_redis.url), await start(url=own_redis.url)
    for path in ("/held", "/later"):
        origin.publish(path, a_feed(path), cache_control=LASTING)
    await one.get("/held")
    await one.flush()

    own_redis.kill()
    for machine in (one, other):
        assert (await machine.get("/later")).status == 200
    assert "; hit" in (await one.get("/held")).cache
    assert (await other.get("/held")).status == 200
    assert origin.requests == 4  # each machine works alone
    assert not one.fleet.connection.up
    assert "degraded" in one.fleet.status_line()

    own_redis.start()
    await until(lambda: one.fleet.connection.up and other.fleet.connection.up)
    assert one.fleet.status_line() == "fleet: ok"
    third = await start(url=own_redis.url)
    for path in ("/held", "/later"):
        await until(lambda path=path: own_redis.ask("EXISTS", third.fleet.keys.copy(origin.url(path))))  # type: ignore[misc]
        assert "; hit" in (await third.get(path)).cache
    assert origin.requests == 4


async def test_redis_stopped_delays_only_the_first_request(
    start: Start, origin: Origin, own_redis: RedisServer
) -> None:
    one = await start(url=own_redis.url, fleet_timeout=SHORT)
    asked = counted(one.fleet.connection)
    for number in range(6):
        origin.publish(f"/{number}", a_feed("x"), cache_control=LASTING)
    await one.get("/0")
    own_redis.stop()
    try:
        assert "; hit" in (await one.get("/0")).cache  # the client does not notice
        seen = await asyncio.gather(*(one.get(f"/{number}") for number in range(1, 4)))
        assert {answer.status for answer in seen} == {200}
        assert not one.fleet.connection.up
        before = len(asked)
        assert (await one.get("/4")).status == 200
        assert asked[before:] == []  # no request waits for Redis
    finally:
        own_redis.go_on()
    await until(lambda: one.fleet.connection.up)
    await until(lambda: own_redis.ask("EXISTS", one.fleet.keys.copy(origin.url("/4"))))


def counted(link: RedisConnection) -> list[object]:
    """Return a list to which every later call of Redis except probes is added."""
    asked: list[object] = []
    evaluate = link._evaluate

    async def noting(calls: list[object], **options: bool) -> list[object]:
        asked.extend(calls)
        return await evaluate(calls, **options)  # type: ignore[arg-type]

    link._evaluate = noting  # type: ignore[assignment, method-assign]
    return asked


@pytest.mark.parametrize("cut", ["stall", "drop"])
async def test_machine_cut_off_works_alone_and_catches_up(
    start: Start, origin: Origin, own_redis: RedisServer, cut: str
) -> None:
    with Wire(own_redis.socket) as wire:
        one, other = await start(url=own_redis.url), await start(url=wire.url, fleet_timeout=1000)
        for path in ("/purged", "/kept", "/alone"):
            origin.publish(path, a_feed(path, "old"), cache_control=LASTING)
        for path in ("/purged", "/kept"):
            await one.get(path)
            await one.flush()
            assert "; hit" in (await other.get(path)).cache

        getattr(wire, cut)()
        assert (await other.get("/alone")).status == 200
        assert not other.fleet.connection.up
        for path in ("/purged", "/kept"):
            assert "; hit" in (await other.get(path)).cache
        origin.publish("/kept", a_feed("/kept", "new"), cache_control=LASTING)
        await one.get("/kept", Cache_Control="no-cache", Sec_Fetch_Mode="navigate")
        await one.service.admin.purge(origin.url("/purged"))
        assert "; hit" in (await other.get("/purged")).cache  # while it is disconnected

        wire.mend()
        await until(lambda: other.fleet.connection.up)
        await until(lambda: other.service.store.get(origin.url("/purged")) is None)
        await until(
            lambda: (
                other.fleet.store.stored_token(origin.url("/kept")) == one.fleet.store.stored_token(origin.url("/kept"))
            )
        )
        assert b"new" in (await other.get("/kept")).body
        await until(lambda: own_redis.ask("EXISTS", one.fleet.keys.copy(origin.url("/alone"))))
        asked = origin.requests
        assert "; hit" in (await one.get("/alone")).cache
        assert origin.requests == asked


async def test_purge_while_cut_off_is_applied_later(
    start: Start, origin: Origin, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_queue, "PURGE_DELAY_MAX", 0)  # otherwise a late purge would have to wait for a second
    clock = WrongClock(0)
    with Wire(own_redis.socket) as wire:
        one, other = await start(url=own_redis.url), await start(url=wire.url, clock=clock)
        for path in ("/purged", "/newer"):
            origin.publish(path, a_feed(path), cache_control=LASTING)
            await one.get(path)
            await one.flush()
            await other.get(path)
        fetched = time.monotonic()
        wire.drop()
        await until(lambda: not other.fleet.connection.up and time.monotonic() > fetched + 2 * TRANSFER_MAX)
        for path in ("/purged", "/newer"):
            assert await other.service.admin.purge(origin.url(path)) == [origin.url(path)]
        # A purge counts as later by the time of its transfer to Redis, and the newer copy is fetched at once.
        clock.monotonic_ahead = TRANSFER_MAX
        await one.get("/newer", Cache_Control="no-cache", Sec_Fetch_Mode="navigate")
        await one.flush()

        wire.mend()

        await until(lambda: one.service.store.get(origin.url("/purged")) is None)
        assert "; hit" in (await one.get("/newer")).cache
        await other.flush()
        assert "; hit" in (await other.get("/newer")).cache


async def test_purge_while_cut_off_is_applied_if_the_clock_of_the_machine_is_behind(
    start: Start, origin: Origin, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_queue, "PURGE_DELAY_MAX", 0)  # otherwise a late purge would have to wait for a second
    with Wire(own_redis.socket) as wire:
        one, other = await start(url=own_redis.url), await start(url=wire.url, clock=WrongClock(-300))
        origin.publish("/purged", a_feed("x"), cache_control=LASTING)
        await one.get("/purged")
        await one.flush()
        await other.get("/purged")

        wire.drop()
        await until(lambda: not other.fleet.connection.up)
        assert await other.service.admin.purge(origin.url("/purged")) == [origin.url("/purged")]
        wire.mend()

        await until(lambda: one.service.store.get(origin.url("/purged")) is None)


async def test_copy_fetched_by_a_wrong_clock_while_cut_off_is_purged_by_a_later_purge(
    start: Start, origin: Origin, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_queue, "PURGE_DELAY_MAX", 0)  # otherwise a late purge would have to wait for a second
    one, other = await start(url=own_redis.url), await start(url=own_redis.url, clock=(clock := WrongClock(300)))
    target = origin.url("/feed")
    own_redis.kill()
    await until(lambda: not one.fleet.connection.up and not other.fleet.connection.up)
    clock.ahead = 240  # the fetch is a minute older than the purge
    origin.publish("/feed", a_feed("x"), cache_control=LASTING)
    await other.get("/feed")
    clock.ahead = 300
    await one.service.admin.purge(target)

    own_redis.start()

    await until(lambda: other.fleet.store.local.peek(target) is None)
    for machine in (one, other):
        await machine.flush()
    assert not own_redis.ask("HEXISTS", one.fleet.keys.copy(target), "d")
    assert one.fleet.store.local.peek(target) is None


async def test_purge_that_a_promoted_replica_lacks_is_repeated(
    start: Start, origin: Origin, own_redis: RedisServer
) -> None:
    one, other = await start(url=own_redis.url), await start(url=own_redis.url)
    targets = [origin.url(path) for path in ("/purged", "/fetched-again")]
    keys = [one.fleet.keys.copy(target) for target in targets]
    for path in ("/purged", "/fetched-again"):
        origin.publish(path, a_feed(path), cache_control=LASTING)
        await one.get(path)
        await one.flush()
        await other.get(path)
    replicated = [own_redis.ask("HGETALL", key) for key in keys]
    for target in targets:
        await one.service.admin.purge(target)
    await one.get("/fetched-again")
    await one.flush()
    await until(lambda: other.service.store.get(targets[0]) is None)

    own_redis.kill()
    own_redis.start()
    for key, copy in zip(keys, replicated, strict=True):
        assert isinstance(copy, dict)
        own_redis.ask("HSET", key, *(part for pair in copy.items() for part in pair))

    await until(lambda: not own_redis.ask("HEXISTS", keys[0], "d"))
    await until(lambda: one.fleet.connection.up and other.fleet.connection.up)
    for machine in (one, other):
        await machine.flush()
        assert machine.service.store.get(targets[0]) is None
    again = one.fleet.store.stored_token(targets[1])
    assert again
    await until(lambda: own_redis.ask("HGET", keys[1], "f") == str(again).encode())


async def test_shared_state_that_a_full_redis_has_evicted_is_stored_again(
    start: Start, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synchronization, "STATE_INTERVAL", 0)
    one = await start(url=own_redis.url)
    state = own_redis.ask("HGETALL", one.fleet.keys.identity)

    own_redis.ask("DEL", one.fleet.keys.identity)

    await until(lambda: own_redis.ask("HGETALL", one.fleet.keys.identity) == state)


async def test_copy_fetched_later_replaces_the_other_of_two_copies_fetched_without_redis(
    start: Start, origin: Origin, own_redis: RedisServer
) -> None:
    one, other = await start(url=own_redis.url), await start(url=own_redis.url)
    target = origin.url("/feed")
    own_redis.kill()
    origin.publish("/feed", a_feed("earlier"), cache_control=LASTING)
    await one.get("/feed")
    origin.publish("/feed", a_feed("later"), cache_control=LASTING)
    await other.get("/feed")
    own_redis.start()

    await until(lambda: one.fleet.connection.up and other.fleet.connection.up)
    await until(lambda: one.fleet.store.stored_token(target) == other.fleet.store.stored_token(target))
    for machine in (one, other):
        assert b"later" in (await machine.get("/feed")).body


async def test_machine_started_without_redis_keeps_its_identity(
    start: Start, origin: Origin, own_redis: RedisServer, tmp_path: Path
) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=LASTING)
    one = await start(url=own_redis.url, folder=tmp_path / "one")
    name = (await one.get("/feed")).fields.get("via")
    await one.close()
    own_redis.kill()

    again = await start(url=own_redis.url, folder=tmp_path / "one")
    seen = await again.get("/feed")

    assert "; hit" in seen.cache
    assert seen.fields.get("via") == name
    own_redis.start()
    await until(lambda: again.fleet.connection.up)
    await until(lambda: own_redis.ask("EXISTS", again.fleet.keys.copy(origin.url("/feed"))))
    await until(lambda: own_redis.ask("EXISTS", again.fleet.keys.identity))
    new = await start(url=own_redis.url, folder=tmp_path / "new")
    assert (await new.get("/feed")).fields.get("via") == name


async def test_redis_state_change_is_logged_once(
    start: Start, origin: Origin, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "feedproxy.fleet")
    one = await start(url=own_redis.url)
    own_redis.kill()
    for number in range(5):
        origin.publish(f"/{number}", a_feed("x"), cache_control=LASTING)
        await one.get(f"/{number}")
    own_redis.start()
    await until(lambda: one.fleet.connection.up)

    messages = [record.getMessage() for record in caplog.records]
    assert [message for message in messages if "unreachable" in message] == [
        f"Redis at {own_redis.socket} is unreachable (Connection refused): continuing with the local store only"
    ] or len([message for message in messages if "unreachable" in message]) == 1
    assert len([message for message in messages if "is reachable again after" in message]) == 1


async def test_redis_full_is_logged_once_without_failed_requests(
    start: Start, origin: Origin, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    one = await start(url=own_redis.url)
    own_redis.ask("CONFIG", "SET", "maxmemory", "1")
    for number in range(3):
        origin.publish(f"/{number}", a_feed("x"), cache_control=LASTING)
        assert (await one.get(f"/{number}")).status == 200
    await until(lambda: one.fleet.connection.refusal_count)

    assert "; hit" in (await one.get("/0")).cache
    assert one.fleet.connection.up
    assert len([record for record in caplog.records if "refuses" in record.getMessage()]) == 1


@pytest.mark.parametrize("setting", ["maxmemory", "min-replicas-to-write"])
async def test_redis_that_refuses_writes_for_now_gets_copies_and_purges_later(
    start: Start, origin: Origin, own_redis: RedisServer, setting: str
) -> None:
    one, other = await start(url=own_redis.url), await start(url=own_redis.url)
    for path in ("/purged", "/later"):
        origin.publish(path, a_feed(path), cache_control=LASTING)
    await one.get("/purged")
    await one.flush()
    await other.get("/purged")
    own_redis.ask("CONFIG", "SET", setting, "1")
    await one.get("/later")
    await until(lambda: one.fleet.connection.refusal)
    await one.service.admin.purge(origin.url("/purged"))
    origin.publish("/purged", a_feed("/purged", "new"), cache_control=LASTING)

    assert "; hit" not in (await one.get("/purged")).cache  # Redis still has the purged copy
    assert "redis refuses commands" in one.fleet.status_line()

    own_redis.ask("CONFIG", "SET", setting, "0")
    await until(lambda: not one.fleet.store.redis_queue)
    assert one.fleet.status_line() == "fleet: ok"
    assert own_redis.ask("EXISTS", one.fleet.keys.copy(origin.url("/later")))
    await until(lambda: other.service.store.get(origin.url("/purged")) is None)
    assert b"new" in (await other.get("/purged")).body


@pytest.mark.parametrize(
    ("text", "is_for_now"),
    [
        ("MISCONF Redis is configured to save RDB snapshots", True),
        ("NOREPLICAS Not enough good replicas to write. script: 0, on @user_script:1.", True),
        ("BUSY Redis is busy running a script", True),
        ("WRONGTYPE Operation against a key holding the wrong kind of value script: 0, on @user_script:1.", True),
        ("value is not an integer or out of range script: 0, on @user_script:1.", True),
        ("The user executing the script can't run this command or subcommand script: 0, on @user_script:1.", True),
        ("Error running script (call to f_1): @user_script:9: -OOM command not allowed", True),
        ("Error running script (call to f_1): @user_script:9: @user_script: 9: WRONGTYPE Operation against", True),
        ("unknown command 'evalsha', with args beginning with: ", False),
        ("user_script:1: attempt to perform arithmetic on a nil value script: 0, on @user_script:1.", False),
        ("Wrong number of args calling Redis command from script script: 0, on @user_script:1.", False),
        ("Error compiling script (new function): user_script:1: '=' expected near '<eof>'", False),
    ],
)
def test_redis_refusal_is_final_if_the_request_is_wrong(text: str, is_for_now: bool) -> None:
    from redis.exceptions import ResponseError

    assert isinstance(_refusal(ResponseError(text), text), RedisRefusedForNow) == is_for_now


@pytest.mark.parametrize(
    "reply",
    [
        b"LOADING Redis is loading the dataset in memory",
        b"CLUSTERDOWN The cluster is down",
        b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        b"NOPERM this user has no permissions to run the 'evalsha' command",
        b"TRYAGAIN Multiple keys request during rehashing of slot",
    ],
)
async def test_purge_that_redis_refuses_for_now_is_sent_again(tmp_path: Path, reply: bytes) -> None:
    scripts: list[list[bytes]] = []
    replies = [b"-" + reply, b"$1\r\n7"]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                count = int((await reader.readuntil(b"\r\n"))[1:])
                words = []
                for _ in range(count):
                    length = int((await reader.readuntil(b"\r\n"))[1:])
                    words.append((await reader.readexactly(length + 2))[:-2])
                if words[0] == b"EVALSHA":
                    scripts.append(words)
                    writer.write(replies[min(len(scripts), len(replies)) - 1] + b"\r\n")
                else:
                    writer.write(b"+OK\r\n")
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "redis.sock")
    link = RedisConnection(f"unix://{tmp_path / 'redis.sock'}", timeout=60)
    assert await link.probe()
    operations = RedisOperations(link, RedisKeys("a-test"), "machine", SystemClock(), lease=1, expiry=1)
    queue = RedisQueue(operations, lambda _: None, lambda _: None, SystemClock())
    queue.start()
    queue.enqueue_purge("http://example.com/feed")
    await until(lambda: scripts and not queue.busy)
    assert queue.is_purge_pending("http://example.com/feed")

    assert link.up or await link.probe()
    queue.wake()
    await until(lambda: not queue and not queue.busy)

    assert [words[3].endswith(b":copy:http://example.com/feed") for words in scripts] == [True, True]
    await queue.close(0)
    await link.close()
    server.close()


async def test_purge_that_redis_always_refuses_does_not_delay_others() -> None:
    tried: list[str] = []

    class RefusingRedis:
        connection = SimpleNamespace(up=True, address="a test")

        async def purge(self, target: str, age: float, version: int) -> int:
            tried.append(target)
            if target == "refused":
                raise RedisRefusedForNow("WRONGTYPE")
            return 1

        async def release_lease(self, target: str, token: int) -> None:
            tried.append(f"release of {target}")

    queue = RedisQueue(RefusingRedis(), lambda _: None, lambda _: None, SystemClock())  # type: ignore[arg-type]
    queue.enqueue_release("lease", 1)
    for target in ("refused", "another", "a third"):
        queue.enqueue_purge(target)
    queue.start()
    await until(lambda: not queue.busy and tried)
    assert tried == ["refused", "release of lease"]

    queue.wake()
    await until(lambda: not queue.busy and "a third" in tried)

    assert tried[2:] == ["another", "a third", "refused"]
    assert queue.is_purge_pending("refused")
    await queue.close(0)


async def test_event_of_no_later_use_is_dropped_if_redis_refuses_it() -> None:
    tried: list[str] = []

    def event(name: str) -> Callable[[], Awaitable[None]]:
        async def send() -> None:
            tried.append(name)
            raise RedisRefusedForNow("NOPERM")

        return send

    operations = SimpleNamespace(connection=SimpleNamespace(up=True, address="a test"))
    queue = RedisQueue(operations, lambda _: None, lambda _: None, SystemClock())  # type: ignore[arg-type]
    queue.send_event(event("slot"), is_useful_later=False)
    queue.send_event(event("change"))
    queue.start()
    await until(lambda: not queue.busy and tried)
    queue.wake()
    await until(lambda: not queue.busy and len(tried) == 3)
    await queue.close(0)

    assert tried == ["slot", "change", "change"]


async def test_purge_is_pending_while_redis_has_not_answered_it() -> None:
    begun, answered = asyncio.Event(), asyncio.Event()

    class SlowRedis:
        connection = SimpleNamespace(up=True, address="a test")

        async def purge(self, target: str, age: float, version: int) -> int:
            begun.set()
            await answered.wait()
            return 1

    queue = RedisQueue(SlowRedis(), lambda _: None, lambda _: None, SystemClock())  # type: ignore[arg-type]
    queue.start()
    queue.enqueue_purge("http://example.com/feed")
    await begun.wait()
    assert queue.is_purge_pending("http://example.com/feed")

    answered.set()
    await queue.flush(60)
    assert not queue.is_purge_pending("http://example.com/feed")
    await queue.close(0)


async def test_redis_full_loses_the_leases_of_copies_that_it_refused(
    start: Start, origin: Origin, own_redis: RedisServer
) -> None:
    one = await start(url=own_redis.url)
    for path in ("/1", "/2"):
        assert await one.fleet.store.coordination.acquire_lease(origin.url(path))
    own_redis.ask("CONFIG", "SET", "maxmemory", "1")
    for path in ("/1", "/2"):
        await one.service.store.put(Resource(origin.url(path), fetched=2.0))
        one.fleet.store.coordination.release_lease(origin.url(path))

    for path in ("/1", "/2"):
        await until(lambda path=path: not own_redis.ask("EXISTS", one.fleet.keys.lease(origin.url(path))))  # type: ignore[misc]


async def test_redis_replica_is_unavailable_until_it_is_writable(
    start: Start, origin: Origin, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    one = await start(url=own_redis.url)
    own_redis.ask("REPLICAOF", "127.0.0.1", "1")
    origin.publish("/feed", a_feed("x"), cache_control=LASTING)
    assert (await one.get("/feed")).status == 200
    link = one.fleet.connection
    await until(lambda: not link.up)

    for _ in range(5):
        assert not await link.probe()

    assert link.outage_count == 1
    assert "read-only" in link.reason
    assert len([record for record in caplog.records if "unreachable" in record.getMessage()]) == 1
    own_redis.ask("REPLICAOF", "NO", "ONE")
    await until(lambda: link.up)


async def test_redis_unstable_is_logged_once_a_minute(own_redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    link = RedisConnection(own_redis.url, timeout=5)
    for _ in range(4):
        assert await link.probe()
        link.mark_unavailable("a test")

    assert len([record for record in caplog.records if "unreachable" in record.getMessage()]) == 1
    link._outages = RepeatedMessages()  # a minute later
    own_redis.kill()
    assert not await link.probe()
    assert len([record for record in caplog.records if "unreachable" in record.getMessage()]) == 2
    await link.close()


async def test_redis_outage_for_another_reason_is_logged_at_once(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "feedproxy.fleet")
    link = RedisConnection(own_redis.url, timeout=5)
    for reason in ("one reason", "another reason", "one reason"):
        assert await link.probe()
        link.mark_unavailable(reason)
    await link.close()

    messages = [record.getMessage() for record in caplog.records]
    assert [re.search(r"\((.*)\)|again", message)[0] for message in messages] == [  # type: ignore[index]
        "(one reason)",
        "again",
        "(another reason)",
        "again",
    ]


async def test_redis_emptied_is_logged_as_such(
    start: Start, origin: Origin, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "feedproxy.fleet")
    one = await start(url=own_redis.url)
    origin.publish("/feed", a_feed("x"), cache_control=LASTING)
    await one.get("/feed")
    await one.flush()
    await until(lambda: bool(one.fleet.event_listener.last_number))

    own_redis.ask("FLUSHALL")

    await until(lambda: "fleet: Redis has lost its data, comparing all copies" in caplog.text)
    assert "missed" not in caplog.text


async def test_redis_probe_waits_longer_for_a_connection_than_requests_do(own_redis: RedisServer) -> None:
    link = RedisConnection(own_redis.url, timeout=1e-9)

    assert await link.probe(timeout=10), link.reason
    await link.close()


async def test_redis_wrong_password_is_logged_as_such(own_redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    own_redis.ask("CONFIG", "SET", "requirepass", "right")
    link = RedisConnection(f"unix://:wrong@{own_redis.socket}", timeout=5)

    assert not await link.probe()
    link.mark_unavailable(link.reason)

    assert "password" in caplog.text
    await link.close()


async def test_redis_invalid_number_is_refused(start: Start, own_redis: RedisServer) -> None:
    one = await start(url=own_redis.url)
    link, names = one.fleet.connection, RedisKeys("a-test:")
    shelf = RedisOperations(link, names, "machine", SystemClock(), lease=1, expiry=1)
    own_redis.ask("SET", names.sequence, "no number")

    with pytest.raises(RedisRefused):
        await shelf.last_event_number()
    with pytest.raises(RedisRefused):
        await shelf.events_since(1)


async def test_redis_data_of_another_program_is_logged_once_with_its_keys(
    start: Start, origin: Origin, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    one = await start(url=own_redis.url)
    names = one.fleet.keys
    own_redis.ask("SET", names.fencing_counter, "no number")
    own_redis.ask("DEL", names.sequence)
    own_redis.ask("LPUSH", names.sequence, "no number")
    for number in range(5):
        origin.publish(f"/{number}?token=secret", a_feed("x"), cache_control=LASTING)
        assert (await one.get(f"/{number}?token=secret")).status == 200
    await until(lambda: any(names.sequence in record.getMessage() for record in caplog.records))

    messages = [record.getMessage() for record in caplog.records if "refuses commands" in record.getMessage()]
    assert len(messages) == len(set(messages)), "each is logged once"
    assert any(f"or {names.fencing_counter})" in message for message in messages)
    assert not any("secret" in message or "script" in message for message in messages)
    assert one.fleet.status_line().startswith("fleet: degraded, redis refuses commands: ")
    assert "refuses commands" in one.fleet.problem()


async def test_redis_malformed_data_of_another_machine_is_passed_over(
    start: Start, origin: Origin, own_redis: RedisServer
) -> None:
    one = await start(url=own_redis.url)
    names, target, nested = one.fleet.keys, origin.url("/feed"), "[" * 100_000
    now = f"{one.fleet._clock.now() * 1000:.0f}"
    for member in (nested, "1", '[[], "id", "machine"]', '["a service", "id", "machine"]'):
        own_redis.ask("HSET", names.claims(target), member, f"7 {now}")
    own_redis.ask("HSET", names.claims(target), '["another", "id", "machine"]', "7 " + "9" * 400)
    number = own_redis.ask("INCR", names.sequence)
    own_redis.ask("ZADD", names.log, str(number), f"{number} 0 {nested}")

    await one.fleet.event_listener.catch_up()
    await one.fleet.sums.refresh(target)

    assert one.fleet.event_listener.last_number == number
    assert one.fleet.sums.sum_of(target) == (0, 7)


async def test_redis_data_of_another_program_for_one_feed_does_not_disturb_other_feeds(
    start: Start, origin: Origin, own_redis: RedisServer
) -> None:
    one, other = await start(url=own_redis.url), await start(url=own_redis.url)
    names, now = one.fleet.keys, one.fleet._clock.now()
    for path in ("/broken", "/sound"):
        origin.publish(path, a_feed("x"), cache_control=LASTING)
    own_redis.ask("SET", names.claims(origin.url("/broken")), "no hash")
    for period in range(int(now // 86_400) - 1, int(now // 86_400) + 1):
        own_redis.ask("SET", names.readers(origin.url("/broken"), period), "no set")

    one.fleet.sums.record((origin.url("/broken"), Pseudonym(1, 2), "", now))
    one.fleet.sums.record((origin.url("/sound"), Pseudonym(1, 2), "", now))
    await one.fleet.sums.sync()
    await other.fleet.sums.refresh(origin.url("/sound"))

    assert one.fleet.sums.sum_of(origin.url("/sound")) == (1, 0)
    assert other.fleet.sums.sum_of(origin.url("/sound")) == (1, 0)
    assert one.fleet.connection.up


async def test_redis_unavailable_gets_no_requests() -> None:
    link = RedisConnection("redis://127.0.0.1:1/", timeout=1)

    assert not await link.probe()
    link.mark_unavailable(link.reason)
    with pytest.raises(RedisUnavailable):
        await link.run_all([])


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), "[SSL: WRONG_VERSION_NUMBER]"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
    ],
)
def test_redis_connection_failure_is_named_by_its_cause(cause: OSError, reason: str) -> None:
    error = Exception("Error connecting to redis.example:6379. A text.")
    error.__cause__ = cause
    assert _short_message(error).startswith(reason)


async def test_redis_connection_that_is_refused_is_named_so() -> None:
    link = RedisConnection("redis://127.0.0.1:1/", timeout=5)

    assert not await link.probe()
    link.mark_unavailable(link.reason)

    assert link.reason == "Connection refused"


def test_redis_address_is_shown_without_password() -> None:
    assert host_and_port("rediss://me:secret@redis.example:6380/1") == "redis.example:6380"
    assert host_and_port("redis://:secret@[::1]/1") == "[::1]:6379"
    with pytest.raises(UsageError) as error:
        RedisConnection("redis://me:secret@redis.example:port/", timeout=1)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("redis://redis.example/0?no=secret", "invalid address redis.example:6379: unknown parameter 'no'"),
        ("redis://redis.example/0?ssl_ca_certs=x", "invalid address redis.example:6379: unknown parameter 'ssl_"),
        ("rediss://redis.example/0?ssl_cert_reqs=x", "invalid address redis.example:6379: Invalid SSL Certificate"),
        ("rediss://redis.example/0?ssl_ca_certs=/no/file", "ssl_ca_certs: /no/file cannot be read: No such file"),
    ],
)
def test_redis_address_with_an_invalid_parameter_is_refused(address: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^store: {message}"):
        RedisConnection(address, timeout=1)


def test_redis_certificate_that_is_a_pipe_does_not_block_the_start(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "ca.pem")

    with pytest.raises(UsageError, match=f"^store: ssl_ca_certs: {path} cannot be read: it is a pipe"):
        RedisConnection(f"rediss://redis.example/0?ssl_ca_certs={path}", timeout=1)


async def test_redis_address_is_checked_without_a_start(tmp_path: Path) -> None:
    options = {"store": "redis://redis.example/0?no=1", "confdir": str(tmp_path)}

    with pytest.raises(UsageError, match="unknown parameter 'no'"):
        await proxy_process.check(ServePlan(options=options))


async def test_event_with_an_unexpected_error_is_not_sent_again() -> None:
    attempts: list[str] = []

    async def fail() -> None:
        attempts.append("failing")
        await asyncio.sleep(0)
        raise ValueError("not a value of Redis")

    async def succeed() -> None:
        attempts.append("next")

    operations = SimpleNamespace(connection=SimpleNamespace(up=True, address="a test"))
    queue = RedisQueue(operations, lambda _: None, lambda _: None, SystemClock())  # type: ignore[arg-type]
    queue.send_event(fail)
    queue.send_event(succeed)
    queue.start()
    await until(lambda: not queue and not queue.busy)
    await queue.close(0)

    assert attempts == ["failing", "next"]


async def test_event_that_a_full_queue_drops_is_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_queue, "EVENTS_MAX", 2)
    operations = SimpleNamespace(connection=SimpleNamespace(up=True, address="a test"))
    queue = RedisQueue(operations, lambda _: None, lambda _: None, SystemClock())  # type: ignore[arg-type]
    sent: list[int] = []

    def event(number: int) -> Callable[[], Awaitable[None]]:
        async def send() -> None:
            if number == 1:
                queue.send_event(event(3))  # while event 1 is sent
            sent.append(number)

        return send

    queue.send_event(event(1))
    queue.send_event(event(2))
    queue.start()
    await until(lambda: not queue and not queue.busy)
    await queue.close(0)

    assert sent == [1, 2, 3]
