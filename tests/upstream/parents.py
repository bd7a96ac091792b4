"""Parent proxies in the test's process, for HTTP and SOCKS5. They resolve every name to loopback."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from feedproxy.upstream.parent_proxy import Parent


@dataclass
class Played:
    """A parent proxy and a record of its requests."""

    scheme: str
    user: str = ""
    password: str = ""
    answer: bytes = b""
    """If not empty: the response of an HTTP parent to every request, or the code in every reply of a SOCKS5 parent."""
    port: int = 0
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)
    """Request heads that an HTTP parent received."""
    asked: list[str] = field(default_factory=list)
    """HOST:PORT of each tunnel, or the target of each request."""

    def parent(self, scheme: str = "", *, user: str = "", password: str = "") -> Parent:
        """Return the parent as the option `upstream_proxy` names it."""
        return Parent(scheme or self.scheme, "127.0.0.1", self.port, user or None, password)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            if self.scheme == "http":
                await self._http(reader, writer)
            else:
                await self._socks(reader, writer)
        writer.close()

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wanted = base64.b64encode(f"{self.user}:{self.password}".encode())
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            method, target, _ = head.split(b"\r\n", 1)[0].split(b" ")
            self.asked.append(target.decode())
            if self.user and b"Proxy-Authorization: Basic " + wanted not in head:
                writer.write(b"HTTP/1.1 407 Authenticate\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
                continue
            if self.answer:
                writer.write(self.answer)
                continue
            if method == b"CONNECT":
                port = int(target.rpartition(b":")[2])
                writer.write(b"HTTP/1.1 200 Established\r\nVia: 1.1 parent\r\n")
                await writer.drain()
                writer.write(b"\r\n")
                await _joined(reader, writer, port)
                return
            authority, _, path = target.removeprefix(b"http://").partition(b"/")
            if b":" not in authority:  # no origin of a test
                writer.write(b"HTTP/1.1 502 Unknown\r\nContent-Length: 0\r\n\r\n")
                continue
            lines = [each for each in head.split(b"\r\n")[1:-2] if not each.startswith(b"Proxy-Authorization")]
            there, back = await asyncio.open_connection("127.0.0.1", int(authority.rpartition(b":")[2]))
            back.write(b"\r\n".join([method + b" /" + path + b" HTTP/1.1", *lines, b"Connection: close", b"", b""]))
            if length := [int(each[15:]) for each in lines if each.lower().startswith(b"content-length:")]:
                back.write(await reader.readexactly(length[0]))
            answer = await there.readuntil(b"\r\n\r\n")
            told = [int(each[15:]) for each in answer.split(b"\r\n") if each.lower().startswith(b"content-length:")]
            size = told[0] if told and method != b"HEAD" else 0
            writer.write(answer + await there.readexactly(size))
            back.close()

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        method = 2 if self.user else 0
        if method not in methods:
            writer.write(b"\x05\xff")
            return
        writer.write(bytes([5, method]))
        if self.user:
            _, size = await reader.readexactly(2)
            user = await reader.readexactly(size)
            password = await reader.readexactly((await reader.readexactly(1))[0])
            right = (user, password) == (self.user.encode(), self.password.encode())
            writer.write(b"\x01\x00" if right else b"\x01\x01")
            if not right:
                return
        *_, kind = await reader.readexactly(4)
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        else:
            host = ".".join(str(each) for each in await reader.readexactly(4))
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append(f"{host}:{port}")
        writer.write(b"\x05" + (self.answer or b"\x00") + b"\x00\x01" + bytes(6))
        if not self.answer:
            await _joined(reader, writer, port)


async def _joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    there, back = await asyncio.open_connection("127.0.0.1", port)

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
        sink.close()

    await asyncio.gather(copy(reader, back), copy(there, writer))


@asynccontextmanager
async def a_parent(scheme: str = "http", **facts: object) -> AsyncIterator[Played]:
    """Run a parent proxy."""
    played = Played(scheme, **facts)  # type: ignore[arg-type]
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(played.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    played.port = server.sockets[0].getsockname()[1]
    try:
        yield played
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
