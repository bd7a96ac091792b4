"""Stored counts of the traffic by hour and by day (UTC).

Each worker has its own history. Once a minute, the growth of its counters is added to the current hour and day. After a
restart, the counters begin at 0, and their growth is added to the stored history.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import astuple, fields

from feedproxy.clock import DAY, HOUR, Instant, Seconds
from feedproxy.errors import StoreError
from feedproxy.store.interface import Store

SAVE_INTERVAL = 60
"""Seconds between two writes of the history. A crash loses at most the traffic of this time."""
HOURS_MAX = 72
"""Number of stored hours: three days."""
DAYS_MAX = 400
"""Number of stored days: a year and one month."""

WORKERS_MAX = 64
"""The store is searched for the histories of workers with numbers below this limit."""


class TrafficCounts(Struct, frozen=True):
    """Counts of requests, and bytes of content, in a period."""

    requests: int = 0
    """Number of client requests that were hits or misses. Streamed requests (`passed`), CONNECT, and requests that
    feedproxy answers itself, such as refused requests, do not count."""
    hits: int = 0
    passed: int = 0
    """Number of client requests that mitmproxy streamed. They are not in `requests`, because no cache can answer
    them."""
    fetches: int = 0
    failures: int = 0
    sent: int = 0
    received: int = 0
    store_failures: int = 0
    errors: int = 0

    @property
    def forwarded(self) -> int:
        """Return the number of client requests that were forwarded to origins, including streamed requests."""
        return self.requests - self.hits + self.passed

    @property
    def requests_saved(self) -> int:
        """Return the number of requests that origins were spared: `requests` minus `fetches`, at least 0."""
        return max(0, self.requests - self.fetches)

    @property
    def bytes_spared(self) -> int:
        """Return the number of bytes that origins were spared: bytes sent to clients, minus bytes from origins."""
        return max(0, self.sent - self.received)

    @property
    def hit_share(self) -> float | None:
        """Return the fraction of `requests` that the store answered, or None if there were no requests."""
        return self.hits / self.requests if self.requests else None

    def __add__(self, other: "TrafficCounts") -> "TrafficCounts":
        return TrafficCounts(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    def since(self, before: "TrafficCounts") -> "TrafficCounts":
        pairs = zip(astuple(self), astuple(before), strict=True)
        return TrafficCounts(*(max(0, now - then) for now, then in pairs))


NO_TRAFFIC = TrafficCounts()
_WIDTH = len(fields(TrafficCounts))

type Pages = dict[int, TrafficCounts]
"""Counts by the number of the hour or of the day since 1970."""


class History:
    """Traffic counts by hour and by day."""

    def __init__(self) -> None:
        self.hours: Pages = {}
        self.days: Pages = {}

    def add(self, tally: TrafficCounts, at: Instant) -> None:
        """Add counts to the hour and the day that contain the instant `at`."""
        if tally == NO_TRAFFIC:
            return
        for pages, size, limit in ((self.hours, HOUR, HOURS_MAX), (self.days, DAY, DAYS_MAX)):
            number = int(at // size)
            pages[number] = pages.get(number, NO_TRAFFIC) + tally
            for old in [page for page in pages if page <= number - limit]:
                del pages[old]

    def merge(self, other: "History") -> None:
        for pages, other_pages in ((self.hours, other.hours), (self.days, other.days)):
            for number, tally in other_pages.items():
                pages[number] = pages.get(number, NO_TRAFFIC) + tally

    def last(self, unit: Seconds, count: int, now: Instant) -> Iterator[tuple[Instant, TrafficCounts]]:
        """Yield the start and the traffic counts of each of the last `count` periods, the current period last. `unit`
        is HOUR or DAY."""
        pages, current = self.hours if unit == HOUR else self.days, int(now // unit)
        for number in range(current - count + 1, current + 1):
            yield number * unit, pages.get(number, NO_TRAFFIC)

    def plain(self) -> dict[str, dict[str, list[int]]]:
        """Return the history as JSON values, for `parse_history`."""
        parts = (("hours", self.hours), ("days", self.days))
        return {name: {str(number): list(astuple(tally)) for number, tally in pages.items()} for name, pages in parts}


def parse_history(plain: Mapping[str, Mapping[str, list[int]]]) -> History:
    """Return the history that `plain` describes. Raises ValueError for malformed values."""
    history = History()
    try:
        for name, pages in (("hours", history.hours), ("days", history.days)):
            for number, values in plain[name].items():
                # A later version may have more counts, and an earlier version fewer.
                counts = [int(value) for value in values][:_WIDTH]
                if min(counts, default=0) < 0:
                    raise ValueError("negative count")
                pages[int(number)] = TrafficCounts(*counts)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from error
    return history


def merge_histories(histories: Iterable[History]) -> History:
    total = History()
    for history in histories:
        total.merge(history)
    return total


class HistoryRecorder:
    """Recorder of the history of worker `index` among `size` workers.

    `count` returns the current values of the worker's counters. If an earlier run had more workers, the first worker
    also continues the histories of the additional workers.
    """

    def __init__(self, count: Callable[[], TrafficCounts], store: Store, index: int, size: int) -> None:
        self.history = History()
        self._count = count
        self._before = NO_TRAFFIC
        self._store = store
        self._name = _name(index)
        self._adopted: list[str] = []
        self._resume(self._name)
        if index == 0:
            for former in range(size, WORKERS_MAX):
                if self._resume(_name(former)):
                    self._adopted.append(_name(former))

    def record(self, now: Instant) -> History:
        """Add the growth of the counters since the last call, and return the history."""
        counts = self._count()
        growth, self._before = counts.since(self._before), counts
        self.history.add(growth, now)
        return self.history

    async def save(self, now: Instant) -> None:
        """Record the traffic and store the history. The store reports its own failures."""
        data = json.dumps(self.record(now).plain(), separators=(",", ":")).encode()
        with contextlib.suppress(StoreError):
            await self._store.put_state(self._name, data)
            while self._adopted:
                await self._store.put_state(self._adopted.pop(), b"")

    def _resume(self, name: str) -> bool:
        with contextlib.suppress(StoreError, ValueError):
            if data := self._store.get_state(name):
                self.history.merge(parse_history(json.loads(data)))
                return True
        return False


def _name(index: int) -> str:
    return f"history-{index}"
