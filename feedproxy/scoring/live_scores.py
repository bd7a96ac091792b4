"""Readers judged while they read: a sample of bounded size, for the publisher to see who does what.

Whoever comes first is followed, as long as there is room; who has not been seen for two days makes way. So the cost is
bounded however many come, in readers and in bytes, and those who poll most are the likeliest to be among them.
Addresses are hashed under a key that lives as long as the process and is known to nobody.
"""

import hashlib
import secrets
import sys
from collections.abc import Callable, Iterator

from feedproxy.clock import Instant, Seconds
from feedproxy.scoring.aggregate import EVIDENCE, ReaderAccount, account_of
from feedproxy.scoring.grade import ReaderScore, rank, score_of
from feedproxy.scoring.reader import Reader, ReaderName, reader_name, secret_marker
from feedproxy.scoring.scored_request import Poll
from feedproxy.upstream.special_networks import client_network

FEEDS = 50
"""Feeds judged of one reader: a fetcher of thousands shows how it behaves with these."""

FEED_BYTES = 10 * 1024
"""What is remembered of one reader and feed takes as much at most (tests/admin/test_reader_scores.py)."""

ADDRESSES_MAX = 4096
"""Addresses whose names are remembered."""

STRANGERS_MAX = 65_536
"""Readers remembered for whom there was no room, as hashes: they are passed over at the cost of one look."""

FORGOTTEN_AFTER: Seconds = 2 * 86_400
SWEEP_INTERVAL: Seconds = 60
"""How often it is looked whether somebody makes way."""


class LiveScores:
    """At most `size` readers; 0 judges nobody. `partial`: other workers answer the same readers, unseen by this one.

    Half of `bytes_max` is for those who come first, with all their feeds. Of the other half each reader has its part.
    """

    def __init__(self, size: int = 0, *, partial: bool = False, bytes_max: int = sys.maxsize) -> None:
        self.size = size
        self.bytes_max = bytes_max
        self.partial = partial
        self._readers: dict[ReaderName, Reader] = {}
        self._feeds = 0
        self._seen: dict[ReaderName, Instant] = {}
        self._key = secrets.token_bytes(32)
        self._names: dict[str, str] = {}
        self._strangers: set[int] = set()
        self._looked: Instant = 0.0
        self._skipped: set[int] = set()
        """Hashes of reader and feed that it is not judged by: one look tells for a minute."""
        self._skipped_since: Instant = 0.0
        self._number = 0
        self._step = 1

    def share(self, index: int, size: int, key: bytes) -> None:
        """It is one of `size`, which call the same reader by the same name, and number no two requests alike."""
        self.partial, self._key, self._number, self._step = True, key, index, size

    def see(self, address: str, user_agent: str, target: str, now: Instant, poll: Callable[[int], Poll]) -> None:
        """Somebody was answered; `poll` makes of it what is judged, and is called for those who are followed."""
        if self.size <= 0:
            return
        if now - self._skipped_since < SWEEP_INTERVAL and hash((address, user_agent, target)) in self._skipped:
            return
        asking = hash((address, user_agent, secret_marker(target)))
        if asking in self._strangers and now - self._looked < SWEEP_INTERVAL:
            return
        name = reader_name(self._pseudonym(address), user_agent[:512], target)
        reader = self._readers.get(name)
        if reader is None:
            if len(self._readers) >= self._readers_max() and not self._make_room(now):
                if len(self._strangers) < STRANGERS_MAX:
                    self._strangers.add(asking)
                return
            reader = self._readers[name] = Reader(
                name.reader, evidence_max=EVIDENCE, feeds_max=FEEDS, partial=self.partial
            )
        self._seen[name] = now
        if not self._is_followed(reader, target, now):
            self._skip(hash((address, user_agent, target)), now)
            return
        self._number += self._step
        before = len(reader.feeds)
        reader.see(poll(self._number))
        self._feeds += len(reader.feeds) - before

    def scores(self, now: Instant) -> list[ReaderScore]:
        """What they have come to, the worst first."""
        return rank(score_of(each, now) for each in self.accounts())

    def accounts(self) -> Iterator[ReaderAccount]:
        """What each has done; good until the next request."""
        return map(account_of, list(self._readers.values()))

    def __len__(self) -> int:
        return len(self._readers)

    @property
    def feeds(self) -> int:
        """Feeds judged, of all readers together."""
        return self._feeds

    def _half(self) -> int:
        return self.bytes_max // FEED_BYTES // 2

    def _readers_max(self) -> int:
        return min(self.size, max(1, self._half()))

    def _is_followed(self, reader: Reader, target: str, now: Instant) -> bool:
        """Whether this feed is one of those that the reader is judged by, or there is room, or one makes way.

        What comes first stays: of feeds that drive one another out nothing could be learned, and it would be dear.
        """
        count = len(reader.feeds)
        if count < FEEDS and (self._feeds < self._half() or count < max(1, self._half() // self.size)):
            return True
        if reader.knows(target, now):
            return True
        oldest = next(iter(reader.feeds.values()))
        if now - oldest.last <= FORGOTTEN_AFTER:
            return False
        reader.forget_oldest()
        self._feeds -= 1
        return True

    def _make_room(self, now: Instant) -> bool:
        if now - self._looked < SWEEP_INTERVAL:
            return False
        self._looked = now
        self._strangers.clear()
        for name in [each for each, seen in self._seen.items() if now - seen > FORGOTTEN_AFTER]:
            self._feeds -= len(self._readers.pop(name).feeds)
            del self._seen[name]
        return len(self._readers) < self._readers_max()

    def _skip(self, asking: int, now: Instant) -> None:
        if now - self._skipped_since >= SWEEP_INTERVAL:
            self._skipped_since = now
            self._skipped.clear()
        if len(self._skipped) < STRANGERS_MAX:
            self._skipped.add(asking)

    def _pseudonym(self, address: str) -> str:
        found = self._names.get(address)
        if found is None:
            if len(self._names) >= ADDRESSES_MAX:
                self._names.clear()
            digest = hashlib.blake2b(client_network(address).encode(), key=self._key, digest_size=4).hexdigest()
            found = self._names[address] = f"reader-{digest}"
        return found
