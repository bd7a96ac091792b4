"""Exchange of readers' polls among machines. Every machine then knows when readers poll (subscribers/poll_rhythms.py).

Once a second, each worker sends the polls of its readers. These events contain pseudonyms and no addresses, and are not
in the log of events. A machine that misses a poll learns the reader's rhythm from later polls.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import batched
from typing import Any

from feedproxy.clock import Instant
from feedproxy.fleet.redis_operations import RedisOperations
from feedproxy.subscribers.read_events import ReadRecord
from feedproxy.subscribers.reader_pseudonyms import Pseudonym

KIND = "polls"

POLLS_MAX = 4000
"""A worker sends at most this many polls in a second, each of about 120 bytes. Further polls are dropped."""

POLLS_PER_EVENT = 500
"""Maximum number of polls in one event."""

TARGET_MAX = 8192
"""Maximum number of characters of a target in another machine's poll. Polls with longer targets are ignored."""

type Poll = tuple[str, Pseudonym, Instant]
"""The target of a poll, the reader's pseudonym, and the instant of the poll."""


class SharedPolls:
    """The unsent polls of this machine's readers."""

    def __init__(self, redis_operations: RedisOperations) -> None:
        self._redis_operations = redis_operations
        self._waiting: list[list[Any]] = []

    def note(self, read: ReadRecord) -> None:
        target, pseudonym, _, at = read
        if len(self._waiting) < POLLS_MAX:
            self._waiting.append([target, pseudonym.current, pseudonym.previous, round(at, 1)])

    async def sync(self) -> None:
        """Send the queued polls. Drop them while Redis is unavailable. Raises RedisUnavailable or RedisRefused if Redis
        fails."""
        waiting, self._waiting = self._waiting, []
        if not self._redis_operations.connection.up:
            return
        for polls in batched(waiting, POLLS_PER_EVENT):
            await self._redis_operations.publish_unlogged(KIND, "", polls)


def parse_polls(payload: Iterable[Any]) -> Iterator[Poll]:
    """Yield the valid polls of an event's payload. Raises ValueError or TypeError unless each poll has four values:
    target, current and previous pseudonym, instant."""
    for target, current, previous, at in payload:
        pseudonyms, instant = (int(current), int(previous)), float(at)
        is_valid = isinstance(target, str) and len(target) <= TARGET_MAX and math.isfinite(instant)
        if is_valid and all(0 <= pseudonym < 2**64 for pseudonym in pseudonyms):
            yield target, Pseudonym(*pseudonyms), instant
