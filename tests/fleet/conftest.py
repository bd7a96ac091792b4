"""Fixtures of the fleet tests: a real Redis, an origin, and machines that are closed at the end."""

import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from feedproxy.clock import Clock, SystemClock
from tests.fleet.machines import Machine
from tests.fleet.redis_server import PROGRAM, RedisServer
from tests.stages.origin import Origin

type Start = Callable[..., Awaitable[Machine]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lengthen the timeout: the tests wait for conditions with deadlines of their own."""
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run one server for a module. Each test has its own prefix."""
    if PROGRAM is None:
        pytest.skip("not installed: redis-server or valkey-server")
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.close()


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Run a server of the test's own, which the test may kill and stop."""
    if PROGRAM is None:
        pytest.skip("not installed: redis-server or valkey-server")
    server = RedisServer(tmp_path / "redis")
    yield server
    server.close()


@pytest.fixture
def origin() -> Origin:
    return Origin(SystemClock())


@pytest.fixture
def prefix() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


@pytest.fixture
async def start(origin: Origin, prefix: str, request: pytest.FixtureRequest) -> AsyncIterator[Start]:
    """Start a machine: `await start()`, `await start(url=…, folder=…, clock=…, fleet_lease=1)`."""
    started: list[Machine] = []

    async def begin(
        *, url: str = "", folder: Path | None = None, clock: Clock | None = None, **options: Any
    ) -> Machine:
        where = url or request.getfixturevalue("redis_server").url
        machine = Machine(where, origin, prefix, folder, clock, **options)
        started.append(machine)
        return await machine.open()

    yield begin
    for machine in started:
        await machine.close()
