"""A publisher without findings; a fault changes its answers."""

import asyncio
import gzip
import hashlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from typing import Any

from feedproxy.clock import SystemClock

HOUR = 3600.0


@dataclass(frozen=True)
class PublisherRequest:
    """A request to the publisher."""

    method: str
    path: str
    fields: dict[str, str]
    count: int
    """Number of requests for this path so far, including this one."""

    def takes(self, coding: str) -> bool:
        return coding in self.fields.get("accept-encoding", "")


@dataclass
class Answer:
    """A response. If not `framed`, it has no length and ends with the connection."""

    status: int = 200
    fields: dict[str, str] = field(default_factory=dict)
    content: bytes = b""
    version: str = "HTTP/1.1"
    framed: bool = True

    def with_fields(self, **fields: str) -> "Answer":
        named = {name.replace("_", "-").title(): value for name, value in fields.items()}
        return replace(self, fields={**self.without(*named).fields, **named})

    def without(self, *names: str) -> "Answer":
        unwanted = {name.lower() for name in names}
        return replace(
            self, fields={name: value for name, value in self.fields.items() if name.lower() not in unwanted}
        )


type Fault = Callable[[PublisherRequest, Answer], Answer]


def items(now: float, count: int = 6) -> str:
    return "".join(
        f"<item><title>Entry {at}</title><link>BASE/entry/{at}</link><guid>BASE/entry/{at}</guid>"
        f"<pubDate>{formatdate(now - (at + 1) * 5 * HOUR, usegmt=True)}</pubDate>"
        f"<description>{'What was to be said of it. ' * 20}</description></item>"
        for at in range(count)
    )


def feed(now: float, *, channel: str = "", entries: str | None = None, self_link: str | None = None) -> str:
    own = '<atom:link rel="self" type="application/rss+xml" href="BASE/feed.xml"/>' if self_link is None else self_link
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>'
        f"<title>Example</title><link>BASE/</link>{own}<description>An example</description><ttl>60</ttl>{channel}"
        f"{items(now) if entries is None else entries}</channel></rss>"
    )


PAGE = '<!doctype html><title>Example</title><link rel=alternate type=application/rss+xml href="BASE/feed.xml"><p>Hello'


class Publisher:
    """Serves `documents` with validators, codings and a lifetime; `fault` may change every answer."""

    def __init__(self) -> None:
        self.now = SystemClock().now()
        self.documents: dict[str, str | bytes] = {"/feed.xml": feed(self.now), "/": PAGE}
        self.fault: Fault = lambda _, answer: answer
        self.base = ""
        self.requests: list[PublisherRequest] = []

    @property
    def address(self) -> str:
        return f"{self.base}/feed.xml"

    def answer(self, request: PublisherRequest) -> Answer:
        found = self.documents.get(request.path)
        if found is None:
            return Answer(404, {"Content-Type": "text/plain"}, b"not found")
        content = found if isinstance(found, bytes) else found.replace("BASE", self.base).encode()
        tag = hashlib.sha256(content).hexdigest()[:12]
        modified = formatdate(self.now - 5 * HOUR, usegmt=True)
        fields = {
            "Date": formatdate(SystemClock().now(), usegmt=True),
            "Content-Type": "application/rss+xml" if request.path.endswith(".xml") else "text/html; charset=utf-8",
            "ETag": f'W/"{tag}"',
            "Last-Modified": modified,
            "Cache-Control": "max-age=1800",
            "Vary": "Accept-Encoding",
        }
        condition = request.fields.get("if-none-match")
        if condition is not None:
            fresh = condition == fields["ETag"]
        else:
            fresh = request.fields.get("if-modified-since") == modified
        if fresh:
            return Answer(304, fields)
        if request.takes("gzip"):
            fields["Content-Encoding"] = "gzip"
            content = gzip.compress(content, mtime=0)
        return Answer(200, fields, content)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                first, *lines = head.split("\r\n")[:-2]
                method, path, _ = first.split(" ")
                fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                count = 1 + sum(request.path == path for request in self.requests)
                request = PublisherRequest(method, path, fields, count)
                self.requests.append(request)
                answer = self.fault(request, self.answer(request))
                writer.write(self._serialize(request, answer))
                await writer.drain()
                if not answer.framed or answer.version == "HTTP/1.0":
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    def _serialize(self, request: PublisherRequest, answer: Answer) -> bytes:
        fields = dict(answer.fields)
        if answer.framed and answer.status != 304:
            fields.setdefault("Content-Length", str(len(answer.content)))
        head = f"{answer.version} {answer.status} X\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in fields.items()
        )
        return f"{head}\r\n".encode("latin-1") + (b"" if request.method == "HEAD" else answer.content)


@asynccontextmanager
async def publishing(tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Publisher]:
    publisher = Publisher()
    tasks: set[Any] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(publisher.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    publisher.base = f"{'https' if tls else 'http'}://{host}:{server.sockets[0].getsockname()[1]}"
    try:
        yield publisher
    finally:
        server.close()
        for task in tasks:
            task.cancel()
