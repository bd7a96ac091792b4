"""The play: it sends all polls of the week to one system, in order, and computes the figures."""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.week.history import History
from benchmarks.week.model import OUTAGE, Feed, Poll, Reader
from benchmarks.week.wire import Received, Wire
from feedproxy.http.coding.bounded_decompression import decode
from feedproxy.http.date import format_http_date

_REVISION = re.compile(rb"\[r(\d+)\]")

WAITS = ("no-cache, no-store", "the reader's no-cache", "with a password", "a feed's first request", "other")
"""Reasons why a reader waited for the origin. Except for the last reason, HTTP permits no copy, or no copy exists."""


STEP = 15.0
"""Seconds by which the play's time advances at once. Polls within such a step are sent at its end."""

ROW = 32
"""Number of requests that are sent before the first answer is read. A server answers each of them before it reads the
next.
"""

type Revisions = dict[tuple[object, ...], int | None]
"""The newest revision in each received body, keyed by properties that distinguish bodies."""


def rows(polls: Sequence[Poll], most: int) -> Iterator[tuple[float, list[Poll]]]:
    """Yield rows of at most `most` polls in order, each with the instant at which its polls are sent.

    All polls of a row are due in the same step (STEP).
    """
    row: list[Poll] = []
    step = 0.0
    for poll in polls:
        if row and (poll.at // STEP != step or len(row) == most):
            yield (step + 1) * STEP, row
            row = []
        row.append(poll)
        step = poll.at // STEP
    if row:
        yield (step + 1) * STEP, row


class System(Protocol):
    """A system between readers and origin. `settle` advances the time before each row of polls. `answered_from_store`
    returns whether the reader got this answer without waiting for the origin.
    """

    name: str
    port: int
    row: int
    """Maximum number of requests that are sent before the first answer is read."""

    def settle(self, at: float) -> None: ...

    def answered_from_store(self, received: Received, feed: int) -> bool: ...


@dataclass
class Held:
    """A reader's copy of a feed: its validators, and the newest revision in it."""

    path: str
    tag: str = ""
    date: str = ""
    asked: float | None = None
    revision: int | None = None
    conditional: bytes = b""
    """The request with these validators, or empty bytes until it is first needed."""


@dataclass
class Seen:
    """The results of the polls, as the readers see them."""

    polls: int = 0
    received: int = 0
    waits: Counter[str] = field(default_factory=Counter)
    allowed: int = 0
    """Number of polls that HTTP permits a cache to answer without a request to the origin: a copy existed, and nothing
    forbade its use.
    """
    statuses: Counter[int] = field(default_factory=Counter)
    behind: array[float] = field(default_factory=lambda: array("d"))
    """For each poll of an available feed: seconds since the first revision that the reader lacks was published, or 0 if
    it lacks none.
    """
    behind_silent: array[float] = field(default_factory=lambda: array("d"))
    """The values of `behind` for feeds that state no lifetime."""
    behind_kept: array[float] = field(default_factory=lambda: array("d"))
    """The values of `behind` for all feeds that HTTP permits a cache to store."""
    behind_by_manners: Counter[str] = field(default_factory=Counter)
    delta_polls: int = 0
    delta_received: int = 0
    delta_statuses: Counter[int] = field(default_factory=Counter)

    def summary(self) -> dict[str, Any]:
        """Return the figures of this run."""
        ordered = sorted(self.behind)
        waited = self.waits.total()
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
            "kept_stale_mean": sum(self.behind_kept) / max(1, len(self.behind_kept)),
            "stale_share": sum(1 for each in ordered if each) / max(1, len(ordered)),
            "stale_seconds": dict(self.behind_by_manners),
            "waited": waited,
            "waits": {why: self.waits[why] for why in WAITS},
            "not_waited_share": 1 - waited / max(1, self.polls),
            "not_waited_share_where_allowed": 1 - self.waits[WAITS[-1]] / max(1, self.allowed),
        }


class Play:
    """The readers of one run."""

    def __init__(
        self,
        histories: Sequence[History],
        feeds: Sequence[Feed],
        readers: Sequence[Reader],
        start: float,
        revisions: Revisions,
    ) -> None:
        self._histories = histories
        self._feeds = feeds
        self._readers = readers
        self._start = start
        self._held: dict[tuple[int, int], Held] = {}
        self._stored: set[int] = set()
        self._revisions = revisions
        self._fields: list[bytes] = []
        self.seen = Seen()

    def perform(self, system: System, polls: Sequence[Poll], say: Callable[[int], None]) -> Seen:
        """Send all polls. Return the results. Raises OSError, EOFError or TimeoutError if an answer is missing."""
        self._fields = [_fields(reader, system) for reader in self._readers]
        wire, done = Wire(system.port), 0
        try:
            for at, row in rows(polls, system.row):
                system.settle(at)
                asked = [self._request(poll) for poll in row]
                for poll, received in zip(row, wire.get(asked), strict=True):
                    self._heard(poll, at, received, system)
                done += len(row)
                say(done)
        finally:
            wire.close()
        return self.seen

    def _heard(self, poll: Poll, at: float, received: Received, system: System) -> None:
        reader, feed, held = self._readers[poll.reader], self._feeds[poll.feed], self._held[poll.reader, poll.feed]
        seen = self.seen
        seen.polls += 1
        seen.received += received.size
        seen.statuses[received.status] += 1
        if reader.wants_deltas:
            seen.delta_polls += 1
            seen.delta_received += received.size
            seen.delta_statuses[received.status] += 1
        self._note_wait(reader, feed, received, system)
        held.asked = at
        if received.status != 304:
            self._remember(held, received, poll.feed)
        if received.status in (200, 226, 304) or received.status >= 400:
            self._compare(held, feed, reader, at)

    def _request(self, poll: Poll) -> bytes:
        reader, held = self._readers[poll.reader], self._held.get((poll.reader, poll.feed))
        if held is None:
            held = self._held[poll.reader, poll.feed] = Held(self._feeds[poll.feed].path)
        first = f"GET {held.path} HTTP/1.1\r\n".encode("latin-1")
        if not poll.conditional or held.asked is None:
            return first + self._fields[reader.number] + b"\r\n"
        if reader.validators == "broken":
            # The reader sends the time of its last request as if it were the document's date.
            since = f"If-Modified-Since: {format_http_date(self._start + held.asked)}\r\n\r\n".encode("latin-1")
            return first + self._fields[reader.number] + since
        if not held.conditional:
            lines = ""
            if held.tag and reader.kind in ("both", "tag"):
                lines += f"If-None-Match: {held.tag}\r\n"
            if held.date and reader.kind in ("both", "date"):
                lines += f"If-Modified-Since: {held.date}\r\n"
            held.conditional = first + self._fields[reader.number] + lines.encode("latin-1") + b"\r\n"
        return held.conditional

    def _note_wait(self, reader: Reader, feed: Feed, received: Received, system: System) -> None:
        first = feed.number not in self._stored
        why = (
            WAITS[0]
            if feed.is_withheld
            else WAITS[1]
            if reader.no_cache
            else WAITS[2]
            if reader.authorized
            else WAITS[3]
            if first
            else WAITS[4]
        )
        if first:
            self._stored.add(feed.number)
        self.seen.allowed += why == WAITS[4]
        if not system.answered_from_store(received, feed.number):
            self.seen.waits[why] += 1

    def _remember(self, held: Held, received: Received, feed: int) -> None:
        if received.status in (301, 308) and (where := received.fields.get(b"location", b"").decode("latin-1")):
            held.path = "/" + where.split("://", 1)[-1].split("/", 1)[-1] if "://" in where else where
            held.conditional = b""
        if received.status in (200, 226):
            held.tag = received.fields.get(b"etag", b"").decode("latin-1")
            held.date = received.fields.get(b"last-modified", b"").decode("latin-1")
            held.conditional = b""
            found = self._newest(received, feed)
            if found is not None:
                held.revision = found if received.status == 200 else max(found, held.revision or 0)

    def _newest(self, received: Received, feed: int) -> int | None:
        """Return the newest revision in a body. Bodies are distinguished by their beginning, which contains the build
        date even in coded form, and by their end, which contains the CRC in gzip.
        """
        body, coding = received.body, received.fields.get(b"content-encoding", b"").decode("latin-1")
        key = (feed, received.status, coding, len(body), body[:1024], body[-64:])
        if key not in self._revisions:
            found = _REVISION.findall(decode(body, coding or None, limit=50_000_000))
            self._revisions[key] = max(map(int, found)) if found else None
        return self._revisions[key]

    def _compare(self, held: Held, feed: Feed, reader: Reader, at: float) -> None:
        """Record for how long the reader has lacked the first revision that it does not have."""
        if held.revision is None or (feed.fate == "ends" and at >= feed.fate_at):
            return
        if feed.fate == "outage" and 0 <= at - feed.fate_at < OUTAGE:
            return  # no cache can have what its origin does not send
        history = self._histories[feed.number]
        newest = history.revision(at)
        behind = at - history.revised[held.revision + 1] if held.revision < newest else 0.0
        self.seen.behind.append(behind)
        if feed.is_silent:
            self.seen.behind_silent.append(behind)
        if not feed.is_withheld:
            self.seen.behind_kept.append(behind)
        if behind:
            self.seen.behind_by_manners[f"{reader.validators}, {said(feed)}"] += round(behind)


def said(feed: Feed) -> str:
    """Return the kind of lifetime that HTTP or the feed states, in one word."""
    if feed.is_withheld:
        return "withheld"
    if feed.cache_control:
        return "max-age"
    return "ttl" if feed.ttl else "sy" if feed.syndication else "silent"


def _fields(reader: Reader, system: System) -> bytes:
    """Return the fields that a reader sends with every request."""
    lines = ["Host: origin.test", f"User-Agent: {reader.agent}", f"X-Forwarded-For: {reader.address}"]
    if system.name == "nothing":
        lines.append(f"X-Direct-From: {reader.address}")
    if reader.codings:
        lines.append(f"Accept-Encoding: {reader.codings}")
    if reader.wants_deltas:
        lines.append("A-IM: feed")
    if reader.no_cache:
        lines.append("Cache-Control: no-cache")
    if reader.authorized:
        lines.append("Authorization: Basic cmVhZGVyOnNlY3JldA==")
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")
