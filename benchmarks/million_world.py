"""The world of benchmarks/million.py: feeds with the update rates of a survey, their readers, and an origin for all
feeds.

    python -m benchmarks.million_world PORT OFFSET    run the origin, with a clock that is OFFSET seconds ahead

In the feed survey of May 2026, 18.5 % of the feeds had an update within 12 h, 23.1 % within a day, 38.2 % within a
week, 58.6 % within a month, 73.5 % within 3 months, and 91 % within a year. 9.5 % had `sy:` and 6.4 % a hub. The mean
size was 234 KB. Here, a feed has 2 KB. Nearly all responses of the origin are 304, so that the size matters to the disk
alone.

Each site is a loopback address (127.0.0.0/8) with four feeds. One site has more feeds, and takes 30 seconds for each
response. The others take 0.1 to 0.3 s. A reader polls a hundred feeds, one after the other.
"""

import asyncio
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate

HOUR, DAY = 3600.0, 86_400.0
YEAR = 365 * DAY
CADENCES = (
    *((0.185, HOUR, 12 * HOUR), (0.046, 12 * HOUR, DAY), (0.151, DAY, 7 * DAY), (0.204, 7 * DAY, 30 * DAY)),
    *((0.149, 30 * DAY, 91 * DAY), (0.175, 91 * DAY, YEAR), (0.09, YEAR, 5 * YEAR)),
)
"""Share of the feeds, and the least and largest mean time between two updates in seconds."""

SYNDICATION, HUB = 0.095, 0.064
INTERVALS = ((0.25, HOUR / 2), (0.40, HOUR), (0.15, 2 * HOUR), (0.10, 4 * HOUR), (0.10, DAY))
"""Share of the readers, and the interval of their polls in seconds. Both are assumptions."""

FEEDS_OF_SITE = 4
FEEDS_OF_READER = 100
SPACING = 0.1
"""Seconds between two requests of one reader."""

SLOW_FEEDS = 2000
"""Number of feeds of the slow site, which many readers poll. The site has at most a twentieth of all feeds."""

SLOW = 30.0
"""Delay of the slow site's responses in seconds."""
FAST, SLOWEST = 0.1, 0.3
"""Least and largest delay of the other sites' responses, in seconds."""


def share(number: int, of: str) -> float:
    """Return a number in [0, 1) that depends only on the feed or reader and on the purpose `of`."""
    # A checksum alone would make the numbers for two purposes depend on each other.
    mixed = zlib.crc32(f"{of} {number}".encode())
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return (mixed ^ mixed >> 16) / 2**32


@dataclass(frozen=True, slots=True)
class World:
    """Feeds by number, at an origin on this port."""

    feeds: int
    port: int

    @property
    def readers(self) -> int:
        """Return the number of readers."""
        return -(-self.feeds // FEEDS_OF_READER)

    @property
    def slow_feeds(self) -> int:
        """Return the number of feeds at the slow site."""
        return min(SLOW_FEEDS, self.feeds // 20)

    def is_slow(self, number: int) -> bool:
        """Return whether a feed is at the slow site."""
        return self.slow_feeds > 0 and number % (self.feeds // self.slow_feeds) == 0

    def target(self, number: int) -> str:
        """Return the address of a feed."""
        site = 0 if self.is_slow(number) else 1 + number // FEEDS_OF_SITE
        host = f"127.{1 + site // 62_500}.{site // 250 % 250}.{1 + site % 250}"
        return f"http://{host}:{self.port}{path(number)}"

    def feeds_of(self, reader: int) -> range:
        """Return the feeds that a reader polls."""
        return range(reader * FEEDS_OF_READER, min(self.feeds, (reader + 1) * FEEDS_OF_READER))

    def last_poll(self, reader: int, now: float) -> float:
        """Return the time at which a reader last began to poll before `now`."""
        interval = interval_of(reader)
        return now - (now + share(reader, "phase") * interval) % interval

    def polls(self, begin: float, end: float) -> list[tuple[float, int, int]]:
        """Return the polls between `begin` and `end` in order of time, each with its instant, feed and reader."""
        found = []
        for reader in range(self.readers):
            interval = interval_of(reader)
            at = self.last_poll(reader, begin)
            while at < end:
                found += [
                    (at + SPACING * place, feed, reader)
                    for place, feed in enumerate(self.feeds_of(reader))
                    if begin <= at + SPACING * place < end
                ]
                at += interval
        return sorted(found)


def path(number: int) -> str:
    """Return the path of a feed."""
    return f"/feed/{number}.xml"


def agent(reader: int) -> str:
    """Return a reader's User-Agent."""
    return f"Reader/{reader}"


def interval_of(reader: int) -> float:
    """Return the seconds between two polls of a reader."""
    chance = share(reader, "interval")
    for part, interval in INTERVALS:
        if (chance := chance - part) < 0:
            return interval
    return INTERVALS[-1][1]


def gap_of(number: int) -> float:
    """Return the seconds between two updates of a feed."""
    chance = share(number, "gap")
    for part, low, high in CADENCES:
        if chance < part:
            return float(low * (high / low) ** (chance / part))
        chance -= part
    return CADENCES[-1][2]


def version(number: int, now: float) -> int:
    """Return the number of a feed's current version."""
    return int(now / gap_of(number) + share(number, "update"))


def changed(number: int, ago: int, now: float) -> float:
    """Return the time at which the version `ago` versions before the current one was published."""
    return (version(number, now) - ago - share(number, "update")) * gap_of(number)


def tag(number: int, now: float) -> str:
    """Return a feed's ETag."""
    return f'"{number}-{version(number, now)}"'


def hints(number: int) -> tuple[bool, bool]:
    """Return whether a feed has `sy:`, and whether it names a hub."""
    return share(number, "sy") < SYNDICATION, share(number, "hub") < HUB


def document(number: int, now: float) -> bytes:
    """Return a feed of 2 KB."""
    has_schedule, has_hub = hints(number)
    schedule = "<sy:updatePeriod>hourly</sy:updatePeriod>" if has_schedule else ""
    hub = '<atom:link rel="hub" href="https://hub.example/"/>' if has_hub else ""
    latest = version(number, now)
    items = "".join(
        f"<item><title>Entry {each} of feed {number}</title><link>https://blog.example/{number}/{each}</link>"
        f"<guid>https://blog.example/{number}/{each}</guid><description>{'word ' * 50}</description></item>"
        for each in range(latest, latest - 4, -1)
    )
    return (
        '<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" '
        'xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"><channel>'
        f"<title>Feed {number}</title><link>https://blog.example/{number}/</link><description>Of a million"
        f"</description>{schedule}{hub}{items}</channel></rss>"
    ).encode()


class Origin(asyncio.Protocol):
    """A connection to one of the sites. Requests are GETs without content, one after another."""

    asked = 0
    unmodified = 0

    def __init__(self, offset: float) -> None:
        self._offset = offset
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not transport.get_extra_info("peername")[0].startswith("127."):
            transport.abort()
        self._is_slow = transport.get_extra_info("sockname")[0] == "127.1.0.1"

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for head in heads:
            self._respond(head)

    def _respond(self, head: bytes) -> None:
        name = head.split(b" ", 2)[1].decode()
        if name == "/asked":
            self._transport.write(_message("200 OK", f"{Origin.asked} {Origin.unmodified}".encode()))
            return
        number, now = int(name.removeprefix("/feed/").removesuffix(".xml")), time.time() + self._offset
        current = tag(number, now)
        Origin.asked += 1
        fields = (f"ETag: {current}", "Content-Type: application/rss+xml; charset=utf-8", "Vary: Accept-Encoding")
        if f"if-none-match: {current}".encode() in head.lower():
            Origin.unmodified += 1
            answer = _message("304 Not Modified", None, *fields)
        else:
            answer = _message("200 OK", document(number, now), *fields)
        delay = SLOW if self._is_slow else FAST + (SLOWEST - FAST) * share(number, "latency")
        asyncio.get_running_loop().call_later(delay, self._transport.write, answer)


def _message(status: str, content: bytes | None, *fields: str) -> bytes:
    length = () if content is None else (f"Content-Length: {len(content)}",)
    head = [f"HTTP/1.1 {status}", f"Date: {formatdate(usegmt=True)}", "Server: nginx", *fields, *length]
    return "\r\n".join([*head, "", ""]).encode() + (content or b"")


def batches(numbers: range, size: int) -> Iterator[range]:
    """Yield the numbers in slices."""
    for begin in range(0, len(numbers), size):
        yield numbers[begin : begin + size]


async def main(port: int, offset: float) -> None:
    """Run the origin until it is ended."""
    loop = asyncio.get_running_loop()
    # All loopback addresses reach it. Other connections are closed.
    server = await loop.create_server(lambda: Origin(offset), "0.0.0.0", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
