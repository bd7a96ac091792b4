"""How many read a feed on all machines together.

Direct readers are sets in Redis: of the pseudonyms that readers have anyway (subscribers/pseudonyms.py), with the
instant each was last seen, so that the window slides. Above a size a set becomes HyperLogLogs, one for each
twenty-fourth of the window, of which the last 25 are added up: an error of 0.81 % (Redis's, standard deviation) and
1/24 of the window, in 12 KB each whatever the size. Once that, a feed's set stays so until nobody has read it for a
window.

Pseudonyms change with the period. Everybody is written down under the names of this period and of the one before, and
counted by the latter: so each is counted once also where the window lies across two periods.

Claims of fetchers are told as this machine believes them (subscribers/claims.py); of one fetcher's the largest counts.
"""

import json
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.cluster import lua_scripts
from feedproxy.cluster.keys import RedisKeys
from feedproxy.cluster.redis_connection import RedisConnection, RedisRefused, RedisUnavailable, ScriptCall
from feedproxy.http.user_agent import parse_claim
from feedproxy.subscribers.counts import SubscriberCounts
from feedproxy.subscribers.pseudonyms import Pseudonym

WINDOW_PARTS = 24
KNOWN_MAX = 50_000
"""Feeds whose sum is remembered."""
WAITING_MAX = 50_000
"""What is to be told while Redis is away; those who read come again."""
AT_ONCE, IN_TIME = 1, 4
"""Times the timeout: while a reader waits, and while nobody does."""
BATCH_SIZE = 200
"""Told in one exchange."""


@dataclass(frozen=True, slots=True)
class _Sum:
    direct: int
    claimed: int
    at: Instant


type _Read = tuple[str, Pseudonym, str, Instant]


class SubscriberSums:
    """Tells Redis who reads here, and knows what came of it. `exact_max` readers of a feed are counted one by one."""

    def __init__(
        self,
        link: RedisConnection,
        names: RedisKeys,
        machine: str,
        counts: SubscriberCounts,
        clock: Clock,
        *,
        window: Seconds,
        period: Seconds,
        exact_max: int,
        claim_max: int,
    ) -> None:
        self._link = link
        self._keys = names
        self._machine = machine
        self._counts = counts
        self._clock = clock
        self._window = window
        self._period = period
        self._exact_max = exact_max
        self._claim_max = claim_max
        self._waiting: dict[str, list[_Read]] = {}
        self._size = 0
        self._known: OrderedDict[str, _Sum] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How much is still to be told."""
        return self._size

    def note(self, target: str, pseudonym: Pseudonym, user_agent: str, now: Instant) -> None:
        """Somebody asks this machine for a feed."""
        if self._size >= WAITING_MAX:
            self._waiting.clear()
            self._size = 0
        self._waiting.setdefault(target, []).append((target, pseudonym, user_agent, now))
        self._size += 1

    def together(self, target: str, direct: int, claimed: int, now: Instant) -> int:
        """The feed's subscribers, where this machine has so many: never less than these."""
        known = self._known.get(target)
        if known is None or not now - known.at < self._window:
            return direct + claimed
        return max(direct, known.direct) + max(claimed, known.claimed)

    def sum_of(self, target: str) -> tuple[int, int]:
        """Direct readers, and what fetchers claim, on all machines, as far as is known."""
        known = self._known.get(target)
        return (known.direct, known.claimed) if known is not None else (0, 0)

    async def refresh(self, target: str) -> None:
        """Tell who has asked for this feed, and learn the sum."""
        try:
            await self._send(self._take_pending([target]), AT_ONCE)
            await self._fetch_sums([target], AT_ONCE)
        except (RedisUnavailable, RedisRefused):
            return

    async def sync(self) -> None:
        """Tell all that waits, and learn the sums of those feeds. Raises Away or Refused."""
        while self._waiting:
            targets = list(self._waiting)[:BATCH_SIZE]
            await self._send(self._take_pending(targets), IN_TIME)
            await self._fetch_sums(targets, IN_TIME)

    # -- inside

    def _take_pending(self, targets: Iterable[str]) -> list[_Read]:
        taken = [each for target in targets for each in self._waiting.pop(target, ())]
        self._size -= len(taken)
        return taken

    async def _send(self, seen: list[_Read], patience: float) -> None:
        for start in range(0, len(seen), BATCH_SIZE):
            try:
                await self._link.run_all(
                    [call for each in seen[start : start + BATCH_SIZE] for call in self._calls(*each)],
                    timeout_factor=patience,
                )
            except RedisUnavailable:
                for each in seen[start:]:
                    self.note(*each)
                raise

    def _calls(self, target: str, pseudonym: Pseudonym, user_agent: str, now: Instant) -> list[ScriptCall]:
        life = int(2 * (self._window + self._period) * 1000)
        if claim := parse_claim(user_agent):
            count = self._counts.believed(target, claim.fetcher, claim.feed_id, now)
            who = json.dumps([claim.fetcher, claim.feed_id, self._machine])
            return [(lua_scripts.CLAIMED, [self._keys.claims(target)], [who, f"{count} {int(now * 1000)}", life])]
        period = int(now // self._period)
        begin = int((now - self._window) * 1000)
        rest = [int(now * 1000), self._exact_max, life, self._window_part, begin]
        names = (self._keys.readers(target, period), self._keys.readers(target, period - 1))
        readers = (pseudonym.current, pseudonym.previous)
        return [(lua_scripts.SEEN, [name], [f"{who:x}", *rest]) for name, who in zip(names, readers, strict=True)]

    async def _fetch_sums(self, targets: list[str], patience: float) -> None:
        now = self._clock.now()
        period = int(now // self._period) - 1
        span = [int((now - self._window) * 1000) + 1, int(now * 1000), self._window_part]
        calls: list[ScriptCall] = []
        for target in targets:
            calls.append((lua_scripts.COUNT, [self._keys.readers(target, period)], span))
            calls.append((lua_scripts.CLAIMS, [self._keys.claims(target)], []))
        said = await self._link.run_all(calls, timeout_factor=patience)
        for target, direct, claims in zip(targets, said[::2], said[1::2], strict=True):
            self._known[target] = _Sum(int(direct), self._add_claims(claims, now), now)
            self._known.move_to_end(target)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def _add_claims(self, claims: list[Any], now: Instant) -> int:
        """The largest current claim of each fetcher and feed id, added up by fetcher, each within its bound."""
        largest: dict[tuple[str, str], int] = {}
        for who, said in zip(claims[::2], claims[1::2], strict=True):
            try:
                fetcher, feed_id, _ = json.loads(who)
                count, at = map(int, said.split())
            except ValueError:
                continue
            if now - at / 1000 < self._window:
                largest[fetcher, feed_id] = max(count, largest.get((fetcher, feed_id), 0))
        by_fetcher: Counter[str] = Counter()
        for (fetcher, _), count in largest.items():
            by_fetcher[fetcher] += count
        return sum(min(count, self._claim_max) for count in by_fetcher.values())

    @property
    def _window_part(self) -> int:
        """Milliseconds of one HyperLogLog."""
        return max(1, int(self._window * 1000 / WINDOW_PARTS))
