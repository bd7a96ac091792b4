"""The play: every poll of the week, one after the other, against one system; and what came of it."""

import re
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from benchmarks.week.model import Feed, Poll, Reader
from benchmarks.week.origin import Origin
from benchmarks.week.wire import Received, Wire
from feedproxy.http.coding import decode
from feedproxy.http.date import format_http_date

_REVISION = re.compile(rb"\[r(\d+)\]")


class System(Protocol):
    """What is played through. `settle` is called before each poll, `answered_from_store` says whether the reader of
    this answer did not wait for the origin.
    """

    name: str
    port: int

    async def settle(self, at: float) -> None: ...

    def answered_from_store(self, received: Received) -> bool: ...


@dataclass
class Held:
    """What a reader has of a feed."""

    path: str
    tag: str = ""
    date: str = ""
    asked: float | None = None
    revision: int | None = None


@dataclass
class Seen:
    """What came of the polls, as readers saw it."""

    polls: int = 0
    received: int = 0
    waited: int = 0
    waited_though_allowed: int = 0
    """Of these, those that HTTP lets a cache answer without asking: a copy was there before, nobody forbade its use."""
    allowed: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    behind: array[float] = field(default_factory=lambda: array("d"))
    """For each poll with something to be had: seconds since what the reader misses was published; 0 for nothing."""
    behind_silent: array[float] = field(default_factory=lambda: array("d"))
    """The same of feeds that say nothing of how long a copy is good."""
    delta_polls: int = 0
    delta_received: int = 0
    delta_statuses: Counter[int] = field(default_factory=Counter)

    def summary(self) -> dict[str, Any]:
        """The figures of this performance."""
        ordered = sorted(self.behind)
        return {
            "polls": self.polls,
            "reader_bytes": self.received,
            "delta_reader_polls": self.delta_polls,
            "delta_reader_bytes": self.delta_received,
            "delta_statuses": dict(self.delta_statuses),
            "statuses": dict(self.statuses),
            "passed_429": self.statuses[429],
            "stale_mean": sum(ordered) / max(1, len(ordered)),
            "stale_p95": ordered[int(len(ordered) * 0.95)] if ordered else 0.0,
            "silent_stale_mean": sum(self.behind_silent) / max(1, len(self.behind_silent)),
            "stale_share": sum(1 for each in ordered if each) / max(1, len(ordered)),
            "waited": self.waited,
            "not_waited_share": 1 - self.waited / max(1, self.polls),
            "not_waited_share_where_allowed": 1 - self.waited_though_allowed / max(1, self.allowed),
        }


class Play:
    """The readers of one performance."""

    def __init__(self, origin: Origin, feeds: Sequence[Feed], readers: Sequence[Reader], start: float) -> None:
        self._origin = origin
        self._feeds = feeds
        self._readers = readers
        self._start = start
        self._held: dict[tuple[int, int], Held] = {}
        self._stored: set[int] = set()
        self.seen = Seen()

    async def perform(
        self,
        system: System,
        polls: Sequence[Poll],
        advance: Callable[[float], Awaitable[None]],
        say: Callable[[int], None],
    ) -> Seen:
        """Play them all. Raises OSError, EOFError or TimeoutError where no answer comes."""
        wire = Wire(system.port)
        try:
            for number, poll in enumerate(polls):
                await system.settle(poll.at)
                await advance(poll.at)
                await self._poll(poll, system, wire)
                if number % 2000 == 0:
                    say(number)
        finally:
            wire.close()
        return self.seen

    async def _poll(self, poll: Poll, system: System, wire: Wire) -> None:
        reader, feed = self._readers[poll.reader], self._feeds[poll.feed]
        held = self._held.setdefault((poll.reader, poll.feed), Held(feed.path))
        fields = self._fields(poll, reader, held, system)
        received = await wire.get(held.path, fields)
        seen = self.seen
        seen.polls += 1
        seen.received += received.size
        seen.statuses[received.status] += 1
        if reader.wants_deltas:
            seen.delta_polls += 1
            seen.delta_received += received.size
            seen.delta_statuses[received.status] += 1
        self._note_wait(reader, feed, received, system)
        self._remember(held, received, poll.at)
        if received.status in (200, 226, 304) or received.status >= 400:
            self._compare(held, feed, poll.at)

    def _fields(self, poll: Poll, reader: Reader, held: Held, system: System) -> dict[str, str]:
        fields = {"User-Agent": reader.agent, "X-Forwarded-For": reader.address}
        if system.name == "nothing":
            fields["X-Direct-From"] = reader.address
        if reader.codings:
            fields["Accept-Encoding"] = reader.codings
        if poll.conditional and reader.validators == "broken" and held.asked is not None:
            # The reader's own clock, as if it were the document's date.
            fields["If-Modified-Since"] = format_http_date(self._start + held.asked)
        elif poll.conditional and reader.validators != "broken":
            if held.tag and reader.kind in ("both", "tag"):
                fields["If-None-Match"] = held.tag
            if held.date and reader.kind in ("both", "date"):
                fields["If-Modified-Since"] = held.date
        if reader.wants_deltas:
            fields["A-IM"] = "feed"
        if reader.no_cache:
            fields["Cache-Control"] = "no-cache"
        if reader.authorized:
            fields["Authorization"] = "Basic cmVhZGVyOnNlY3JldA=="
        return fields

    def _note_wait(self, reader: Reader, feed: Feed, received: Received, system: System) -> None:
        withheld = feed.is_withheld or reader.no_cache or reader.authorized or feed.number not in self._stored
        self._stored.add(feed.number)
        waited = not system.answered_from_store(received)
        self.seen.waited += waited
        if not withheld:
            self.seen.allowed += 1
            self.seen.waited_though_allowed += waited

    def _remember(self, held: Held, received: Received, at: float) -> None:
        held.asked = at
        if received.status in (301, 308) and (location := received.fields.get("location")):
            held.path = "/" + location.split("://", 1)[-1].split("/", 1)[-1] if "://" in location else location
        if received.status in (200, 226):
            held.tag = received.fields.get("etag", "")
            held.date = received.fields.get("last-modified", "")
            found = _newest(received.body, received.fields.get("content-encoding"))
            if found is not None:
                held.revision = found if received.status == 200 else max(found, held.revision or 0)

    def _compare(self, held: Held, feed: Feed, at: float) -> None:
        """How much later than it was published does the reader learn what is new?"""
        if held.revision is None or (feed.fate == "ends" and at >= feed.fate_at):
            return
        history = self._origin.histories[feed.number]
        newest = history.revision(at)
        behind = at - history.revised[held.revision + 1] if held.revision < newest else 0.0
        self.seen.behind.append(behind)
        if feed.is_silent:
            self.seen.behind_silent.append(behind)


@lru_cache(maxsize=512)
def _newest(body: bytes, coding: str | None) -> int | None:
    found = _REVISION.findall(decode(body, coding, limit=50_000_000))
    return max(map(int, found)) if found else None
