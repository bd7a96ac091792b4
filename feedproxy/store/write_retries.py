"""Further attempts to write values that could not be written, for example because the disk was full.

A *pass* is one attempt for each value, by the writer thread, while no new value is queued. Every write wakes the writer
thread. There is a write at least once a minute, so a pass needs no timer.
"""

import time
from collections.abc import Callable, Sequence

from feedproxy.clock import Seconds
from feedproxy.errors import StoreError

RETRY_INTERVAL: Seconds = 10
"""Minimum time, in seconds, between two passes over the unwritten values, and from a failed write to the next pass."""
FAILURES_MAX = 3
"""A pass over the unwritten values ends after this many failures. One failure can be due to a large value or to one
shard, but three are due to the disk."""
SLICE = 64
"""Maximum number of values that one step of a pass writes. New values are written between two steps."""


class WriteRetries[Key]:
    """The passes over the values that could not be written.

    `keys` returns their keys. `write` writes the value of one key, or reports its failure and raises StoreError.
    """

    def __init__(
        self,
        keys: Callable[[], Sequence[Key]],
        write: Callable[[Key], None],
        clock: Callable[[], Seconds] = time.monotonic,
    ) -> None:
        self._keys, self._write, self._clock = keys, write, clock
        self._next_pass: Seconds = 0.0
        self._remaining: list[Key] = []
        self._failures = 0

    def postpone(self) -> None:
        """Postpone the next pass over the unwritten values by RETRY_INTERVAL seconds."""
        self._next_pass = self._clock() + RETRY_INTERVAL

    def hasten(self) -> None:
        self._next_pass = 0.0

    def step(self) -> bool:
        """Write up to SLICE values if a pass over the unwritten values is in progress or due. Return True if the pass
        continues, and False if it has ended or is not due."""
        if not self._remaining:
            if self._clock() < self._next_pass:
                return False
            self._remaining, self._failures = list(reversed(self._keys())), 0
        for _ in range(min(SLICE, len(self._remaining))):
            try:
                self._write(self._remaining.pop())
            except StoreError:
                self._failures += 1
                if self._failures >= FAILURES_MAX:
                    self._remaining.clear()
                    break
        if self._remaining:
            return True
        if self._failures:
            self.postpone()
        return False
