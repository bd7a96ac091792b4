"""Subscriber counts of feeds (docs/explanation/subscribers.md). Requests to origins report the counts to publishers.

Memory is bounded. A reader takes about 100 bytes. Above the limit, the feeds requested longest ago are removed. If one
feed is flooded with readers, the older half of its readers is removed instead, so that the flood does not affect other
feeds. Claims made once are removed before repeated claims.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile

from msgspec import Struct

from feedproxy.clock import Instant, Seconds, is_set_back, is_unset
from feedproxy.cooperative_iteration import THROTTLED_BLOCKING_TIME, iterate_cooperatively, iterate_in_background
from feedproxy.event_signal import Signal
from feedproxy.http.user_agent import Claim, parse_claim, product
from feedproxy.subscribers import subscriber_counts_codec
from feedproxy.subscribers.claim_confirmation import (
    CONFIRMATION,
    clamp_times,
    current_claim,
    room_for_claims,
    sum_of_claims,
    unconfirmed_claim,
    update_claim,
)
from feedproxy.subscribers.poll_rhythms import PollRhythms
from feedproxy.subscribers.product_codes import ProductNames
from feedproxy.subscribers.read_events import CLAIM_INTERVAL, READER_INTERVAL, ReadRecord, is_due
from feedproxy.subscribers.reader_pseudonyms import Pseudonym
from feedproxy.subscribers.readers_and_claims import CLAIM_WEIGHT, FeedReaders, weight_of_name
from feedproxy.subscribers.readers_for_public_lists import DistinctReaders

LATEST: Instant = 10_000_000_000
"""Instant (in 2286) that is later than any instant in the stored counts."""

RECENT_MAX = 1000
"""`count_recent` counts at most this many readers, so that it stays fast."""

FLOODED_PART = 64
"""A feed is flooded if the number of its direct readers is at least 1/FLOODED_PART of `entries_max`."""

SAVE_INTERVAL = 600
"""Seconds between two writes of the counts. A crash loses at most the counts of this time."""

EXPIRED_BATCH = 128
"""A sweep removes at most this many expired readers at a time, and then lets other tasks run. Their removal takes a
tenth of a millisecond."""


class ClaimView(Struct, frozen=True):
    """One fetcher's claim: the number that counts, the unconfirmed number or None, and the last request."""

    fetcher: str
    feed_id: str
    count: int
    unconfirmed_count: int | None
    last: Instant


class CountView(Struct, frozen=True):
    """A feed's count and its parts. `readers` has the direct readers by product, the most frequent first."""

    total: int
    direct: int
    claims: tuple[ClaimView, ...]
    readers: tuple[tuple[str, int], ...]


class SubscriberCounts:
    """The counts of all feeds. Not thread-safe.

    - `window`: seconds for which a reader or a claim counts after its last request.
    - `claim_max`: limit of each claim of a fetcher for one feed. A fetcher can have several ids for a feed. The sum of
      its claims for all these ids has the same limit.
    - `claim_jump`: factor of growth within an hour above which a claim must be confirmed.
    - `readers_max`, `claims_max`: maximum numbers of readers and of claims for one feed.
    - `feeds_max`: maximum number of feeds.
    - `entries_max`: maximum memory of all feeds, in units of about 100 bytes (the memory of one reader).
    - `sum_with_peers` returns two numbers: the feed's direct readers and its claimed subscribers, each on all machines
      of a fleet. Unknown numbers are 0. Without a fleet, `sum_with_peers` is None.
    """

    def __init__(
        self,
        *,
        window: Seconds = 86_400,
        claim_max: int = 1_000_000,
        claim_jump: float = 10,
        readers_max: int = 100_000,
        claims_max: int = 128,
        feeds_max: int = 200_000,
        entries_max: int = 1_000_000,
        sum_with_peers: Callable[[str], tuple[int, int]] | None = None,
    ) -> None:
        self._window = window
        self._claim_max = claim_max
        self._claim_jump = claim_jump
        self._readers_max = readers_max
        self._claims_max = claims_max
        self._feeds_max = feeds_max
        self._entries_max = entries_max
        self._feeds: dict[str, FeedReaders] = {}  # in the order of last requests
        self._names = ProductNames()
        self._entries = 0
        self._pruned: Instant = 0.0
        self._kept_reads: list[ReadRecord] | None = None
        self.reader_seen: Signal[ReadRecord] = Signal()
        """Emits the requests that other processes and machines need for their counts (read_events.py)."""
        self.distinct = DistinctReaders()
        self.rhythms = PollRhythms(window=window, feeds_max=feeds_max, readers_max=entries_max)
        self._sum_with_peers = sum_with_peers or (lambda _: (0, 0))
        self._claim_anchors: dict[str, tuple[int, Instant]] = {}
        """For each feed, the sum of its claims with which later sums are compared, and the instant of this sum. Both
        are replaced after an hour."""

    def record_read(self, target: str, pseudonym: Pseudonym, user_agent: str, now: Instant) -> None:
        """Record a request of a fetcher (if the User-Agent has a claim) or of a direct reader."""
        if self._record(target, pseudonym, user_agent, now):
            self.reader_seen.emit((target, pseudonym, user_agent, now))

    def apply_peer_reads(self, events: Sequence[ReadRecord]) -> None:
        for event in events:
            self._record(*event)
        if self._kept_reads is not None:
            self._kept_reads += events

    @contextlib.contextmanager
    def keep_peer_reads(self) -> Iterator[None]:
        """Keep the requests that other workers report while this worker loads another worker's counts. Then add them to
        the loaded counts, which can lack them."""
        self._kept_reads = []
        try:
            yield
        finally:
            reads, self._kept_reads = self._kept_reads, None
            self.apply_peer_reads(reads)

    def _record(self, target: str, pseudonym: Pseudonym, user_agent: str, now: Instant) -> bool:
        """Record one request. Return True if other processes must record the request, too."""
        self.distinct.record(target, pseudonym, now)
        self.rhythms.record(target, pseudonym, now)
        feed = self._feeds.pop(target, None)
        if feed is None:
            feed = FeedReaders()
            self._entries += weight_of_name(target)
        self._feeds[target] = feed
        if claim := parse_claim(user_agent):
            is_news = self._record_claim(target, feed, claim, now)
        else:
            name, value = product(user_agent), feed.get(pseudonym.current)
            if value is not None and self._names[value & 0xFF] == name:
                # This is the most frequent case: the same reader and product.
                before, latest = value >> 8, int(now * 1000)
                if latest < before and (is_unset(now) or not is_set_back(before / 1000, now)):
                    latest = before
                feed.move_to_end(pseudonym.current, latest << 8 | value & 0xFF)
                return is_due(before / 1000, max(now, before / 1000), READER_INTERVAL)
            is_news = self._read(feed, pseudonym, name, now)
        self._make_room()
        return is_news

    def contains(self, target: str) -> bool:
        return target in self._feeds

    def count_with_first_reader(self, user_agent: str, now: Instant) -> int:
        """Return the count that a new feed would have after a first request with this User-Agent. Record nothing."""
        claim = parse_claim(user_agent)
        if claim is None:
            return 1
        claim_state = update_claim(
            None, min(claim.count, self._claim_max), now, window=self._window, jump=self._claim_jump
        )
        return current_claim(claim_state, now, self._window)

    def total(self, target: str, now: Instant) -> int:
        """Return the number of the feed's subscribers on all machines, or 0 if this machine has recorded no request for
        the feed."""
        feed = self._feeds.get(target)
        if feed is None:
            return 0
        self._expire(feed, now)
        direct, claimed = self._sum_with_peers(target)
        return max(feed.size, direct) + max(self._claimed_number(feed, now), claimed)

    def confirmed_claim(self, target: str, fetcher: str, feed_id: str, now: Instant) -> int:
        """Return the largest confirmed claim of one fetcher for a feed and feed id, or 0 if there is none."""
        feed = self._feeds.get(target)
        claim_state = feed.claims.get((fetcher, feed_id)) if feed is not None else None
        return current_claim(claim_state, now, self._window) if claim_state is not None else 0

    def count_recent(self, target: str, since: Instant) -> int:
        """Return the number of readers and fetchers that requested the feed at `since` or later, at most RECENT_MAX."""
        feed = self._feeds.get(target)
        if feed is None:
            return 0
        limit = int(since * 1000)
        latest_first = islice(feed.latest_first(), RECENT_MAX)
        readers = sum(1 for _ in takewhile(lambda value: value >> 8 >= limit, latest_first))
        return min(RECENT_MAX, readers + sum(claim_state.last >= since for claim_state in feed.claims.values()))

    def count_with_peers(self, target: str, now: Instant) -> int:
        """Return the number of readers of the feed on all machines in the last `window` seconds. Peers report direct
        readers only. The result is at least this machine's `count_recent`, which includes fetchers."""
        return max(self.count_recent(target, now - self._window), self._sum_with_peers(target)[0])

    def last_read(self, target: str) -> Instant | None:
        """Return the instant of the last request for the feed, or None if no request is recorded."""
        feed = self._feeds.get(target)
        if feed is None:
            return None
        instants = [claim_state.last for claim_state in feed.claims.values()]
        if (value := feed.newest()) is not None:
            instants.append((value >> 8) / 1000)
        return max(instants, default=None)

    def view(self, target: str, now: Instant) -> CountView:
        """Return the feed's subscribers by claim and by product."""
        total = self.total(target, now)
        feed = self._feeds.get(target) or FeedReaders()
        claims = (
            ClaimView(
                *key,
                current_claim(claim_state, now, self._window),
                unconfirmed_claim(claim_state, now, self._window),
                claim_state.last,
            )
            for key, claim_state in feed.claims.items()
        )
        products = Counter(self._names[value & 0xFF] for value in feed.latest_first())
        return CountView(
            total,
            feed.size,
            tuple(sorted(claims, key=lambda claim: (-claim.count, claim.fetcher, claim.feed_id))),
            tuple(sorted(products.items(), key=lambda pair: (-pair[1], pair[0]))),
        )

    async def by_reader(self, now: Instant) -> list[tuple[str, int, int]]:
        """Return each product with the numbers of its direct and its claimed subscriptions to all feeds, the most
        frequent product first. A reader of three feeds has three subscriptions. Direct readers that have left count
        until the next sweep."""
        claimed = Counter[str]()
        async for feed in iterate_cooperatively(list(self._feeds.values())):
            for (fetcher, _), claim_state in feed.claims.items():
                claimed[fetcher] += current_claim(claim_state, now, self._window)
        direct = Counter(dict(self._names.uses()))
        names = direct.keys() | claimed.keys()
        subscriptions = [(name, direct[name], claimed[name]) for name in names if direct[name] or claimed[name]]
        return sorted(subscriptions, key=lambda row: (-row[1] - row[2], row[0]))

    def targets(self) -> list[str]:
        return list(self._feeds)

    def prune(self, now: Instant) -> None:
        """Remove readers and claims without a request in the last `window` seconds."""
        for _ in self._sweep(now, at_most=None):
            pass

    async def sweep(self, now: Instant) -> None:
        """Remove readers and claims without a request in the last `window` seconds, with pauses for other tasks. The
        call does nothing if less than a twenty-fourth of the window has passed since the last sweep."""
        if abs(now - self._pruned) >= self._window / 24:
            async for _ in iterate_in_background(self._sweep(now)):
                pass
        await self.rhythms.sweep(now)

    def _sweep(self, now: Instant, at_most: int | None = EXPIRED_BATCH) -> Iterator[None]:
        """Remove readers, claims and feeds as `prune` does. Yield after each feed and each `at_most` readers."""
        self._pruned = now
        for target in list(self._feeds):
            while (feed := self._feeds.get(target)) is not None and self._expire(feed, now, at_most):
                yield
            if feed is not None and not feed.size and not feed.claims:
                self._forget(target)
            yield

    async def dump(self) -> bytes:
        """Return all counts as bytes for `load`: fetchers, products, pseudonyms and instants, but no addresses. The
        call pauses for other tasks. Requests during a pause can be missing."""
        writing = subscriber_counts_codec.CountsWriter()
        async for _ in iterate_cooperatively(self._write(writing), THROTTLED_BLOCKING_TIME):
            pass
        return await asyncio.to_thread(writing.whole)

    def load(self, data: bytes, now: Instant) -> None:
        """Replace all counts by `data`, a result of `dump`. Damaged data raises StoreError, and changes nothing."""
        # While the clock is not set yet, all stored instants are in the future, and none is wrong.
        is_clock_set = not is_unset(now)
        stored = subscriber_counts_codec.load(data, now if is_clock_set else LATEST)
        self._names, self._feeds, self._entries = ProductNames(stored.names), {}, 0
        self._claim_anchors.clear()
        for number, count in stored.uses.items():
            self._names.add_readers(number, count)
        has_claims = False
        for target, packed, claims in stored.feeds:
            feed = self._feeds[target] = FeedReaders(packed)
            if claims:
                has_claims = True
                for key, claim_state in claims.items():
                    feed.set_claim_state(key, claim_state)
            self._entries += feed.weight() + weight_of_name(target)
        self._pruned = now
        if has_claims or not is_clock_set or stored.oldest <= int((now - self._window) * 1000):
            self.prune(now)
        self._make_room()

    def _write(self, writing: subscriber_counts_codec.CountsWriter) -> Iterator[None]:
        names, generation = None, 0
        for target in list(self._feeds):
            if names is not self._names or generation != self._names.generation:
                names, generation = self._names, self._names.generation
                writing.names(names.all())
            feed = self._feeds.get(target)
            if feed is not None:
                writing.add(target, feed)
            yield

    def _read(self, feed: FeedReaders, pseudonym: Pseudonym, name: str, now: Instant) -> bool:
        before: Instant | None = None
        # The pseudonym key has changed since the reader's last request: the new pseudonym replaces the old one.
        for stored_pseudonym in (pseudonym.current, pseudonym.previous):
            if (value := feed.pop(stored_pseudonym)) is not None:
                self._names.remove_reader(value & 0xFF)
                before = (value >> 8) / 1000
                now = max(now, before)
                break
        else:
            self._entries += 1
        number = self._names.number(name)
        self._names.add_readers(number)
        feed.put(pseudonym.current, int(now * 1000) << 8 | number)
        if feed.size > self._readers_max:
            # Many readers are removed at once: finding a dict's first item is slow after many deletions at its front.
            self._drop_oldest(feed, max(1, self._readers_max // 8))
        return is_due(before, now, READER_INTERVAL)

    def _record_claim(self, target: str, feed: FeedReaders, claim: Claim, now: Instant) -> bool:
        key = (claim.fetcher, claim.feed_id)
        before = feed.claims.get(key)
        if before is None:
            if len(feed.claims) >= self._claims_max and not self._make_room_for_claim(feed, now):
                return False
            self._entries += CLAIM_WEIGHT
        count = min(claim.count, self._claim_max)
        grows = before is None or count > current_claim(before, now, self._window)
        # The sum of the claims is needed only for a claim that grows, so that other requests stay cheap.
        room = self._room_for_claims(target, feed, now) if grows else 0
        claim_state = update_claim(before, count, now, window=self._window, jump=self._claim_jump, room=room)
        feed.set_claim_state(key, claim_state)
        if before is None or [count for count, _ in before.peaks] != [count for count, _ in claim_state.peaks]:
            return True
        return before.unconfirmed != claim_state.unconfirmed or is_due(before.last, now, CLAIM_INTERVAL)

    def _room_for_claims(self, target: str, feed: FeedReaders, now: Instant) -> float:
        total, anchor = self._claimed_number(feed, now), self._claim_anchors.get(target)
        if anchor is None or abs(now - anchor[1]) >= CONFIRMATION:
            anchor = (total, now)
            self._claim_anchors[target] = anchor
        return room_for_claims(total, anchor[0], self._claim_jump)

    def _make_room_for_claim(self, feed: FeedReaders, now: Instant) -> bool:
        """Remove the outdated claims. If there is still no room, remove the oldest claim that was made only once.
        Return False if there is no room even then, because all claims are current and were repeated."""
        self._expire(feed, now)
        if len(feed.claims) >= self._claims_max:
            made_once = [(claim_state.last, key) for key, claim_state in feed.claims.items() if claim_state.times == 1]
            if not made_once:
                return False
            self._retract(feed, min(made_once)[1])
        return True

    def _claimed_number(self, feed: FeedReaders, now: Instant) -> int:
        claims = ((key[0], current_claim(state, now, self._window)) for key, state in feed.claims.items())
        return sum_of_claims(claims, self._claim_max)

    def _expire(self, feed: FeedReaders, now: Instant, at_most: int | None = None) -> int:
        """Remove the claims and readers without a request in the last `window` seconds, but at most `at_most` readers
        unless it is None. Return the number of removed readers."""
        limit = int((now - self._window) * 1000)
        if not feed.claims and self._are_current(feed, limit, now):
            return 0
        self._clamp_times(feed, now)
        oldest, expired_count = feed.oldest(), 0
        if oldest is not None and oldest >> 8 <= limit:
            expired = takewhile(lambda value: value >> 8 <= limit, feed.readers.values())
            expired_count = sum(1 for _ in islice(expired, at_most))
            self._drop_oldest(feed, expired_count)
        for silent in [key for key, claim_state in feed.claims.items() if now - claim_state.last >= self._window]:
            self._retract(feed, silent)
        return expired_count

    @staticmethod
    def _are_current(feed: FeedReaders, limit: int, now: Instant) -> bool:
        """Return True if the feed has readers, and all their last requests lie between `limit`, in milliseconds, and
        `now`."""
        oldest, newest = feed.oldest(), feed.newest()
        return oldest is not None and newest is not None and limit < oldest >> 8 and newest >> 8 <= now * 1000

    def _clamp_times(self, feed: FeedReaders, now: Instant) -> None:
        """Replace instants in the future by `now`. Future instants occur after the clock was set back. While the clock
        is not set yet, future instants stay, because all readers would otherwise be removed when the clock is set."""
        if is_unset(now):
            return
        for name, claim_state in list(feed.claims.items()):
            if is_set_back(claim_state.last, now):
                feed.claims[name] = clamp_times(claim_state, now)
        latest = feed.newest()
        if latest is None or not is_set_back((latest >> 8) / 1000, now):
            return
        milliseconds = int(now * 1000)
        for key, value in feed.readers.items():
            if value >> 8 > milliseconds:
                feed.readers[key] = milliseconds << 8 | value & 0xFF

    def _drop_oldest(self, feed: FeedReaders, count: int) -> None:
        for key in list(islice(feed.readers, count)):
            self._names.remove_reader(feed.readers.pop(key) & 0xFF)
            self._entries -= 1

    def _retract(self, feed: FeedReaders, key: tuple[str, str]) -> None:
        del feed.claims[key]
        self._entries -= CLAIM_WEIGHT

    def _forget(self, target: str) -> None:
        feed = self._feeds.pop(target)
        self._claim_anchors.pop(target, None)
        self._drop_oldest(feed, feed.size)
        self._entries -= CLAIM_WEIGHT * len(feed.claims) + weight_of_name(target)

    def _make_room(self) -> None:
        """Remove readers and feeds until no limit is exceeded, or only one feed is left."""
        while len(self._feeds) > 1 and (self._entries > self._entries_max or len(self._feeds) > self._feeds_max):
            if self._entries > self._entries_max:
                largest = max(self._feeds.values(), key=lambda feed: feed.size)
                if largest.size * FLOODED_PART >= self._entries_max:
                    self._drop_oldest(largest, (largest.size + 1) // 2)
                    continue
            # Many feeds are removed at once, so that the slow search for the largest feed is rare.
            for target in list(islice(self._feeds, max(1, len(self._feeds) // 16))):
                self._forget(target)
