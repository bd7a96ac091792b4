"""Events that report readers' requests to other processes, so that each process counts all readers.

A reader of a feed is reported once in READER_INTERVAL seconds, which suffices for counts over a day and for poll
rhythms. An event has the pseudonym and never the address.
"""

from collections.abc import Iterable
from typing import Any

from feedproxy.clock import Instant, Seconds
from feedproxy.subscribers.reader_pseudonyms import Pseudonym

READER_INTERVAL: Seconds = 60
"""The requests of a reader for a feed cause at most one event in each interval of this many seconds (`is_due`)."""
CLAIM_INTERVAL: Seconds = 60
"""An unchanged claim of a fetcher causes at most one event in each interval of this many seconds (`is_due`)."""
WAITING_MAX = 50_000
"""At most this many events wait to be sent. Above this number, the older half is dropped."""
AGENT_MAX = 1000

type Event = list[Any]
"""A request in JSON: target, pseudonym, User-Agent, instant."""

type ReadRecord = tuple[str, Pseudonym, str, Instant]
"""A request as values: target, pseudonym, User-Agent, instant."""


class ReadEvents:
    """The events that wait to be sent to the other processes."""

    def __init__(self) -> None:
        self._waiting: list[Event] = []

    def record(self, read: ReadRecord) -> None:
        """Add an event for a reader's request. If too many events wait, drop the older half first."""
        target, pseudonym, user_agent, now = read
        if len(self._waiting) >= WAITING_MAX:
            del self._waiting[: WAITING_MAX // 2]
        self._waiting.append([target, *pseudonym, user_agent[:AGENT_MAX], now])

    def take(self) -> list[Event]:
        """Return and remove the unsent events."""
        events, self._waiting = self._waiting, []
        return events


def is_due(before: Instant | None, now: Instant, interval: Seconds) -> bool:
    """Return True if a request at `now` must cause an event, because it is the first in its interval.

    The intervals begin at multiples of `interval` seconds. `before` is the instant of the previous request, or None if
    there was none.
    """
    return before is None or before // interval != now // interval


def read_events(events: Iterable[Any]) -> list[ReadRecord]:
    """Return the requests of events. Raises ValueError or TypeError for invalid events."""
    return [
        (str(target), Pseudonym(*map(int, pseudonym)), str(agent), float(now))
        for target, *pseudonym, agent, now in events
    ]
