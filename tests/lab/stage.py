"""A replay on a socket, and a client that returns head, body and a reset of the connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from feedproxy.clock import ManualClock
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields
from feedproxy.lab.record.exchange import Exchange
from feedproxy.lab.replay.replay_listener import ReplayListener
from feedproxy.lab.replay.replay_source import ReplayOptions, make_replay
from feedproxy.lab.replay.timeline import ReplayWorld, Timeline, Version
from tests.waiting import PATIENCE

AT = 1_795_262_400.0
"""21 Nov 2026, noon: a Saturday."""
HOUR = 3600.0
URL = "http://example.com/feed"


def a_feed(number: int) -> bytes:
    """Return an RSS feed in UTF-8 with the items up to this number."""
    items = "".join(
        f"<item><title>Größe {index}</title><guid isPermaLink='false'>tag:{index}</guid></item>"
        for index in range(number, -1, -1)
    )
    return (
        "<?xml version='1.0' encoding='utf-8'?>\n<rss version='2.0'><channel><title>News</title>"
        f"<link>http://example.com/</link><description>All</description>{items}</channel></rss>\n"
    ).encode()


def a_world(hours: int = 48) -> ReplayWorld:
    """Return a replay of a feed that has a new item every hour."""
    versions = [
        Version(
            since=AT + number * HOUR,
            fields=Fields([("Content-Type", "application/rss+xml")]),
            content=a_feed(number),
            tag=f'"{number}"',
            modified=format_http_date(AT + number * HOUR),
            reason="OK",
        )
        for number in range(hours)
    ]
    return ReplayWorld({URL: Timeline(versions)})


@dataclass(frozen=True)
class Got:
    """A response as received."""

    status: int
    fields: Fields
    body: bytes
    """All bytes after the head."""
    reset: bool = False


@dataclass
class Stage:
    """A running replay."""

    listener: ReplayListener
    clock: ManualClock
    exchanges: list[Exchange]

    async def get(self, target: str = URL, *, method: str = "GET", **fields: str) -> Got:
        """Send a request on its own connection. Names of fields have underscores instead of hyphens."""
        lines = {"Host": "example.com", **{name.replace("_", "-"): value for name, value in fields.items()}}
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        reader, writer = await asyncio.open_connection(self.listener.host, self.listener.port)
        writer.write(f"{head}Connection: close\r\n\r\n".encode("latin-1"))
        data, reset = bytearray(), False
        try:
            async with asyncio.timeout(PATIENCE):
                while piece := await reader.read(65_536):
                    data += piece
        except ConnectionResetError:
            reset = True
        finally:
            writer.close()
        begin, _, body = bytes(data).partition(b"\r\n\r\n")
        first, *rest = begin.decode("latin-1").split("\r\n")
        pairs = (line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in rest)
        return Got(int(first.split()[1]), Fields((name, value) for name, value in pairs), body, reset)


@asynccontextmanager
async def on_stage(*faults: str, hours: int = 48, plain: bool = False) -> AsyncIterator[Stage]:
    """Run a replay with these faults on a free loopback port."""
    clock, exchanges = ManualClock(AT), list[Exchange]()
    replay = make_replay(a_world(hours), ReplayOptions(faults=faults), AT, plain=plain)
    listener = ReplayListener(replay, clock, observe=lambda exchange, _: exchanges.append(exchange))
    await listener.start("127.0.0.1", 0)
    try:
        yield Stage(listener, clock, exchanges)
    finally:
        await listener.close()
