"""How many people read a feed through this proxy, which is told to its publisher.

The count of a feed is the largest current claim of every (fetcher, feed id), plus the distinct direct
readers, whoever asks now included, within the window. A request that carries a claim comes from a fetcher,
not from a reader. Requests are never added up: the same fetcher, or the same reader, counts once however
often he asks.

Memory is bounded whatever is sent. A reader is two small numbers in a table that is kept in the order readers
were last seen in, about 100 bytes. When too much is held, the feed with by far the most is halved, oldest
first, so that a flood on one feed costs the others nothing; else the feeds asked for longest ago are
forgotten. A flood of made-up fetchers drives out its own: a claim made once makes way before one that was
made again.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Protocol

from feedproxy.aio import yielding
from feedproxy.clock import Instant, Seconds, is_set_back
from feedproxy.http.user_agent import Claim, parse_claim, product
from feedproxy.subscribers import counts_codec
from feedproxy.subscribers.claims import clamp_times, current_claim, unconfirmed_claim, update_claim
from feedproxy.subscribers.distinct_readers import DistinctReaders
from feedproxy.subscribers.feed_counts import CLAIM_WEIGHT, FeedReaders, weight_of_name
from feedproxy.subscribers.poll_rhythms import PollRhythms
from feedproxy.subscribers.product_names import ProductNames
from feedproxy.subscribers.pseudonyms import Pseudonym
from feedproxy.subscribers.replication import CLAIM_INTERVAL, READER_INTERVAL, ReadEvents, is_due

RECENT_MAX = 1000
"""Who wants to know whether a feed is read much need not count all of a crowd."""


SWEEP_BATCH = 128
"""Feeds looked at, and readers forgotten, beside one request when it is time to forget: a tenth of a millisecond."""


@dataclass(frozen=True, slots=True)
class ClaimView:
    """One fetcher's claim: what counts, what is held back if anything is, and when it was last made."""

    fetcher: str
    feed_id: str
    count: int
    held_back: int | None
    last: Instant


@dataclass(frozen=True, slots=True)
class CountView:
    """A feed's count and what it is made of; `readers` are the direct ones by product, the most frequent
    first."""

    total: int
    direct: int
    claims: tuple[ClaimView, ...]
    readers: tuple[tuple[str, int], ...]


class ClusterCounts(Protocol):
    """Who counts for several machines together."""

    def note(self, target: str, pseudonym: Pseudonym, user_agent: str, now: Instant) -> None:
        """Somebody asks for a feed here."""
        ...

    def together(self, target: str, direct: int, claimed: int, now: Instant) -> int:
        """The feed's subscribers on all machines, where there are so many on this one."""
        ...


class SubscriberCounts:
    """The counts of all feeds. Not for several threads at once.

    `window` in seconds; `claim_max` bounds what one fetcher counts for on one feed, under all its feed ids;
    `claim_jump` is the growth within an hour above which a claim is held back. `readers_max` and `claims_max`
    hold for one feed, `feeds_max` and `entries_max` (of about 100 bytes each) for all together.
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
    ) -> None:
        self._window = window
        self._claim_max = claim_max
        self._claim_jump = claim_jump
        self._readers_max = readers_max
        self._claims_max = claims_max
        self._feeds_max = feeds_max
        self._entries_max = entries_max
        self._feeds: dict[str, FeedReaders] = {}  # asked for longest ago first
        self._names = ProductNames()
        self._entries = 0
        self._pruned: Instant = 0.0
        self._unswept: list[str] = []  # what is still to be pruned, the next at the end
        self.news: ReadEvents | None = None
        """Where other processes hear of who reads; None where there are none."""
        self.distinct = DistinctReaders()
        self.rhythms = PollRhythms(window=window)
        self.sums: ClusterCounts | None = None
        """What other machines know of who reads; None where there are none."""

    def seen(self, target: str, pseudonym: Pseudonym, user_agent: str, now: Instant) -> None:
        """Somebody asks for this feed: a fetcher if the User-Agent carries a claim, else a direct reader."""
        if self._note(target, pseudonym, user_agent, now):
            if self.news is not None:
                self.news.note(target, pseudonym, user_agent, now)
            if self.sums is not None:
                self.sums.note(target, pseudonym, user_agent, now)

    def apply_peer_reads(self, told: Iterable[tuple[str, Pseudonym, str, Instant]]) -> None:
        """Somebody has asked another process that counts the same feeds."""
        for each in told:
            self._note(*each)

    def _note(self, target: str, pseudonym: Pseudonym, user_agent: str, now: Instant) -> bool:
        """Count one; whether that is news."""
        self.distinct.note(target, pseudonym, now)
        self.rhythms.note(target, pseudonym, now)
        if not self._unswept and abs(now - self._pruned) >= self._window / 24:
            self._pruned, self._unswept = now, list(self._feeds)
        if self._unswept:
            self._sweep(now)
        feed = self._feeds.pop(target, None)
        if feed is None:
            feed = FeedReaders()
            self._entries += weight_of_name(target)
        self._feeds[target] = feed
        if claim := parse_claim(user_agent):
            is_news = self._record_claim(feed, claim, now)
        else:
            readers = feed.readers
            name, value = product(user_agent), readers.get(pseudonym.current)
            if value is not None and self._names[value & 0xFF] == name:
                # The same as before, which most are: only when he was seen is new, and that he is the last.
                del readers[pseudonym.current]
                before = (value >> 8) / 1000
                latest = int(now * 1000) if is_set_back(before, now) else max(int(now * 1000), value >> 8)
                readers[pseudonym.current] = latest << 8 | value & 0xFF
                return is_due(before, max(now, before), READER_INTERVAL)
            is_news = self._read(feed, pseudonym, name, now)
        if self._entries > self._entries_max or len(self._feeds) > self._feeds_max:
            self._make_room()
        return is_news

    def knows(self, target: str) -> bool:
        """Whether anything is known of this feed."""
        return target in self._feeds

    def alone(self, user_agent: str, now: Instant) -> int:
        """What a feed that nobody has asked for before would have with this one; nothing is kept of it."""
        claim = parse_claim(user_agent)
        if claim is None:
            return 1
        heard = update_claim(None, min(claim.count, self._claim_max), now, window=self._window, jump=self._claim_jump)
        return current_claim(heard, now, self._window)

    def total(self, target: str, now: Instant) -> int:
        """The feed's subscribers."""
        feed = self._feeds.get(target)
        if feed is None:
            return 0
        self._expire(feed, now)
        direct, claimed = feed.size, self._claimed(feed, now)
        return direct + claimed if self.sums is None else self.sums.together(target, direct, claimed, now)

    def believed(self, target: str, fetcher: str, feed_id: str, now: Instant) -> int:
        """What counts of one fetcher's claim."""
        feed = self._feeds.get(target)
        belief = feed.claims.get((fetcher, feed_id)) if feed is not None else None
        return current_claim(belief, now, self._window) if belief is not None else 0

    def recent(self, target: str, since: Instant) -> int:
        """Readers and fetchers that have asked for this feed since then, each once; RECENT_MAX at most."""
        feed = self._feeds.get(target)
        if feed is None:
            return 0
        limit = int(since * 1000)
        latest_first = islice(feed.latest_first(), RECENT_MAX)
        readers = sum(1 for _ in takewhile(lambda value: value >> 8 >= limit, latest_first))
        return min(RECENT_MAX, readers + sum(belief.last >= since for belief in feed.claims.values()))

    def last(self, target: str) -> Instant | None:
        """When somebody asked for this feed last; None where nobody is known who did."""
        feed = self._feeds.get(target)
        if feed is None:
            return None
        instants = [belief.last for belief in feed.claims.values()]
        instants += [(value >> 8) / 1000 for value in islice(feed.latest_first(), 1)]
        return max(instants, default=None)

    def view(self, target: str, now: Instant) -> CountView:
        """The feed's subscribers, and who they are by claim and by product."""
        total = self.total(target, now)
        feed = self._feeds.get(target) or FeedReaders()
        claims = (
            ClaimView(
                *key,
                current_claim(belief, now, self._window),
                unconfirmed_claim(belief, now, self._window),
                belief.last,
            )
            for key, belief in feed.claims.items()
        )
        products = Counter(self._names[value & 0xFF] for value in feed.readers.values())
        return CountView(
            total,
            feed.size,
            tuple(sorted(claims, key=lambda claim: (-claim.count, claim.fetcher, claim.feed_id))),
            tuple(sorted(products.items(), key=lambda pair: (-pair[1], pair[0]))),
        )

    async def by_reader(self, now: Instant) -> list[tuple[str, int, int]]:
        """Whose software reads: a name, its direct subscriptions and those it claims, over all feeds, the most first.

        Who reads three feeds has three subscriptions. What has left the window may still be among the direct ones
        until it is pruned, which begins within the hour.
        """
        claimed = Counter[str]()
        async for feed in yielding(list(self._feeds.values())):
            for (fetcher, _), belief in feed.claims.items():
                claimed[fetcher] += current_claim(belief, now, self._window)
        direct = Counter(dict(self._names.uses()))
        names = direct.keys() | claimed.keys()
        found = [(name, direct[name], claimed[name]) for name in names if direct[name] or claimed[name]]
        return sorted(found, key=lambda each: (-each[1] - each[2], each[0]))

    def targets(self) -> list[str]:
        """The feeds of which anything is known, the one asked for last at the end."""
        return list(self._feeds)

    def prune(self, now: Instant) -> None:
        """Forget what has left the window, all at once. `seen` begins with it by itself 24 times a window, and does it
        a little with every request, so that none waits for all of it."""
        self._pruned, self._unswept = now, []
        self.rhythms.prune(now)
        for target, feed in list(self._feeds.items()):
            self._expire(feed, now)
            if not feed.size and not feed.claims:
                self._forget(target)

    def dump(self) -> bytes:
        """Everything, for `load`; names of fetchers and products, pseudonyms and times, never an address."""
        writing = counts_codec.CountsWriter()
        for _ in self._write(writing):
            pass
        return writing.whole()

    async def dump_yielding(self) -> bytes:
        """The same, in slices. Between two of them others may be counted: who comes to a feed that is written already,
        or to a new one, is in the next dump."""
        writing = counts_codec.CountsWriter()
        async for _ in yielding(self._write(writing)):
            pass
        return await asyncio.to_thread(writing.whole)

    def load(self, data: bytes, now: Instant) -> None:
        """What `dump` gave, in place of what is known. Raises StoreError, and then nothing has changed."""
        names, uses, feeds = counts_codec.load(data, now)
        self._names, self._feeds, self._entries = ProductNames(names), {}, 0
        for number, count in uses.items():
            self._names.use(number, count)
        for target, packed, claims in feeds:
            feed = self._feeds[target] = FeedReaders(packed)
            for key, belief in claims.items():
                feed.claim(key, belief)
            self._entries += feed.weight() + weight_of_name(target)
        self.prune(now)
        if self._entries > self._entries_max or len(self._feeds) > self._feeds_max:
            self._make_room()

    def _write(self, writing: counts_codec.CountsWriter) -> Iterator[None]:
        names, edition = None, 0
        for target in list(self._feeds):
            if names is not self._names or edition != self._names.edition:
                names, edition = self._names, self._names.edition
                writing.names(names.all())
            feed = self._feeds.get(target)
            if feed is not None:
                writing.add(target, feed)
            yield

    def _read(self, feed: FeedReaders, pseudonym: Pseudonym, name: str, now: Instant) -> bool:
        before: Instant | None = None
        # The key has changed since he came last: the old pseudonym is his, and makes way for the new one.
        for known in (pseudonym.current, pseudonym.previous):
            if (value := feed.readers.pop(known, None)) is not None:
                self._names.leave(value & 0xFF)
                before = (value >> 8) / 1000
                now = max(now, before)
                break
        else:
            self._entries += 1
        number = self._names.number(name)
        self._names.use(number)
        feed.readers[pseudonym.current] = int(now * 1000) << 8 | number
        if len(feed.readers) > self._readers_max:
            # Many at once, since finding the oldest in a dict costs the more the more are gone.
            self._drop(feed, list(islice(feed.readers, max(1, self._readers_max // 8))))
        return is_due(before, now, READER_INTERVAL)

    def _record_claim(self, feed: FeedReaders, claim: Claim, now: Instant) -> bool:
        key = (claim.fetcher, claim.feed_id)
        before = feed.claims.get(key)
        if before is None:
            if len(feed.claims) >= self._claims_max and not self._make_room_for_claim(feed, now):
                return False
            self._entries += CLAIM_WEIGHT
        belief = update_claim(
            before, min(claim.count, self._claim_max), now, window=self._window, jump=self._claim_jump
        )
        feed.claim(key, belief)
        if before is None or [count for count, _ in before.peaks] != [count for count, _ in belief.peaks]:
            return True
        return before.held != belief.held or is_due(before.last, now, CLAIM_INTERVAL)

    def _make_room_for_claim(self, feed: FeedReaders, now: Instant) -> bool:
        self._expire(feed, now)
        if len(feed.claims) >= self._claims_max:
            made_once = [(belief.last, key) for key, belief in feed.claims.items() if belief.times == 1]
            if not made_once:
                return False
            self._retract(feed, min(made_once)[1])
        return True

    def _claimed(self, feed: FeedReaders, now: Instant) -> int:
        by_fetcher: Counter[str] = Counter()
        for (fetcher, _), belief in feed.claims.items():
            by_fetcher[fetcher] += current_claim(belief, now, self._window)
        return sum(min(count, self._claim_max) for count in by_fetcher.values())

    def _sweep(self, now: Instant) -> None:
        left = SWEEP_BATCH
        while self._unswept and left > 0:
            target = self._unswept[-1]
            feed = self._feeds.get(target)
            if feed is not None:
                left -= self._expire(feed, now, left)
                self.rhythms.expire(target, now)
            left -= 1
            if left > 0 or feed is None:
                self._unswept.pop()
                if feed is not None and not feed.size and not feed.claims:
                    self._forget(target)

    def _expire(self, feed: FeedReaders, now: Instant, at_most: int | None = None) -> int:
        """Forget who has left the window, so many readers at most; how many it were."""
        limit = int((now - self._window) * 1000)
        self._clamp_times(feed, now)
        oldest, gone = feed.oldest(), list[int]()
        if oldest is not None and oldest >> 8 <= limit:
            expired = takewhile(lambda item: item[1] >> 8 <= limit, feed.readers.items())
            gone = [key for key, _ in islice(expired, at_most)]
            self._drop(feed, gone)
        for silent in [key for key, belief in feed.claims.items() if now - belief.last >= self._window]:
            self._retract(feed, silent)
        return len(gone)

    def _clamp_times(self, feed: FeedReaders, now: Instant) -> None:
        """Readers seen by a clock that was ahead, and has been set back, were seen now."""
        for name, belief in list(feed.claims.items()):
            if is_set_back(belief.last, now):
                feed.claims[name] = clamp_times(belief, now)
        latest = next(feed.latest_first(), None)
        if latest is None or not is_set_back((latest >> 8) / 1000, now):
            return
        milliseconds = int(now * 1000)
        for key, value in feed.readers.items():
            if value >> 8 > milliseconds:
                feed.readers[key] = milliseconds << 8 | value & 0xFF

    def _drop(self, feed: FeedReaders, keys: Iterable[int]) -> None:
        for key in keys:
            self._names.leave(feed.readers.pop(key) & 0xFF)
            self._entries -= 1

    def _retract(self, feed: FeedReaders, key: tuple[str, str]) -> None:
        del feed.claims[key]
        self._entries -= CLAIM_WEIGHT

    def _forget(self, target: str) -> None:
        feed = self._feeds.pop(target)
        self.rhythms.forget(target)
        self._drop(feed, list(feed.readers))
        self._entries -= CLAIM_WEIGHT * len(feed.claims) + weight_of_name(target)

    def _make_room(self) -> None:
        while len(self._feeds) > 1:
            too_much = self._entries > self._entries_max
            if not too_much and len(self._feeds) <= self._feeds_max:
                return
            largest = max(self._feeds.values(), key=lambda feed: feed.size)
            # Looking for the largest is dear, so it must be worth it.
            if too_much and largest.size * 64 >= self._entries_max:
                self._drop(largest, list(islice(largest.readers, (largest.size + 1) // 2)))
            else:
                for target in list(islice(self._feeds, max(1, len(self._feeds) // 16))):
                    self._forget(target)
