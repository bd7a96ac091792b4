"""Environment of the runs over the corpora: a whole proxy in this process, and a client that shows every byte."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self
from unittest.mock import patch

from aiohttp.abc import ResolveResult

from feedproxy.app import App
from feedproxy.clock import ManualClock
from feedproxy.http.message import Fields
from feedproxy.process.mitmproxy_master import build_master
from feedproxy.process.option_sources import ServePlan
from feedproxy.upstream import connection_pool
from feedproxy.upstream.upstream_errors import Unreachable
from tests.waiting import PATIENCE


@dataclass(frozen=True)
class Seen:
    """A response as received. `fields` are decoded as ISO-8859-1, so that no byte is lost."""

    status: int
    fields: Fields
    body: bytes

    @property
    def cache(self) -> list[str]:
        """Parameters of the proxy's member of Cache-Status."""
        return [word.strip() for word in (self.fields.combined("cache-status") or "").split(";")]

    @property
    def hit(self) -> bool:
        return "hit" in self.cache

    @property
    def stored(self) -> bool:
        return "stored" in self.cache

    @property
    def detail(self) -> str:
        return next((word.partition("=")[2] for word in self.cache if word.startswith("detail=")), "")

    @property
    def ttl(self) -> int | None:
        return next((int(word[4:]) for word in self.cache if word.startswith("ttl=")), None)

    @property
    def age(self) -> int:
        return int(self.fields.get("age") or 0)

    @property
    def tag(self) -> str:
        return self.fields.get("etag") or ""

    @property
    def coding(self) -> str | None:
        return self.fields.combined("content-encoding")

    @property
    def media_type(self) -> str:
        return (self.fields.get("content-type") or "").partition(";")[0].strip().lower()


async def ask(
    port: int, target: str, fields: Mapping[str, str] | None = None, *, method: str = "GET", host: str = "proxy.example"
) -> Seen:
    """Send one request on its own connection and parse the response without a library.

    `target` is the target in the request line. The framing of every response is checked here.
    """
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (fields or {}).items()]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        return framed(await asyncio.wait_for(reader.read(), PATIENCE), method)
    finally:
        writer.close()


class Line:
    """A persistent connection of a reader."""

    def __init__(self, port: int, host: str) -> None:
        self._port, self._host = port, host

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def get(self, target: str, **fields: str) -> Seen:
        """Send a GET and return the response, which must have a length.

        Names of fields have underscores instead of hyphens.
        """
        lines = [f"GET {target} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), PATIENCE)
        length = re.search(rb"\r\ncontent-length: *(\d+)\r\n", head, re.IGNORECASE)
        none = head.split(b" ", 2)[1] in (b"204", b"304")
        return framed(head + (b"" if none or length is None else await self._reader.readexactly(int(length[1]))), "GET")


def framed(raw: bytes, method: str) -> Seen:
    """Return the response in these bytes, which must be exactly one according to RFC 9112."""
    head, separator, body = raw.partition(b"\r\n\r\n")
    assert separator, f"no head: {raw[:200]!r}"
    first, *lines = head.decode("latin-1").split("\r\n")
    version, status, *_ = first.split(" ", 2)
    assert version == "HTTP/1.1", first
    assert all(line and not line.startswith((" ", "\t")) for line in lines), f"folded: {lines}"
    fields = Fields((name, value.strip(" \t")) for name, _, value in (line.partition(":") for line in lines))
    for once in ("content-length", "content-type", "etag", "date", "age", "location", "last-modified"):
        assert len(fields.get_all(once)) <= 1, f"{once} comes several times"
    if (fields.get("transfer-encoding") or "").lower() == "chunked":
        assert "content-length" not in fields
        body = _unchunked(body)
    elif method != "HEAD" and status != "304":
        length = fields.get("content-length")
        assert length is None or int(length) == len(body), f"Content-Length {length}, but {len(body)} bytes"
    if method == "HEAD" or status in ("204", "304"):
        assert not body, body[:80]
    return Seen(int(status), fields, body)


def _unchunked(body: bytes) -> bytes:
    content = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            assert body == b"\r\n", body[:80]
            return content
        content += body[:length]
        assert body[length : length + 2] == b"\r\n"
        body = body[length + 2 :]


class Names:
    """The name service of these tests: every name in `test` resolves to the origin, with any port.

    Cases can therefore name `http://origin.test/`, and the address policy is as strict as for unknown targets. `asked`
    lists the names that were looked up.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        self.asked.append(host)
        if not host.endswith(".test"):
            raise Unreachable(f"{host} has no address")
        found = ResolveResult(
            hostname=host,
            host="127.0.0.1",
            port=self.port,
            family=socket.AF_INET,
            proto=socket.IPPROTO_TCP,
            flags=socket.AI_NUMERICHOST,
        )
        return [found]


@dataclass
class Whole:
    """A whole running proxy and its internals."""

    port: int
    app: App
    clock: ManualClock
    names: Names


@asynccontextmanager
async def whole_proxy(clock: ManualClock, origin_port: int, **settings: Any) -> AsyncIterator[Whole]:
    """Run the product's own master with these options on its own port during the block."""
    names = Names(origin_port)
    given = {"listen_port": 0, "admin": "", "store": "memory:", "log_format": "off", **settings}
    resolve: Callable[..., Any] = lambda _, *args, **named: names.resolve(*args, **named)  # noqa: E731
    with patch.object(connection_pool.CheckedResolver, "resolve", resolve):
        made, here, _ = build_master(ServePlan(options=given), App(clock))
        running = asyncio.ensure_future(made.run())
        server: Any = made.addons.get("proxyserver")
        while not server.listen_addrs():
            assert not running.done(), running
            await asyncio.sleep(0)
        try:
            yield Whole(server.listen_addrs()[0][1], here, clock, names)
        finally:
            made.shutdown()
            await running
