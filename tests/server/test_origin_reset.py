"""A response that an origin sent before a reset can be read, even while the request is still being written."""

import asyncio
import socket

import pytest

from feedproxy.server.mitm.origin_reset import drain_on_reset
from tests.waiting import PATIENCE

ANSWER = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000)


@pytest.mark.parametrize("ending", ["at once", "sending side first"])
@pytest.mark.parametrize("waits", [False, True], ids=["first write", "while its writes wait"])
async def test_response_sent_before_a_reset_is_read(ending: str, *, waits: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        reader, writer = await asyncio.open_connection(*door.getsockname())
        drain_on_reset(writer)
        origin, _ = door.accept()
        writer.write(b"PUT / HTTP/1.1\r\n\r\n" + bytes(10_000_000 if waits else 0))
        draining = asyncio.create_task(writer.drain())
        await asyncio.sleep(0)
        origin.sendall(ANSWER)
        if ending == "sending side first":
            origin.shutdown(socket.SHUT_WR)
        origin.close()  # while the request is unread

    writer.write(b"more")
    assert await asyncio.wait_for(reader.read(), PATIENCE) == ANSWER
    await asyncio.wait_for(draining, PATIENCE)
    await asyncio.wait_for(writer.drain(), PATIENCE)  # mitmproxy closes a connection if this fails
    writer.close()


async def test_orderly_closed_connection_stays_writable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        reader, writer = await asyncio.open_connection(*door.getsockname())
        drain_on_reset(writer)
        origin, _ = door.accept()
        with origin:
            origin.sendall(ANSWER)
    assert await asyncio.wait_for(reader.read(), PATIENCE) == ANSWER
    assert not writer.is_closing(), "the other direction may still be of use"
    writer.close()
