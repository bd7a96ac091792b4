"""Read events for other processes, so that each counts all readers.

Repeated requests of a reader are reported once in READER_INTERVAL only, which suffices for counts over a day, and for
rhythms of polls (poll_rhythms.py). An event has the arguments of `SubscriberCounts.seen`, with the pseudonym and never
the address.
"""

from collections.abc import Iterable
from typing import Any

from feedproxy.clock import Instant, Seconds
from feedproxy.subscribers.pseudonyms import Pseudonym

READER_INTERVAL: Seconds = 60
"""Seconds between two events of a reader of a feed: its feed is not fetched oftener by default."""
CLAIM_INTERVAL: Seconds = 60
"""Seconds between two events of a fetcher with an unchanged claim."""
WAITING_MAX = 50_000
"""Events that wait to be sent; above it the older half is dropped, since later requests repeat them."""
AGENT_MAX = 1000

type Event = list[Any]
"""Target, pseudonym, User-Agent, instant, in JSON."""

type ReadRecord = tuple[str, Pseudonym, str, Instant]
"""The same, parsed."""


class ReadEvents:
    """The events that wait to be sent."""

    def __init__(self) -> None:
        self._waiting: list[Event] = []

    def note(self, read: ReadRecord) -> None:
        """Record a reader's request."""
        target, pseudonym, user_agent, now = read
        if len(self._waiting) >= WAITING_MAX:
            del self._waiting[: WAITING_MAX // 2]
        self._waiting.append([target, *pseudonym, user_agent[:AGENT_MAX], now])

    def take(self) -> list[Event]:
        """Return and remove the waiting events."""
        taken, self._waiting = self._waiting, []
        return taken


def is_due(before: Instant | None, now: Instant, interval: Seconds) -> bool:
    """Return whether an event is due: at the first request within each multiple of `interval`."""
    return before is None or before // interval != now // interval


def read_events(events: Iterable[Any]) -> list[ReadRecord]:
    """Parse events. Raises ValueError or TypeError for invalid ones."""
    return [
        (str(target), Pseudonym(*map(int, pseudonym)), str(agent), float(now))
        for target, *pseudonym, agent, now in events
    ]
