"""Raw bytes on both sides of the proxy: an origin that sends exact bytes, and a client that does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.waiting import PATIENCE

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LAST_CHUNK = b"\r\n0\r\n\r\n"
"""With the end of the line before it: the name in Via is random and can end with "0"."""


@dataclass
class RawOrigin:
    """Sends `answer(head)` to each request and records all received bytes."""

    answer: Callable[[bytes], bytes]
    port: int = 0
    connections: list[bytearray] = field(default_factory=list)
    """Bytes received on each connection."""
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def received(self) -> bytes:
        return b"".join(self.connections)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = bytearray()
        self.connections.append(received)
        self.writers.append(writer)
        answered = 0
        try:
            while data := await reader.read(65_536):
                received += data
                while (end := received.find(b"\r\n\r\n", answered)) >= 0:
                    head, answered = bytes(received[answered : end + 4]), end + 4
                    writer.write(self.answer(head))
                    if b"\r\nconnection: close" in self.answer(head).lower():
                        writer.close()
        except ConnectionError:
            pass


@asynccontextmanager
async def raw_origin(answer: bytes | Callable[[bytes], bytes] = OK) -> AsyncIterator[RawOrigin]:
    """Run an origin on its own port."""
    origin = RawOrigin(answer if callable(answer) else lambda _: answer)
    server = await asyncio.start_server(origin.serve, "127.0.0.1", 0)
    origin.port = server.sockets[0].getsockname()[1]
    try:
        yield origin
    finally:
        server.close()
        for writer in origin.writers:
            writer.close()


def port_of(base: str) -> int:
    return int(base.rpartition(":")[2])


async def exchange(base: str, *pieces: bytes, half_close: bool = False, quiet: float = PATIENCE) -> bytes:
    """Send these pieces in order and return all received bytes until the proxy ends the connection.

    A connection that is silent for `quiet` seconds is closed.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(base))
    said = b""
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            if len(pieces) > 1:
                await asyncio.sleep(0.01)
        if half_close:
            writer.write_eof()
        while more := await asyncio.wait_for(reader.read(65_536), quiet):
            said += more
    except TimeoutError:
        said += b"(left open)"
    except ConnectionError:
        said += b"(reset)"
    finally:
        writer.close()
    return said


def status_of(said: bytes) -> int:
    """Return the status of the first response, or 0 without a response."""
    return int(said[9:12]) if said.startswith(b"HTTP/1.1 ") else 0


def head_of(said: bytes) -> bytes:
    """Return the head of the first response."""
    return said.partition(b"\r\n\r\n")[0]
