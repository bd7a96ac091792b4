"""What other processes are to be told of who reads, so that each counts all.

A reader who comes again and again is told of once in a while only: that is enough for a count over a day, and for
whether a feed is read at all. What is told is what `SubscriberCounts.seen` was given, with the pseudonym and never the
address.
"""

from collections.abc import Iterable
from typing import Any

from feedproxy.clock import Instant, Seconds
from feedproxy.subscribers.pseudonyms import Pseudonym

READER_INTERVAL: Seconds = 600
"""A reader of a feed is told of once in this time."""
CLAIM_INTERVAL: Seconds = 60
"""The same for a fetcher whose claim says nothing new."""
WAITING_MAX = 50_000
"""What nobody fetches is forgotten, the oldest first: who was not heard of comes again."""
AGENT_MAX = 1000

type Event = list[Any]
"""Target, pseudonym, User-Agent, instant: as JSON has them."""

type Heard = tuple[str, Pseudonym, str, Instant]
"""The same, read."""


class ReadEvents:
    """What has to be told."""

    def __init__(self) -> None:
        self._waiting: list[Event] = []

    def note(self, target: str, pseudonym: Pseudonym, user_agent: str, now: Instant) -> None:
        """Somebody asks for a feed."""
        if len(self._waiting) >= WAITING_MAX:
            del self._waiting[: WAITING_MAX // 2]
        self._waiting.append([target, *pseudonym, user_agent[:AGENT_MAX], now])

    def take(self) -> list[Event]:
        """All that waits; it waits no longer."""
        taken, self._waiting = self._waiting, []
        return taken


def is_due(before: Instant | None, now: Instant, interval: Seconds) -> bool:
    """Whether one last seen then is to be told of again: at the first time within each stretch of `interval`."""
    return before is None or before // interval != now // interval


def read_events(told: Iterable[Any]) -> list[Heard]:
    """What was told, read. Raises ValueError or TypeError for what is none."""
    return [
        (str(target), Pseudonym(*map(int, pseudonym)), str(agent), float(now))
        for target, *pseudonym, agent, now in told
    ]
