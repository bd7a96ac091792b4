"""Numbers of a feed's subscribers on all machines together.

Redis has a sorted set of the pseudonyms of a feed's direct readers, with the instants of their last requests. A large
set is replaced by HyperLogLogs, one for each twenty-fourth of the window, with a standard error of 0.81 %. A reader is
recorded under its pseudonyms of the current and the previous period. The count of a window (`subscriber_window`) uses
the pseudonyms of the previous period, because every reader in the window has one. Each reader therefore counts once.
"""

import itertools
import json
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.fleet import lua_scripts
from feedproxy.fleet.redis_connection import RedisConnection, RedisUnavailable, ScriptCall
from feedproxy.fleet.redis_keys import RedisKeys
from feedproxy.http.user_agent import parse_claim
from feedproxy.lru_map import LRU
from feedproxy.subscribers.claim_confirmation import sum_of_claims
from feedproxy.subscribers.read_events import ReadRecord
from feedproxy.subscribers.reader_pseudonyms import Pseudonym

WINDOW_PARTS = 24
KNOWN_MAX = 50_000
"""For at most this many feeds, the number of subscribers on all machines is remembered."""
WAITING_MAX = 50_000
"""At most this many reads wait to be sent. At the limit, all waiting reads are discarded. The feed readers poll again
later, and are recorded then."""
BACKGROUND_TIMEOUT_FACTOR = 4
"""The timeout of a request to Redis in the background is `fleet_timeout` times this factor."""
BATCH_SIZE = 200


class _Sum(Struct, frozen=True):
    direct: int
    claimed: int
    at: Instant
    """The instant at which the fetch of the sum began."""
    fetch: int
    """Number of the fetch, in the order in which fetches begin. `at` can have another order after the clock was set
    back."""


class SubscriberSums:
    """Exchange of reader counts with Redis. It sends this machine's readers, and receives the numbers of subscribers on
    all machines.

    `confirmed_claim` returns the confirmed number of subscribers that a feed service claims. The readers of a feed are
    counted exactly if there are at most `exact_max`.
    """

    def __init__(
        self,
        connection: RedisConnection,
        keys: RedisKeys,
        machine: str,
        confirmed_claim: Callable[[str, str, str, Instant], int],
        clock: Clock,
        *,
        window: Seconds,
        period: Seconds,
        exact_max: int,
        claim_max: int,
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._machine = machine
        self._confirmed_claim = confirmed_claim
        self._clock = clock
        self._window = window
        self._period = period
        self._exact_max = exact_max
        self._claim_max = claim_max
        self._waiting: dict[str, list[ReadRecord]] = {}
        self._size = 0
        self._sums: LRU[str, _Sum] = LRU(entries_max=KNOWN_MAX)
        self._fetches = itertools.count()
        self._growing_until: Instant = 0.0
        """End of the time in which no sum decreases, because Redis has perhaps lost readers."""
        self._outages_seen = connection.outage_count
        self._data_id: bytes | None = None
        """Identifier of the data from which the last sums were fetched, or None before the first sums."""

    @property
    def waiting(self) -> int:
        return self._size

    def record(self, read: ReadRecord) -> None:
        """Record a read of a feed on this machine."""
        target = read[0]
        if self._size >= WAITING_MAX:
            self._waiting.clear()
            self._size = 0
        self._waiting.setdefault(target, []).append(read)
        self._size += 1

    def sum_of(self, target: str) -> tuple[int, int]:
        """Return the numbers of direct readers and of claimed subscribers on all machines, as last fetched. Both are 0
        if they were not fetched in the last `window` seconds."""
        sums = self._sums.get(target)
        if sums is None or self._clock.now() - sums.at >= self._window:
            return 0, 0
        return sums.direct, sums.claimed

    async def refresh(self, target: str) -> None:
        """Send the recorded reads of this feed, and fetch the number of its subscribers on all machines. While Redis is
        unavailable, keep the reads."""
        try:
            await self._send(self._take_pending([target]))
            await self._fetch_sums([target])
        except RedisUnavailable:
            return

    async def sync(self) -> None:
        """Send all recorded reads, and fetch the numbers of subscribers of the feeds that were read. Raises
        RedisUnavailable if Redis does not answer."""
        while self._waiting:
            targets = list(self._waiting)[:BATCH_SIZE]
            await self._send(self._take_pending(targets), BACKGROUND_TIMEOUT_FACTOR)
            await self._fetch_sums(targets, BACKGROUND_TIMEOUT_FACTOR)

    # -- internals

    def _take_pending(self, targets: Iterable[str]) -> list[ReadRecord]:
        pending = [read for target in targets for read in self._waiting.pop(target, ())]
        self._size -= len(pending)
        return pending

    async def _send(self, reads: list[ReadRecord], timeout_factor: float = 1) -> None:
        for start in range(0, len(reads), BATCH_SIZE):
            try:
                await self._connection.run_each(
                    [call for read in reads[start : start + BATCH_SIZE] for call in self._calls(*read)],
                    timeout_factor=timeout_factor,
                )
            except RedisUnavailable:
                for read in reads[start:]:
                    self.record(read)
                raise

    def _calls(self, target: str, pseudonym: Pseudonym, user_agent: str, now: Instant) -> list[ScriptCall]:
        lifetime = int(2 * (self._window + self._period) * 1000)
        if claim := parse_claim(user_agent):
            count = self._confirmed_claim(target, claim.fetcher, claim.feed_id, now)
            member = json.dumps([claim.fetcher, claim.feed_id, self._machine])
            return [
                (
                    lua_scripts.RECORD_CLAIM,
                    [self._keys.claims(target)],
                    [member, f"{count} {int(now * 1000)}", lifetime],
                )
            ]
        period = int(now // self._period)
        begin = int((now - self._window) * 1000)
        arguments = [int(now * 1000), self._exact_max, lifetime, self._window_part, begin]
        keys = (self._keys.readers(target, period), self._keys.readers(target, period - 1))
        readers = (pseudonym.current, pseudonym.previous)
        return [
            (lua_scripts.RECORD_READER, [name], [f"{member:x}", *arguments])
            for name, member in zip(keys, readers, strict=True)
        ]

    async def _fetch_sums(self, targets: list[str], timeout_factor: float = 1) -> None:
        began, fetch = self._clock.now(), next(self._fetches)
        period = int(began // self._period) - 1
        span = [int((began - self._window) * 1000) + 1, int(began * 1000), self._window_part]
        calls: list[ScriptCall] = [(lua_scripts.DATA_ID, [self._keys.data_id], [secrets.token_hex(8)])]
        for target in targets:
            calls.append((lua_scripts.COUNT_READERS, [self._keys.readers(target, period)], span))
            calls.append((lua_scripts.GET_CLAIMS, [self._keys.claims(target)], []))
        data_id, *results = await self._connection.run_each(calls, timeout_factor=timeout_factor)
        now = self._clock.now()  # a fetch that began later may have ended earlier, and found that data was lost
        self._check_for_lost_data(data_id, now)
        for target, direct, claims in zip(targets, results[::2], results[1::2], strict=True):
            if direct is None or claims is None:
                continue  # another program has written to the feed's keys
            latest = _Sum(int(direct), self._add_claims(claims, began), began, fetch)
            known = self._sums.get(target)
            if known is not None and known.fetch > fetch:
                continue  # a fetch that began later has ended earlier
            if known is not None and now < self._growing_until <= now + self._window:
                latest = _Sum(max(latest.direct, known.direct), max(latest.claimed, known.claimed), began, fetch)
            self._sums.put(target, latest)

    def _check_for_lost_data(self, data_id: bytes | None, now: Instant) -> None:
        """Let no sum decrease for the length of the window, if Redis has perhaps lost its data. Redis then has only the
        readers that have polled since the loss. After the window, all readers have polled."""
        outages = self._connection.outage_count
        # A restart of Redis between two requests is not an outage. After an outage, the reads of other machines may be
        # missing.
        if outages != self._outages_seen or (self._data_id is not None and data_id not in (None, self._data_id)):
            self._growing_until = now + self._window
        self._outages_seen, self._data_id = outages, data_id or self._data_id

    def _add_claims(self, claims: list[Any], now: Instant) -> int:
        """Return the sum of the claims of all services, with at most `claim_max` for each service. For each feed id of
        a service, the largest claim of any machine counts."""
        largest: dict[tuple[str, str], int] = {}
        for member, count_and_time in zip(claims[::2], claims[1::2], strict=True):
            try:
                fetcher, feed_id, _ = json.loads(member)
                count, at = map(int, count_and_time.split())
                if now - at / 1000 < self._window:
                    largest[fetcher, feed_id] = max(count, largest.get((fetcher, feed_id), 0))
            except (ValueError, TypeError, ArithmeticError, RecursionError):
                continue  # another program's data, or those of a machine with a defect
        return sum_of_claims(((fetcher, count) for (fetcher, _), count in largest.items()), self._claim_max)

    @property
    def _window_part(self) -> int:
        """Return the milliseconds that one HyperLogLog covers."""
        return max(1, int(self._window * 1000 / WINDOW_PARTS))
