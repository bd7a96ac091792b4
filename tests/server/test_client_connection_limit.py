"""The limit of connections per client address."""

import asyncio
import resource
from collections.abc import AsyncIterator
from typing import Any

import pytest

from feedproxy.clock import ManualClock
from feedproxy.server.client_connection_limit import ConnectionLimiter
from feedproxy.server.fastpath.listener import RESERVED
from feedproxy.settings import Settings
from feedproxy.upstream.local_resource_exhaustion import DESCRIPTORS_RESERVED
from feedproxy.upstream.origin_client import FetchLimits
from tests.server.conftest import Opened
from tests.stages.play import OnProxy


def test_closed_connection_frees_its_slot_and_leaves_no_state() -> None:
    crowd, settings = ConnectionLimiter(), Settings(max_connections_per_address=2)

    assert [crowd.acquire(client, "192.0.2.7", settings) for client in "abc"] == [True, True, False]
    assert crowd.acquire("d", "192.0.2.8", settings)
    crowd.release("c")  # the connection was refused
    assert not crowd.acquire("e", "192.0.2.7", settings)
    crowd.release("a")
    assert crowd.acquire("f", "192.0.2.7", settings)

    for client in "bdf":
        crowd.release(client)
    assert not crowd._counts
    assert not crowd._networks


@pytest.mark.parametrize(
    "given", [{"max_connections_per_address": 0}, {"trusted_proxies": ("192.0.2.0/24",)}], ids=["none", "trusted"]
)
def test_load_balancer_is_exempt_from_the_limit_and_zero_means_unlimited(given: dict[str, Any]) -> None:
    crowd, settings = ConnectionLimiter(), Settings(**{"max_connections_per_address": 1, **given})

    assert all(crowd.acquire(str(each), "192.0.2.7", settings) for each in range(10))


@pytest.fixture
async def small(request: pytest.FixtureRequest) -> AsyncIterator[OnProxy]:
    stage = OnProxy(ManualClock(1_800_000_000.0), request.param)
    await stage.open()
    yield stage
    await stage.close()


async def connected(stage: OnProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(stage.base.rpartition(":")[2]))


PAGE = b"GET / HTTP/1.1\r\nHost: us\r\n\r\n"


@pytest.mark.parametrize("small", [{"max_connections_per_address": 2}], indirect=True)
async def test_excess_connection_is_closed_while_others_are_served(small: OnProxy) -> None:
    held = [await connected(small) for _ in range(2)]
    for reader, writer in held:
        writer.write(PAGE)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")

    reader, writer = await connected(small)

    assert await reader.read() == b""
    for _, each in (*held, (reader, writer)):
        each.close()


@pytest.mark.parametrize(("limit", "for_clients"), [(1024, 1024 - 232), (256, 128)])
async def test_idle_clients_leave_descriptors_for_all_exchanges_with_origins(
    front: Opened, monkeypatch: pytest.MonkeyPatch, limit: int, for_clients: int
) -> None:
    assert RESERVED == FetchLimits().connections.slots + DESCRIPTORS_RESERVED == 232
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))

    assert (await front()).listener._reserved_from == for_clients
