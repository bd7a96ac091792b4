"""The time limit of TLS handshakes that mitmproxy makes with clients."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from feedproxy.clock import ManualClock, Seconds
from feedproxy.server.mitm.flow_handler import get_flow_handler
from tests.server.conftest import until
from tests.stages.play import OnProxy
from tests.waiting import PATIENCE


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[OnProxy]:
    """Open a whole proxy."""
    made = OnProxy(ManualClock(1_800_000_000.0), {"head_timeout": 1, "tcp_timeout": 3_600, "confdir": str(tmp_path)})
    await made.open()
    yield made
    await made.close()


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    handshake = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="feeds.example")
    with pytest.raises(ssl.SSLWantReadError):
        handshake.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("size", [1, 100, 10_000], ids=["first byte", "part of ClientHello", "ClientHello"])
async def test_incomplete_handshake_ends_at_its_deadline(stage: OnProxy, size: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(stage.base.rpartition(":")[2]))
    writer.write(client_hello()[:size])

    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(reader.readexactly(1_000_000), PATIENCE)

    await until(lambda: stage.app.connections == 0)
    assert not get_flow_handler(stage.app).handshakes._timers
    writer.close()


async def test_complete_handshake_has_no_deadline(stage: OnProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    handshakes, started = get_flow_handler(stage.app).handshakes, list[str]()
    start = handshakes.start

    def record_start(client: str, seconds: Seconds, end: Callable[[str], None]) -> None:
        started.append(client)
        start(client, seconds, end)

    monkeypatch.setattr(handshakes, "start", record_start)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = int(stage.base.rpartition(":")[2])

    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="feeds.example")

    await until(lambda: bool(started) and not handshakes._timers)
    assert stage.app.connections == 1
    writer.close()
