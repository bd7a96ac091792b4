"""The origin: plays the feeds' histories by the play's clock, and counts what it is asked and what it sends."""

import asyncio
import bisect
import gzip
import hashlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from benchmarks.week.model import DAY, HOUR, OUTAGE, Feed
from feedproxy.http.date import format_http_date, parse_http_date

WORDS = [
    "river",
    "lantern",
    "orbit",
    "walnut",
    "copper",
    "meadow",
    "signal",
    "harbour",
    "quartz",
    "violet",
    "engine",
    "saddle",
    "thunder",
    "pepper",
]
LIMIT = 20
"""Requests an hour that a site which limits them grants each address."""


@dataclass
class Tally:
    """What the origin was asked, and what it gave; bytes with heads, as they go over the wire."""

    requests: int = 0
    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    by_feed: Counter[int] = field(default_factory=Counter)


class History:
    """One feed's documents, made when they are asked for."""

    def __init__(self, feed: Feed, seed: int, start: float) -> None:
        self.feed = feed
        self._start = start
        self._seed = f"{seed}/{feed.number}"
        self.moments = [feed.first, *(update.at for update in feed.updates)]
        self.revisions: list[int] = []
        """Of each document, that of its content: churn makes none."""
        self.revised: list[float] = [feed.first]
        """When each revision was published."""
        self._items: list[tuple[tuple[int, int, float], ...]] = []
        self._play()
        self._texts: dict[tuple[int, int], bytes] = {}
        self._zipped: dict[int, bytes] = {}

    def _play(self) -> None:
        """Which items each document has: (serial number, revision, when published), the newest in front."""
        random = Random(f"{self._seed}/history")
        at, items = self.feed.first, []
        for serial in range(self.feed.items):
            items.append((-serial, 0, at))
            at -= random.expovariate(1 / self.feed.usual_gap)
        serial = 1
        self._items.append(tuple(items))
        self.revisions.append(0)
        for update in self.feed.updates:
            revision = self.revisions[-1]
            if update.kind != "churn":
                revision += 1
                self.revised.append(update.at)
            if update.kind == "edit":
                index = min(len(items) - 1, int(random.expovariate(0.7)))
                items[index] = (items[index][0], revision, items[index][2])
            elif update.kind == "all":
                items = [(number, revision, published) for number, _, published in items]
            elif update.kind in ("item", "burst"):
                for _ in range(1 if update.kind == "item" else random.randint(2, 5)):
                    items.insert(0, (serial, revision, update.at))
                    serial += 1
                del items[self.feed.items :]
            self._items.append(tuple(items))
            self.revisions.append(revision)

    def index(self, at: float) -> int:
        """The document of that moment."""
        return max(0, bisect.bisect_right(self.moments, at) - 1)

    def revision(self, at: float) -> int:
        """The content of that moment."""
        return self.revisions[self.index(at)]

    def tag(self, index: int) -> str:
        """The entity tag, as its publisher forms it."""
        return self.feed.tag_form % hashlib.md5(f"{self._seed}/{index}".encode()).hexdigest()[:16]

    def body(self, index: int, zipped: bool) -> bytes:
        """The document, with gzip or without. Its compressed form is kept: every performance asks for it."""
        found = self._zipped.get(index)
        if found is None:
            found = self._zipped[index] = gzip.compress(self._document(index), 4, mtime=0)
        return found if zipped else gzip.decompress(found)

    def _document(self, index: int) -> bytes:
        feed = self.feed
        built = format_http_date(self._start + self.moments[index])
        items = b"".join(self._item(*each) for each in self._items[index])
        if feed.atom:
            head = (
                f'<feed xmlns="http://www.w3.org/2005/Atom"><id>tag:origin.test,2026:{feed.number}</id>'
                f"<title>Feed {feed.number}</title><updated>{_iso(self._start + self.moments[index])}</updated>"
                "<author><name>x</name></author>\n"
            )
            return b'<?xml version="1.0" encoding="utf-8"?>\n' + head.encode() + items + b"</feed>\n"
        hints = ""
        if feed.ttl is not None:
            hints += f"<ttl>{feed.ttl}</ttl>\n"
        if feed.skip_hours:
            hints += f"<skipHours>{''.join(f'<hour>{hour}</hour>' for hour in sorted(feed.skip_hours))}</skipHours>\n"
        if feed.skip_days:
            names = "".join(f"<day>{('Saturday', 'Sunday')[day - 5]}</day>" for day in sorted(feed.skip_days))
            hints += f"<skipDays>{names}</skipDays>\n"
        if feed.syndication:
            period, frequency = feed.syndication
            hints += (
                f"<sy:updatePeriod>{period}</sy:updatePeriod><sy:updateFrequency>{frequency}</sy:updateFrequency>\n"
            )
        head = (
            '<?xml version="1.0" encoding="utf-8"?>\n'
            '<rss version="2.0" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"><channel>\n'
            f"<title>Feed {feed.number}</title><link>http://origin.test/f/{feed.number}</link>\n"
            f"<description>synthetic</description><lastBuildDate>{built}</lastBuildDate>\n{hints}"
        )
        return head.encode() + items + b"</channel></rss>\n"

    def _item(self, serial: int, revision: int, published: float) -> bytes:
        known = self._texts.get((serial, revision))
        if known is not None:
            return known
        feed, size = self.feed, max(40, self.feed.size // self.feed.items - 200)
        random = Random(f"{self._seed}/item/{serial}")
        # Prose and what does not compress, about two to one.
        text = random.choices(WORDS, k=size // 7)
        noise = random.randbytes(4 * len(text[::3])).hex()
        text[::3] = [noise[at : at + 8] for at in range(0, len(noise), 8)]
        at, link = self._start + published, f"http://origin.test/f/{feed.number}/{serial}"
        said = f"[r{revision}] {' '.join(text)}"
        if feed.atom:
            made = (
                f'<entry><id>{link}</id><title>{" ".join(text[:5])}</title><link href="{link}"/>'
                f"<updated>{_iso(at)}</updated><summary>{said}</summary></entry>\n"
            )
        else:
            date = f"<pubDate>{format_http_date(at)}</pubDate>" if feed.dated else ""
            made = (
                f"<item><title>{' '.join(text[:5])}</title><link>{link}</link><guid>{link}</guid>{date}"
                f"<description>{said}</description></item>\n"
            )
        self._texts[serial, revision] = made.encode()
        return self._texts[serial, revision]


def _iso(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z")


class Origin:
    """All the feeds' publishers, at one port of loopback."""

    def __init__(self, feeds: Sequence[Feed], seed: int, start: float, now: Callable[[], float]) -> None:
        self.histories = [History(feed, seed, start) for feed in feeds]
        self.tally = Tally()
        self.port = 0
        self.active = 0
        self._start = start
        self.now = now
        """The play's time, in seconds since the week began."""
        self._asked: dict[tuple[int, str], deque[float]] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server

    async def open(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop, and hang up."""
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await self._server.wait_closed()

    def reset(self) -> None:
        """A new performance."""
        self.tally = Tally()
        self._asked.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.active += 1
                try:
                    first, *lines = head.rstrip("\r\n").split("\r\n")
                    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                    answer = self._answer(first.split()[1], fields)
                    self.tally.sent += len(answer)
                    writer.write(answer)
                    await writer.drain()
                finally:
                    self.active -= 1
                if fields.get("connection", "").lower() == "close":
                    return
        except (OSError, EOFError):
            pass  # whoever asked has gone
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, path: str, asked: dict[str, str]) -> bytes:
        status, lines, body = self._response(path, asked)
        self.tally.requests += 1
        self.tally.statuses[status] += 1
        lines = [f"Date: {format_http_date(self._start + self.now())}", "Server: week", *lines]
        if status != 304:
            lines.append(f"Content-Length: {len(body)}")
        return f"HTTP/1.1 {status} x\r\n{''.join(f'{line}\r\n' for line in lines)}\r\n".encode("latin-1") + body

    def _response(self, path: str, asked: dict[str, str]) -> tuple[int, list[str], bytes]:
        moved = path.startswith("/moved")
        number = path.removeprefix("/moved").removeprefix("/f/").removesuffix(".xml")
        if not number.isdigit() or int(number) >= len(self.histories):
            return 404, [], b"not here"
        history, now = self.histories[int(number)], self.now()
        feed = history.feed
        self.tally.by_feed[feed.number] += 1
        if refused := self._refused(feed, moved, now, asked):
            return refused
        index = history.index(now)
        lines = []
        if feed.cache_control:
            lines.append(f"Cache-Control: {feed.cache_control}")
        tag = history.tag(index) if feed.validators in ("both", "tag") else None
        modified = self._start + history.moments[index] if feed.validators in ("both", "date") else None
        if tag:
            lines.append(f"ETag: {tag}")
        if modified is not None:
            lines.append(f"Last-Modified: {format_http_date(modified)}")
        lines.append("Vary: Accept-Encoding")
        if _unchanged(asked, tag, modified):
            return 304, lines, b""
        lines.append(f"Content-Type: {feed.content_type}")
        if "gzip" in asked.get("accept-encoding", ""):
            return 200, [*lines, "Content-Encoding: gzip"], history.body(index, zipped=True)
        return 200, lines, history.body(index, zipped=False)

    def _refused(
        self, feed: Feed, moved: bool, now: float, asked: dict[str, str]
    ) -> tuple[int, list[str], bytes] | None:
        if feed.fate == "limits":
            times = self._asked.setdefault((feed.number, asked.get("x-direct-from", "")), deque())
            while times and times[0] <= now - HOUR:
                times.popleft()
            if len(times) >= LIMIT:
                return 429, [f"Retry-After: {int(times[0] + HOUR - now) + 1}"], b"too many requests"
            times.append(now)
        if now < feed.fate_at:
            return None
        match feed.fate:
            case "moves" if not moved:
                return 301, [f"Location: /moved{feed.path}"], b""
            case "ends":
                return 410, [], b"gone"
            case "outage" if now < feed.fate_at + OUTAGE:
                return 503, [], b"out of order"
        return None


def _unchanged(asked: dict[str, str], tag: str | None, modified: float | None) -> bool:
    if (tags := asked.get("if-none-match")) is not None:
        bare = tag.removeprefix("W/") if tag else None
        return bare is not None and bare in [each.strip().removeprefix("W/") for each in tags.split(",")]
    since = parse_http_date(asked.get("if-modified-since", ""))
    return since is not None and modified is not None and int(modified) <= since


def is_skipped(feed: Feed, at: float) -> bool:
    """Whether the publisher asks not to be read then."""
    return int(at % DAY // HOUR) in feed.skip_hours or int(at // DAY) % 7 in feed.skip_days
