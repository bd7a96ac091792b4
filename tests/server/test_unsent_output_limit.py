"""Responses that clients do not read take a limited amount of memory."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from feedproxy.server import unsent_output_limit
from feedproxy.server.mitm.flow_handler import get_flow_handler
from feedproxy.server.unsent_output_limit import UnsentOutput, UnsentOutputLimit, buffer_of
from feedproxy.settings import Settings
from tests.server.conftest import Line, Opened, until

LARGE = 9_000_000
"""Bytes of a response that no socket buffer accepts as a whole."""


@dataclass
class Connections:
    """Connections with unsent output, and the names of those that were closed."""

    outputs: list[UnsentOutput] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def add(self, name: str, peer: str, *buffers: tuple[int, int]) -> None:
        self.outputs.append(UnsentOutput(peer, buffers, lambda: self.closed.append(name)))

    def __call__(self) -> Iterable[UnsentOutput]:
        return self.outputs


def enforced(connections: Connections, monkeypatch: pytest.MonkeyPatch, limit: int) -> int:
    monkeypatch.setattr(Settings, "unsent_max", limit)
    limiter = UnsentOutputLimit(Settings)
    limiter.sources.append(connections)
    return limiter.enforce()


def test_network_with_the_most_unsent_output_loses_its_largest_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = Connections()
    connections.add("honest", "192.0.2.1", (1, 60))
    for number in range(2, 7):
        connections.add(f"hostile {number}", "198.51.100.1", (number, 40))
    connections.add("hostile, large", "198.51.100.1", (9, 50))

    assert enforced(connections, monkeypatch, 150) == 140
    assert connections.closed == ["hostile, large", "hostile 2", "hostile 3", "hostile 4"]


def test_content_that_several_clients_read_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = Connections()
    for number in range(100):
        connections.add(str(number), f"192.0.2.{number}", (1, 60))

    assert enforced(connections, monkeypatch, 60) == 60
    assert not connections.closed


def test_network_is_a_64_bit_prefix_in_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = Connections()
    connections.add("honest", "192.0.2.1", (1, 50))
    for number in range(2, 5):
        connections.add("hostile", f"2001:db8::{number}", (number, 30))

    enforced(connections, monkeypatch, 100)

    assert connections.closed == ["hostile", "hostile"]


def test_slice_of_a_body_counts_with_the_size_of_the_whole_body() -> None:
    body = bytes(1000)

    assert buffer_of(memoryview(body)[990:]) == buffer_of(body) == (id(body), 1000)


@pytest.mark.parametrize("fast_path", [True, False])
async def test_client_that_reads_none_of_its_responses_loses_connections(
    front: Opened, monkeypatch: pytest.MonkeyPatch, fast_path: bool
) -> None:
    monkeypatch.setattr(Settings, "unsent_max", 2 * LARGE + 1_000_000)
    monkeypatch.setattr(unsent_output_limit, "CHECK_DELAY", 0)
    proxy = await front(fast_path=fast_path, memory_max=16_777_216)
    lines = [await proxy.line() for _ in range(4)]
    for number, line in enumerate(lines):
        body = bytes([number]) * LARGE
        proxy.origin.publish(f"/{number}", body, content_type="application/octet-stream", cache_control="max-age=60")
        await line.say(proxy.get(f"/{number}"))

    await until(lambda: proxy.service_calls == 4 and proxy.stage.app.connections == 2)

    complete = await asyncio.gather(*map(is_complete, lines))
    assert sum(complete) == 2


async def is_complete(line: Line) -> bool:
    try:
        return len((await line.hear()).body) == LARGE
    except (ConnectionError, asyncio.IncompleteReadError):
        return False


async def test_closed_listener_is_not_searched_for_unsent_output(front: Opened) -> None:
    proxy = await front()
    listener = proxy.stage._front._listener
    limiter = get_flow_handler(proxy.stage.app).unsent_output_limit
    assert listener._unsent_outputs in limiter.sources

    listener.close()

    assert listener._unsent_outputs not in limiter.sources
