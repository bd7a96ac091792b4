"""The polling policy without HTTP: staleness and requests for the feeds and readers of the simulated week.

    python -m benchmarks.polling [--profile modern] [--seed 1] [--readers 40] [--price 60 300 1800 7200]

A feed is a list of instants at which its content changed. A reader is a list of instants at which it polls. The
product's own policy decides (expected_polls_and_price.py, poll_rhythms.py, change_rate.py), and the loop in this module
carries the decisions out. Its figures can therefore be compared with those of the whole product (benchmarks/week), and
of other policies on the same feeds.

The staleness of a poll is the time since the publication of the first change that its response lacks, or 0. Feeds that
HTTP forbids to store, and feeds that move or end, are left out. Publishers' hints and HTTP's lifetimes are ignored. For
each price, the output has the requests to the origin, the mean staleness over all polls, the share of polls that waited
for the origin, and the share that missed a change. It also has

* a cache with a fixed lifetime that answers with the stale copy and refreshes it in the background,
* feedproxy's former schedule: a lifetime that grows with the cube root of the usual time between two changes, with
  refreshes before expected polls,
* the bound: the best plan for a policy that knows every poll and each feed's mean rate of changes in advance, but not
  the times of the changes,
* the oracle: the fewest requests with which no poll is stale.

The last table compares these policies at equal numbers of requests: the numbers that each fixed lifetime causes.
"""

import argparse
import bisect
import collections
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.week.frontier import LIFETIMES, staleness_at
from benchmarks.week.history import History
from benchmarks.week.model import DAY, HOUR, PROFILES, Feed, make_feeds, make_readers, polls_of
from feedproxy.feed.change_rate import changes_per_second, expected_staleness
from feedproxy.refresh.policy import expected_polls_and_price
from feedproxy.refresh.policy.stale_while_refreshing import WAIT_WORTH
from feedproxy.refresh.resource_after_refresh import CHANGES_MAX
from feedproxy.subscribers.poll_rhythms import PollRhythms
from feedproxy.subscribers.reader_pseudonyms import Pseudonym

PRICES = (60.0, 300.0, 1800.0, 7200.0, 14_400.0, 25_200.0, 50_400.0)

BOUND_PRICES = (30.0, 300.0, 1800.0, 7200.0, 25_200.0, 50_400.0, 100_800.0)
"""Prices for the bound. Their range is wider than that of the policy's prices, because the bound makes fewer requests
at the same price."""

HOURLY = (300.0, 600.0, 1350.0, 2700.0, 5400.0, 10_800.0, 21_600.0)
"""Lifetimes of an hourly feed in the former schedule, in seconds."""

START = 4 * DAY
"""Unix time at which the instants of the model begin: 1970-01-05 was a Monday."""


@dataclass(slots=True)
class Result:
    """The counts of one simulation. `stale` is the sum of the staleness of all polls, in seconds."""

    requests: int = 0
    polls: int = 0
    stale: float = 0.0
    missed: int = 0
    waited: int = 0

    def miss(self, changes: Sequence[float], fetched: float, now: float) -> None:
        """Count the changes that a poll misses if its response is a copy from the instant `fetched`."""
        first = bisect.bisect_right(changes, fetched)
        if first < len(changes) and changes[first] <= now:
            self.missed += 1
            self.stale += now - changes[first]

    def line(self, name: str) -> str:
        """Return a row of the table."""
        return (
            f"  {name:22}  {self.requests:6d} requests  {self.stale / self.polls:7.1f} s stale"
            f"  {100 * self.waited / self.polls:5.2f} % waited  {100 * self.missed / self.polls:5.2f} % missed a change"
        )


@dataclass(frozen=True, slots=True)
class Played:
    """A feed, the instants of its changes before and in the week, and the polls of its readers."""

    feed: Feed
    dates: tuple[float, ...]
    changes: tuple[float, ...]
    published: tuple[float, ...]
    """The instants of the changes that a dated entry discloses."""
    polls: tuple[tuple[float, int], ...]


def world(profile: str, seed: int, readers: int, days: float = 7) -> list[Played]:
    """Return the feeds with their readers."""
    polls = collections.defaultdict(list)
    for reader in make_readers(profile, readers, 200, seed):
        for poll in polls_of(reader, seed, days):
            polls[poll.feed].append((START + poll.at, poll.reader))
    return [
        Played(
            feed,
            tuple(sorted(START + at for _, _, at in History(feed, seed, START)._items[0][:64])) if feed.dated else (),
            tuple(START + update.at for update in feed.updates if update.kind != "churn"),
            tuple(START + update.at for update in feed.updates if update.kind in ("item", "burst") and feed.dated),
            tuple(sorted(polls[feed.number])),
        )
        for feed in make_feeds(profile, 200, seed, days)
        if not feed.is_withheld and feed.fate != "ends" and polls[feed.number]
    ]


class Play:
    """Simulation of one feed with one price."""

    def __init__(self, played: Played, price: float, result: Result, *, lifetime_max: float) -> None:
        self._played = played
        self._price = price
        self._result = result
        self._lifetime_max = lifetime_max
        self._rhythms = PollRhythms()
        self._changes: list[float] = []
        self._first = 0.0
        self._rate = changes_per_second((), 0.0)
        self._fetched = 0.0
        self._due: float | None = None

    def run(self) -> None:
        """Simulate the week."""
        for now, reader in self._played.polls:
            while self._due is not None and self._due <= now:
                self._review(self._due)
            self._poll(now)
            if self._rhythms.record("", Pseudonym(reader + 1, reader + 1), now):
                self._review(now)

    def _poll(self, now: float) -> None:
        self._result.polls += 1
        if not self._fetched:
            self._fetch(now)
            return
        age = now - self._fetched
        is_expired = age > self._lifetime()
        if is_expired and expected_staleness(self._rate, age) > max(WAIT_WORTH, 3 * self._price):
            self._fetch(now)
            self._result.waited += 1
            return
        self._result.miss(self._played.changes, self._fetched, now)
        if is_expired:
            self._fetch(now)

    def _fetch(self, now: float) -> None:
        self._result.requests += 1
        changes = self._played.changes
        if not self._fetched:
            self._changes, self._first = list(self._played.dates), now
        elif bisect.bisect_right(changes, now) > bisect.bisect_right(changes, self._fetched):
            published = self._played.published
            found = published[bisect.bisect_right(published, self._fetched) : bisect.bisect_right(published, now)]
            self._changes += found or (now,)
        self._rate = changes_per_second(self._changes[-CHANGES_MAX:], now, since=self._first)
        self._fetched = now
        self._review(now)

    def _lifetime(self) -> float:
        return expected_polls_and_price.lifetime_for(self._rate, self._price, minimum=60, maximum=self._lifetime_max)

    def _review(self, now: float) -> None:
        lifetime = self._lifetime()
        planned = expected_polls_and_price.plan(
            self._rhythms.expected_polls("", now, now + expected_polls_and_price.HORIZON),
            now,
            expected_polls_and_price.Copy(self._fetched, self._fetched + lifetime, lambda at: at + lifetime),
            per_second=self._rate,
            price=self._price,
            permitted=lambda at: max(at, self._fetched + 60),
        )
        self._due = planned.at if planned is not None else None
        if self._due is not None and self._due <= now:
            self._due = None
            self._fetch(now)


def play(worlds: list[Played], price: float, *, lifetime_max: float = DAY) -> Result:
    """Return the result for a price."""
    result = Result()
    for played in worlds:
        Play(played, price, result, lifetime_max=lifetime_max).run()
    return result


def fixed(worlds: list[Played], lifetime: float) -> Result:
    """Return the result of a cache that answers with the stale copy and refreshes it in the background."""
    result = Result()
    for played in worlds:
        fetched = 0.0
        for now, _ in played.polls:
            result.polls += 1
            if fetched:
                result.miss(played.changes, fetched, now)
            if not fetched or now - fetched > lifetime:
                fetched = now
                result.requests += 1
    return result


def cube_root(worlds: list[Played], hourly: float) -> Result:
    """Return the result of the former schedule."""
    result = Result()
    for played in worlds:
        _Former(played, hourly, result).run()
    return result


class _Former:
    """Simulation of one feed with the former schedule."""

    def __init__(self, played: Played, hourly: float, result: Result) -> None:
        self._changes = played.changes
        self._polls = played.polls
        self._hourly = hourly
        self._result = result
        self._gaps: collections.deque[float] = collections.deque(
            (later - earlier for earlier, later in itertools.pairwise(played.dates)), maxlen=12
        )
        self._seen = played.dates[-1] if played.dates else self._polls[0][0]
        self._fetched = self._due = 0.0

    def run(self) -> None:
        """Simulate the week."""
        last = 0.0
        for now, _ in self._polls:
            self._result.polls += 1
            while self._fetched and self._due <= now and self._due - last <= max(HOUR, self._due - self._fetched):
                self._fetch(self._due)
            if self._fetched:
                self._result.miss(self._changes, self._fetched, now)
            if not self._fetched or now >= self._due:
                self._fetch(now)
            last = now

    def _fetch(self, now: float) -> None:
        self._result.requests += 1
        if self._fetched and bisect.bisect_right(self._changes, now) > bisect.bisect_right(
            self._changes, self._fetched
        ):
            self._gaps.append(now - self._seen)
            self._seen = now
        usual = max(statistics.median(self._gaps) if self._gaps else HOUR, now - self._seen)
        self._fetched, self._due = now, now + min(DAY, max(300.0, self._hourly * math.cbrt(usual / HOUR)))


def bound(worlds: list[Played], price: float) -> Result:
    """Return the result of the cheapest plan for polls that are known in advance.

    The plan knows how many changes each feed makes while it is polled, but not when. A policy that has to predict the
    polls and the rates cannot do better, unless it also predicts the changes.
    """
    result = Result()
    for played in worlds:
        polls = [now for now, _ in played.polls]
        length = max(DAY, polls[-1] - START)
        changes = bisect.bisect_right(played.changes, START + length) - bisect.bisect_left(played.changes, START)
        refreshed = _cheapest_plan(polls, max(changes, 0.5) / length, price)
        result.polls += len(polls)
        result.requests += len(refreshed)
        for first, end in itertools.pairwise([*refreshed, len(polls)]):
            for now in polls[first:end]:
                result.miss(played.changes, polls[first], now)
    return result


def _cheapest_plan(polls: Sequence[float], per_second: float, price: float) -> list[int]:
    """Return the indices of the polls just before which the feed is refreshed, by dynamic programming from the end.

    `costs[i]` is the cost of the polls from `i` on if a refresh precedes poll `i`, and `ends[i]` is the next refresh.
    """
    costs = [0.0] * (len(polls) + 1)
    ends = [len(polls)] * len(polls)
    for first in reversed(range(len(polls))):
        best, staleness = math.inf, 0.0
        for end in range(first + 1, len(polls) + 1):
            if (cost := staleness + costs[end]) < best:
                best, ends[first] = cost, end
            if end < len(polls):
                staleness += expected_staleness(per_second, polls[end] - polls[first])
                if staleness > best:
                    break
        costs[first] = price + best
    plan, at = [], 0
    while at < len(polls):
        plan.append(at)
        at = ends[at]
    return plan


def oracle(worlds: list[Played]) -> Result:
    """Return the fewest requests with which no poll misses a change: one before each poll that would miss one."""
    result = Result()
    for played in worlds:
        fetched = 0.0
        for now, _ in played.polls:
            result.polls += 1
            if not fetched or bisect.bisect_right(played.changes, now) > bisect.bisect_right(played.changes, fetched):
                fetched = now
                result.requests += 1
    return result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="modern", choices=PROFILES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--readers", type=int, default=40)
    parser.add_argument("--price", type=float, nargs="+", default=PRICES)
    asked = parser.parse_args()
    worlds = world(asked.profile, asked.seed, asked.readers)
    print(f"{asked.profile}, seed {asked.seed}: {len(worlds)} feeds, {sum(len(each.polls) for each in worlds)} polls")
    curves: list[list[tuple[float, float]]] = []
    for name, policy, values in (
        ("fixed lifetime", fixed, LIFETIMES),
        ("former schedule", cube_root, HOURLY),
        ("price", play, asked.price),
        ("bound", bound, BOUND_PRICES),
    ):
        curves.append([])
        for value in values:
            result = policy(worlds, value)
            curves[-1].append((result.requests, result.stale / result.polls))
            print(result.line(f"{name} {value:.0f}"), flush=True)
    print(oracle(worlds).line("oracle"))
    print("\nstaleness at equal requests:")
    for requests, staleness in curves[0]:
        former, ours, best = (staleness_at(curve, requests) for curve in curves[1:])
        print(
            f"  {requests:6.0f} requests  fixed lifetime {staleness:6.0f} s{_beside('former', former, staleness)}",
            end="",
        )
        print(
            _beside("price", ours, staleness) + (f" (of the former {ours / former:.2f})" if ours and former else ""),
            end="",
        )
        print(_beside("bound", best, staleness))


def _beside(name: str, staleness: float | None, base: float) -> str:
    return f"  {name:6} –" if staleness is None else f"  {name} {staleness:6.0f} s ({staleness / base:.2f})"


if __name__ == "__main__":
    main()
