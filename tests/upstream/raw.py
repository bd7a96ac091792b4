"""An origin in the test's process that answers with exact bytes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext

from feedproxy.clock import ManualClock
from feedproxy.http.message import Fields, Request
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.fetch_result import Fetched, Oversized
from feedproxy.upstream.origin_client import Fetcher, FetchLimits
from tests.waiting import PATIENCE

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
NOON = 1_795_176_000.0
LIMITS = FetchLimits(connect=2, first_byte=2, total=4)


@dataclass
class Played:
    """One answer: pieces written one after the other, and what happens to the connection after them."""

    pieces: tuple[bytes, ...]
    then: str = "keep"
    """`keep`, `close`, `reset`, or `hold` (say nothing more until the test ends)."""


def play(*pieces: bytes, then: str = "keep") -> Played:
    return Played(pieces, then)


@dataclass
class RawOrigin:
    """Sends the answers of `script` in order, then repeats the last one. Records all request heads."""

    script: list[Played]
    port: int = 0
    scheme: str = "http"
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    greeting: bytes = b""
    """Bytes sent before the first request."""

    def url(self, path: str = "/feed", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.write(self.greeting)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.heads.append(head)
                played = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                for piece in played.pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)  # lets the next piece be a packet of its own
                if played.then == "hold":
                    await asyncio.Event().wait()
                if played.then == "reset":
                    writer.transport.abort()
                if played.then != "keep":
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def origin(
    *script: Played | bytes, tls: SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[RawOrigin]:
    raw = RawOrigin([each if isinstance(each, Played) else play(each) for each in script])
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(raw._serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, host, 0, ssl=tls)
    raw.port = server.sockets[0].getsockname()[1]
    raw.scheme = "https" if tls else "http"
    try:
        yield raw
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    """Run the event loop until the condition holds. Tests never wait for a fixed time."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 -- what is waited for happens inside the code under test
            await asyncio.sleep(0)


def a_policy(**options: object) -> AddressPolicy:
    return AddressPolicy(**{"allow_private": True, "ports": ("1-65535",), **options})  # type: ignore[arg-type]


def a_fetcher(limits: FetchLimits = LIMITS, **options: object) -> Fetcher:
    policy = options.pop("policy", None) or a_policy()
    return Fetcher(policy, limits, clock=ManualClock(NOON), **options)  # type: ignore[arg-type]


def a_get(url: str, *lines: tuple[str, str], method: str = "GET") -> Request:
    return Request(method, url, Fields(lines))


async def fetch_once(
    *script: Played | bytes,
    limits: FetchLimits = LIMITS,
    method: str = "GET",
    path: str = "/feed",
    lines: tuple[tuple[str, str], ...] = (),
    inspect: Callable[[RawOrigin], None] | None = None,
) -> Fetched | Oversized:
    """Send one request to an origin with this script and return the result of the fetch."""
    async with origin(*script) as raw, a_fetcher(limits) as fetcher:
        result = await fetcher.fetch(a_get(raw.url(path), *lines, method=method))
        if inspect:
            inspect(raw)
        return result
