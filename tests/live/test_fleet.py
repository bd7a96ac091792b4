"""Machines of a fleet as processes, one of them with two workers: real sockets, a real Redis, real signals."""

import itertools
import json
import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.redis_server import PROGRAM, RedisServer
from tests.fleet.wire import Wire
from tests.live.origin import Authority, Gate, Origin, a_feed, until
from tests.live.product import Feedproxy, Seen, ask
from tests.live.worker_processes import connections

ADMIN = re.compile(r"the admin listener is at (http://\S+)")
LASTING = "max-age=3600"
PATIENT = 120.0
"""Seconds: the machine may be busy."""

pytestmark = pytest.mark.timeout(900)


@dataclass
class Fleet:
    """`one` has two workers. `two` reaches Redis by a connection that can be interrupted."""

    redis: RedisServer
    wire: Wire
    one: Feedproxy
    two: Feedproxy

    @property
    def machines(self) -> tuple[Feedproxy, Feedproxy]:
        return self.one, self.two

    def whole(self) -> None:
        """Wait until both are connected."""
        for each in self.machines:
            until(lambda each=each: "fleet: ok" in admin(each, "GET", "/healthz"), deadline=PATIENT)  # type: ignore[misc]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Fleet]:
    if PROGRAM is None:
        pytest.skip("not installed: redis-server or valkey-server")
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    with Wire(server.socket) as wire:
        machines: list[Feedproxy] = []
        try:
            for name, url, more in (("one", server.url, ("--workers", "2")), ("two", wire.url, ())):
                folder = tmp_path_factory.mktemp(name)
                machines.append(
                    Feedproxy(
                        folder,
                        *("--store", url, *more),
                        authority=authority.file,
                        fleet_local=folder / "own",
                        fleet_timeout=3000,
                        fleet_lease=3,
                        polling="off",
                    )
                )
            made = Fleet(server, wire, *machines)
            made.whole()
            yield made
            made.redis.go_on()
            for each in machines:
                assert each.terminate(deadline=60) == 0, each.said
                assert "Traceback" not in each.said, each.said
        finally:
            for each in machines:
                each.kill()
            server.close()


def get(machine: Feedproxy, target: str, **fields: str) -> Seen:
    return ask(machine.gateway(target), fields=fields, deadline=PATIENT)


def admin(machine: Feedproxy, method: str, path: str) -> Any:
    base = until(lambda: ADMIN.findall(machine.said), deadline=PATIENT)[-1]
    request = urllib.request.Request(f"{base}{path}", method=method, headers={"Accept": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENT) as answer:
        data = answer.read()
    return json.loads(data) if "json" in answer.headers["Content-Type"] else data.decode()


def held(fleet: Fleet, target: str) -> bool:
    """Return True if Redis has a copy."""
    return fleet.redis.ask("HEXISTS", f"{{feedproxy}}:1:copy:{target}", "d") == 1


def test_every_worker_of_every_machine_serves_one_copy(fleet: Fleet, origin: Origin) -> None:
    target = origin.url("/shared")
    origin.publish("/shared", a_feed("one"), Cache_Control=LASTING)
    get(fleet.two, target)
    until(lambda: held(fleet, target), deadline=PATIENT)

    with connections(fleet.one, each=3) as all_:
        seen = [connection.get(target) for connection in all_]
    seen.append(get(fleet.two, target))

    assert all("; hit" in each.cache for each in seen), [each.cache for each in seen]
    assert len({each.fields["Via"] for each in seen}) == 1
    assert len(origin.asked("/shared")) == 1


def test_concurrent_requests_at_all_workers_cause_one_fetch(fleet: Fleet, origin: Origin) -> None:
    target = origin.url("/herd")
    gate = Gate(lambda handler, _: handler.say(200, a_feed("x"), Content_Type="application/rss+xml"))
    origin.stage("/herd", gate)
    with ThreadPoolExecutor(40) as pool:
        herd = [pool.submit(get, machine, target) for _ in range(20) for machine in fleet.machines]
        origin.wait_for("/herd", deadline=PATIENT)
        until(lambda: admin(fleet.two, "GET", "/api/status")["under_way"] == 1, deadline=PATIENT)
        gate.open()
        seen = [each.result() for each in herd]

    assert {each.status for each in seen} == {200}
    assert len(origin.asked("/herd")) == 1


def test_purge_reaches_every_worker_of_the_other_machine(fleet: Fleet, origin: Origin) -> None:
    target = origin.url("/purged")
    origin.publish("/purged", a_feed("old"), Cache_Control=LASTING)
    get(fleet.two, target)
    with connections(fleet.one, each=1) as all_:
        for connection in all_:
            connection.get(target)
        origin.publish("/purged", a_feed("new"), Cache_Control=LASTING)

        assert admin(fleet.two, "POST", f"/purge?url={target}")["purged"] == 1

        until(lambda: all(b"new" in connection.get(target).body for connection in all_), deadline=PATIENT)
    assert b"new" in get(fleet.two, target).body


def test_origin_gets_the_number_of_readers_of_all_machines(fleet: Fleet, origin: Origin) -> None:
    target = origin.url("/counted")
    origin.publish("/counted", a_feed("x"), Cache_Control="max-age=0")
    for number in range(3):
        get(fleet.one, target, User_Agent=f"reader/{number}")
    for number in range(2, 6):
        get(fleet.two, target, User_Agent=f"reader/{number}")

    def told() -> bool:
        get(fleet.one, target, User_Agent="reader/0")
        return "(6 subscribers;" in origin.asked("/counted")[-1].agent

    until(told, deadline=PATIENT)
    agents = {re.search(r"feed-id=\w+", each.agent)[0] for each in origin.asked("/counted")}  # type: ignore[index]
    assert len(agents) == 1


def test_machine_stopped_during_a_fetch_cannot_replace_a_later_copy(fleet: Fleet, origin: Origin) -> None:
    target = origin.url("/stopped")
    old = Gate(lambda handler, _: handler.say(200, a_feed("old"), Content_Type="application/rss+xml"))
    origin.stage("/stopped", old)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(get, fleet.two, target)
        origin.wait_for("/stopped", deadline=PATIENT)
        os.kill(fleet.two.pid, signal.SIGSTOP)
        try:
            del origin.scenes["/stopped"]
            origin.publish("/stopped", a_feed("new"), Cache_Control=LASTING)
            assert b"new" in get(fleet.one, target).body  # after the lease has expired
            until(lambda: held(fleet, target), deadline=PATIENT)
        finally:
            os.kill(fleet.two.pid, signal.SIGCONT)
        old.open()
        assert reader.result().status == 200

    until(lambda: b"new" in get(fleet.two, target).body, deadline=PATIENT)
    assert b"new" in get(fleet.one, target).body
    assert len(origin.asked("/stopped")) == 2


@pytest.mark.parametrize("fault", ["kill", "stop", "stall", "drop"])
def test_loss_of_redis_is_unnoticed_by_readers_and_repaired(fleet: Fleet, origin: Origin, fault: str) -> None:
    fleet.whole()
    paths = [f"/{fault}/{name}" for name in ("held", "purged", "new-1", "new-2")]
    for path in paths:
        origin.publish(path, a_feed(path), Cache_Control=LASTING)
    earlier = []
    for path in paths[:2]:
        for machine in (*fleet.machines, *fleet.machines):
            earlier.append(get(machine, origin.url(path)).cache)
        until(lambda path=path: held(fleet, origin.url(path)), deadline=PATIENT)  # type: ignore[misc]
    do, undo = {
        "kill": (fleet.redis.kill, fleet.redis.start),
        "stop": (fleet.redis.stop, fleet.redis.go_on),
        "stall": (fleet.wire.stall, fleet.wire.mend),
        "drop": (fleet.wire.drop, fleet.wire.mend),
    }[fault]

    do()
    try:
        seen = [get(fleet.two, origin.url(path)) for path in (paths[0], *paths[2:], paths[0])]
        assert {each.status for each in seen} == {200}
        assert "; hit" in seen[0].cache, earlier
        assert "; hit" in seen[-1].cache, earlier
        until(lambda: "degraded" in admin(fleet.two, "GET", "/healthz"), deadline=PATIENT)
        assert "feedproxy_fleet_up 0.0" in admin(fleet.two, "GET", "/metrics")
        findings = admin(fleet.two, "GET", "/api/status")["findings"]
        assert any("store shared with other machines is unavailable" in each["words"] for each in findings)
        assert admin(fleet.two, "POST", f"/purge?url={origin.url(paths[1])}")["purged"] == 1
        assert get(fleet.one, origin.url(paths[0])).status == 200
    finally:
        undo()

    fleet.whole()
    until(lambda: held(fleet, origin.url(paths[2])), deadline=PATIENT)
    until(lambda: not held(fleet, origin.url(paths[1])), deadline=PATIENT)
    numbers = itertools.count()

    def all_workers_share_copies() -> bool:
        """Each worker connects to Redis by itself, and /healthz shows the connection of the first.

        Each worker is asked for a copy of its own: a copy that one worker has fetched is in the store of all workers.
        """
        with connections(fleet.one, each=1) as all_:
            for connection in all_:
                path = f"/{fault}/later-{next(numbers)}"
                origin.publish(path, a_feed(path), Cache_Control=LASTING)
                get(fleet.two, origin.url(path))
                until(lambda path=path: held(fleet, origin.url(path)), deadline=PATIENT)  # type: ignore[misc]
                if "; hit" not in connection.get(origin.url(path)).cache:
                    return False
        return True

    until(all_workers_share_copies, deadline=PATIENT)
    before = len(origin.asked(paths[2]))
    assert "; hit" in get(fleet.one, origin.url(paths[2])).cache
    assert len(origin.asked(paths[2])) == before

    def fetched_anew() -> bool:
        get(fleet.one, origin.url(paths[1]))
        return len(origin.asked(paths[1])) > 1

    until(fetched_anew, deadline=PATIENT)
    lines = fleet.two.said.splitlines()
    assert sum("is unreachable" in line for line in lines) == sum("is reachable again after" in line for line in lines)


def test_redis_password_is_not_logged(tmp_path: Path, authority: Authority) -> None:
    """No server listens there: the machine starts alone, reports that, and serves."""
    made = Feedproxy(
        tmp_path,
        *("--store", "redis://me:s3cret@127.0.0.1:1/0"),
        authority=authority.file,
        fleet_local=tmp_path / "own",
    )
    try:
        assert "degraded" in admin(made, "GET", "/healthz")
        assert "127.0.0.1:1 is unreachable" in made.said
        assert "s3cret" not in made.said
        assert "s3cret" not in json.dumps(admin(made, "GET", "/api/status"))
    finally:
        assert made.terminate(deadline=60) == 0, made.said
