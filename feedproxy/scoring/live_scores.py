"""Live scores: evaluation of readers while they poll, for a bounded number of readers and bytes of memory.

At the bound, a new reader is scored only if it can replace a reader that has sent no request for two days, so that most
of the scored readers poll often. Network addresses are hashed under a random key of the process, or of its group of
workers.
"""

import secrets
import sys
from collections.abc import Callable, Iterator

from feedproxy.clock import Instant, Seconds
from feedproxy.http.message import Fields
from feedproxy.scoring.reader_accounts import EVIDENCE_MAX, ReaderAccount
from feedproxy.scoring.reader_feeds import Reader
from feedproxy.scoring.reader_names import ReaderName, address_pseudonym, reader_name
from feedproxy.scoring.scored_request import Poll

FEEDS_MAX = 50
"""At most this many feeds of one reader are scored. They suffice to show the behaviour of a reader that polls thousands
of feeds."""

FEED_BYTES = 10 * 1024
"""The state of one reader and feed takes at most this many bytes. A test measures it."""

ADDRESSES_MAX = 4096
"""The pseudonyms of at most this many network addresses are cached."""

SKIPPED_MAX = 65_536
"""At most this many hashes are stored, one for each pair of a reader and a target that is not scored. The next request
of such a pair then causes no further work."""

IDLE_TIMEOUT: Seconds = 2 * 86_400
"""A reader or a feed may be dropped to make room after this many seconds without a request."""

SWEEP_INTERVAL: Seconds = 60
"""Seconds between two searches for readers that can be dropped."""

FIELDS_MAX = 64
"""A request with more than this many field lines is not scored. The limit saves memory, because each reader's last
request is kept."""

FIELDS_LENGTH_MAX = 4096
"""A request is not scored if its field values together have more than this many characters. Requests of feed readers
have a tenth of this number."""


def is_small_enough(request: Fields) -> bool:
    """Return True if a request with these fields is small enough to be scored."""
    return len(request) <= FIELDS_MAX and sum([len(value) for _, value in request]) <= FIELDS_LENGTH_MAX


class LiveScores:
    """Scores of at most `size` readers. A `size` of 0 disables scoring.

    `partial` is true if other workers answer requests of the same readers. `bytes_max` limits the memory. Until half of
    it is in use, each reader may have FEEDS_MAX feeds. The other half is divided equally among the readers.
    """

    def __init__(self, size: int = 0, *, partial: bool = False, bytes_max: int = sys.maxsize) -> None:
        self.size = size
        self.bytes_max = bytes_max
        self.partial = partial
        self._readers: dict[ReaderName, Reader] = {}
        self._feeds = 0
        self._last_seen: dict[ReaderName, Instant] = {}
        self._key = secrets.token_bytes(32)
        self._pseudonyms: dict[str, str] = {}
        self._swept_at: Instant = 0.0
        self._skipped: set[int] = set()
        """Hashes of a reader together with a target that is not scored. All hashes are cleared every SWEEP_INTERVAL
        seconds."""
        self._skipped_since: Instant = 0.0
        self._number = 0
        self._step = 1

    def join_workers(self, index: int, size: int, key: bytes) -> None:
        """Join a group of `size` workers as number `index`. With the common `key`, a reader has the same pseudonym in
        each worker. Request numbers are unique in the group."""
        self.partial, self._key, self._number, self._step = True, key, index, size

    def record(
        self, address: str, user_agent: str, target: str, now: Instant, make_poll: Callable[[int], Poll]
    ) -> None:
        """Score an answered request, unless a limit excludes its reader or feed. `make_poll` is called only for a
        scored request, with the request number."""
        self.record_named(self.name_of(address, user_agent, target), target, now, make_poll)

    def name_of(self, address: str, user_agent: str, target: str) -> ReaderName:
        """Return the name of the reader that sent a request."""
        return reader_name(self._pseudonym(address), user_agent[:512], target)

    def is_excluded(self, name: ReaderName, target: str, now: Instant) -> bool:
        """Return True if a limit is known to exclude the reader or the feed, so that `record_named` would do
        nothing."""
        return now - self._skipped_since < SWEEP_INTERVAL and hash((name, target)) in self._skipped

    def record_named(self, name: ReaderName, target: str, now: Instant, make_poll: Callable[[int], Poll]) -> None:
        """Do the same as `record` for the reader with this name (`name_of`)."""
        if self.size <= 0 or self.is_excluded(name, target, now):
            return
        key = hash((name, target))
        reader = self._readers.get(name)
        if reader is None:
            if len(self._readers) >= self._readers_max() and not self._make_room(now):
                self._skip(key, now)
                return
            reader = self._readers[name] = Reader(
                name.reader, evidence_max=EVIDENCE_MAX, feeds_max=FEEDS_MAX, partial=self.partial
            )
        self._last_seen[name] = now
        if not self._is_scored(reader, target, now):
            self._skip(key, now)
            return
        self._number += self._step
        before = len(reader.feeds)
        reader.evaluate(make_poll(self._number))
        self._feeds += len(reader.feeds) - before

    def accounts(self) -> Iterator[ReaderAccount]:
        """Yield the account of each reader. Requests that are recorded later change the account."""
        return (reader.account() for reader in list(self._readers.values()))

    def __len__(self) -> int:
        return len(self._readers)

    @property
    def feeds(self) -> int:
        """Return the number of scored feeds, summed over all readers."""
        return self._feeds

    def _reserved_feeds(self) -> int:
        return self.bytes_max // FEED_BYTES // 2

    def _readers_max(self) -> int:
        return min(self.size, max(1, self._reserved_feeds()))

    def _is_scored(self, reader: Reader, target: str, now: Instant) -> bool:
        """Return True if the feed is already scored or can be added. If there is room, it can be added. Otherwise it
        takes the place of the reader's least recently requested feed, if that feed has had no request for IDLE_TIMEOUT
        seconds.

        If active feeds replaced each other, none would be observed long enough for a score.
        """
        count = len(reader.feeds)
        if count < FEEDS_MAX and (
            self._feeds < self._reserved_feeds() or count < max(1, self._reserved_feeds() // self.size)
        ):
            return True
        if reader.has_feed(target, now):
            return True
        oldest = next(iter(reader.feeds.values()))
        if now - oldest.account.last <= IDLE_TIMEOUT:
            return False
        reader.forget_oldest()
        self._feeds -= 1
        return True

    def _make_room(self, now: Instant) -> bool:
        if now - self._swept_at < SWEEP_INTERVAL:
            return False
        self._swept_at = now
        for name in [name for name, last_seen in self._last_seen.items() if now - last_seen > IDLE_TIMEOUT]:
            self._feeds -= len(self._readers.pop(name).feeds)
            del self._last_seen[name]
        return len(self._readers) < self._readers_max()

    def _skip(self, key: int, now: Instant) -> None:
        if now - self._skipped_since >= SWEEP_INTERVAL:
            self._skipped_since = now
            self._skipped.clear()
        if len(self._skipped) < SKIPPED_MAX:
            self._skipped.add(key)

    def _pseudonym(self, address: str) -> str:
        pseudonym = self._pseudonyms.get(address)
        if pseudonym is None:
            if len(self._pseudonyms) >= ADDRESSES_MAX:
                self._pseudonyms.clear()
            pseudonym = self._pseudonyms[address] = address_pseudonym(address, self._key)
        return pseudonym
