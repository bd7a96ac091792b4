"""What was asked and what was spared, by the hour and by the day: kept in the store, so that a restart forgets little.

Every process keeps a book of its own, since its counters begin at zero with it: what they have grown by since the last
look goes to the hour and the day of this look (`Diary.note`, once a minute). What all have done is the sum of their
books, and nothing is counted twice whoever is started again.

Days are those of UTC, as everything here is.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from typing import Protocol

from feedproxy.clock import Instant, Seconds
from feedproxy.errors import StoreError

HOUR: Seconds = 3_600
DAY: Seconds = 86_400

HOURS_MAX = 72
"""Three days: yesterday at this time can be compared with now."""
DAYS_MAX = 400
"""A year, and the month before it."""

WORKERS_MAX = 64
"""Books of former workers that are looked for: more workers than that nobody has had."""


@dataclass(frozen=True, slots=True)
class TrafficCounts:
    """What happened in some stretch of time. Counts, and bytes of content."""

    requests: int = 0
    """Of readers, which the cache had a say in."""
    hits: int = 0
    """Those that the store answered."""
    passed: int = 0
    """Of readers, which streamed through: no cache could have spared the origin these."""
    fetches: int = 0
    """Asked of origins, for whatever reason."""
    failures: int = 0
    """Those that came to nothing."""
    sent: int = 0
    """Bytes to readers, what streamed through left out."""
    received: int = 0
    """Bytes from origins, what streamed through left out."""
    store_failures: int = 0
    errors: int = 0
    """Faults of feedproxy's own."""

    @property
    def spared(self) -> int:
        """Requests that origins did not get: those of readers, less those that went out for whatever reason."""
        return max(0, self.requests - self.fetches)

    @property
    def bytes_spared(self) -> int:
        """Bytes that origins did not have to send."""
        return max(0, self.sent - self.received)

    @property
    def hit_share(self) -> float | None:
        """The part of the requests that the store answered; None where there were none."""
        return self.hits / self.requests if self.requests else None

    def __add__(self, other: "TrafficCounts") -> "TrafficCounts":
        return TrafficCounts(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def since(self, before: "TrafficCounts") -> "TrafficCounts":
        """What was added to `before`."""
        grown = zip(astuple(self), astuple(before), strict=True)
        return TrafficCounts(*(max(0, now - then) for now, then in grown))


NO_TRAFFIC = TrafficCounts()
_WIDTH = len(fields(TrafficCounts))

type Pages = dict[int, TrafficCounts]
"""By the number of the hour, or of the day, since 1970."""


class History:
    """Tallies by hour and by day."""

    def __init__(self) -> None:
        self.hours: Pages = {}
        self.days: Pages = {}

    def add(self, tally: TrafficCounts, at: Instant) -> None:
        """This has happened up to now."""
        if tally == NO_TRAFFIC:
            return
        for pages, size, kept in ((self.hours, HOUR, HOURS_MAX), (self.days, DAY, DAYS_MAX)):
            number = int(at // size)
            pages[number] = pages.get(number, NO_TRAFFIC) + tally
            for old in [each for each in pages if each <= number - kept]:
                del pages[old]

    def take_in(self, other: "History") -> None:
        """All that another book has."""
        for mine, theirs in ((self.hours, other.hours), (self.days, other.days)):
            for number, tally in theirs.items():
                mine[number] = mine.get(number, NO_TRAFFIC) + tally

    def last(self, unit: Seconds, count: int, now: Instant) -> Iterator[tuple[Instant, TrafficCounts]]:
        """The last so many hours or days, the current one at the end: when each began, and what there was of it."""
        pages, current = self.hours if unit == HOUR else self.days, int(now // unit)
        for number in range(current - count + 1, current + 1):
            yield number * unit, pages.get(number, NO_TRAFFIC)

    def plain(self) -> dict[str, dict[str, list[int]]]:
        """As JSON has it."""
        both = (("hours", self.hours), ("days", self.days))
        return {name: {str(number): list(astuple(tally)) for number, tally in pages.items()} for name, pages in both}

    def dump(self) -> bytes:
        """What `load` reads."""
        return json.dumps(self.plain(), separators=(",", ":")).encode()


def load_history(data: bytes) -> History:
    """The book that `dump` wrote. Raises StoreError."""
    try:
        return parse_history(json.loads(data))
    except ValueError as error:
        raise StoreError(f"the kept history makes no sense: {error}") from error


def parse_history(told: Mapping[str, Mapping[str, list[int]]]) -> History:
    """The book that `plain` told. Raises ValueError."""
    book = History()
    try:
        for name, pages in (("hours", book.hours), ("days", book.days)):
            for number, values in told[name].items():
                # A later feedproxy may count more than this one knows of, and an earlier one less.
                counts = [int(each) for each in values][:_WIDTH]
                if min(counts, default=0) < 0:
                    raise ValueError("a negative count")
                pages[int(number)] = TrafficCounts(*counts)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from error
    return book


def merge_histories(books: Iterable[History]) -> History:
    """What all books have, as one."""
    whole = History()
    for each in books:
        whole.take_in(each)
    return whole


class HistoryStore(Protocol):
    """Where books are kept: a Store."""

    def get_state(self, name: str) -> bytes | None: ...

    async def put_state(self, name: str, data: bytes) -> None: ...


class HistoryRecorder:
    """Keeps the book of one process, one of `size` workers; `counted` tells what its counters say.

    It is begun where it was left. The first worker goes on with the books of workers that there are no more.
    """

    def __init__(self, counted: Callable[[], TrafficCounts], kept: HistoryStore, index: int = 0, size: int = 1) -> None:
        self.book = History()
        self._counted = counted
        self._before = NO_TRAFFIC
        self._kept = kept
        self._name = _name(index)
        self._taken_over: list[str] = []
        self._resume(self._name)
        if index == 0:
            for each in range(size, WORKERS_MAX):
                if self._resume(_name(each)):
                    self._taken_over.append(_name(each))

    def note(self, now: Instant) -> History:
        """Write down what has happened since the last time."""
        counted = self._counted()
        grown, self._before = counted.since(self._before), counted
        self.book.add(grown, now)
        return self.book

    async def save(self, now: Instant) -> None:
        """Note it, and keep it. A store that fails is told to its own listener."""
        with contextlib.suppress(StoreError):
            await self._kept.put_state(self._name, self.note(now).dump())
            while self._taken_over:
                await self._kept.put_state(self._taken_over.pop(), b"")

    def _resume(self, name: str) -> bool:
        with contextlib.suppress(StoreError):
            if data := self._kept.get_state(name):
                self.book.take_in(load_history(data))
                return True
        return False


def _name(index: int) -> str:
    return f"history-{index}"
