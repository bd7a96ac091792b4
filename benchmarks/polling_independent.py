"""A second simulation of the polling policy, which checks that feedproxy decides as the documentation describes.

    python -m benchmarks.polling_independent [--profile modern] [--seed 1] [--readers 6] [--days 2] [--price 300 1800]

The feeds, the readers and the count of staleness are those of benchmarks.polling. This module has its own code for
rates, forecasts and plans, which follows docs/explanation/schedule.md in the simplest way. A plan considers every
choice of refreshes before the next POLLS polls. For each price, the output has both results and their ratios.
"""

import argparse
import functools
import itertools
import math
import statistics
from dataclasses import dataclass, field

from benchmarks import polling
from benchmarks.polling import Played, Result, world
from benchmarks.week.model import DAY, HOUR, PROFILES

POLLS = 24
"""Maximum number of expected polls that a plan considers."""

LEAD, TOGETHER, WAIT = 60.0, 90.0, 3.0
"""Seconds from a refresh to its poll, seconds within which polls share a refresh, and the cost of a wait as a multiple
of the price.
"""

MONTH = 30 * DAY


@dataclass
class Habit:
    """The observed habits of one reader: its polls, the last intervals, the beginnings of its sessions, and the length
    of the last complete session.
    """

    polls: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)
    length: float = 0.0

    def poll(self, now: float) -> None:
        """Record a poll."""
        if self.polls:
            gap = now - self.polls[-1]
            if self.gaps and gap > 2.5 * self.usual:
                self.length = self.polls[-1] - self.begins[-1]
                self.begins.append(now)
            else:
                self.gaps = [*self.gaps[-4:], gap]
        else:
            self.begins.append(now)
        self.polls.append(now)

    @property
    def usual(self) -> float:
        """The usual interval."""
        return statistics.median_low(self.gaps)

    def forecast(self, now: float, until: float) -> list[tuple[float, float]]:
        """Return the instants at which polls are expected, each with its probability."""
        if not self.gaps or now - self.polls[-1] >= DAY:
            return []
        found: list[tuple[float, float]] = []
        last, usual = self.polls[-1], self.usual
        session_end = self.begins[-1] + self.length + usual if self.length else math.inf
        if now - last <= 2.5 * usual:
            seen = [gap for gap in self.gaps if gap < 2.5 * usual]
            spread = max(seen) - min(seen)
            possible = sorted([*seen, *([min(seen) - spread / 2, max(seen) + spread / 2] if spread else [])])
            ahead = [last + gap for gap in possible if last + gap > now]
            chance = 0.95 if last + usual <= session_end else 0.2
            if not ahead:
                chance /= 2
                late = last + 1.25 * possible[-1]
                ahead = [now + (late - now) / 2] if late >= now else []
            found += [(at, chance / len(ahead)) for at in ahead]
            later = last + 2 * usual
            while later <= min(until, session_end):
                found += [(later, chance)] if later > now else []
                later += usual
            if not self.length:
                return found
        cycle = self.begins[-1] - self.begins[-2] if len(self.begins) > 1 else DAY
        start = self.begins[-1] + (cycle if 0.5 * DAY < cycle < 1.5 * DAY else DAY)
        while start + usual <= now:
            start += DAY
        found += [(start + part * usual, 0.85 / 3) for part in (-0.5, 0.0, 0.5) if start + part * usual > now]
        later = start + usual
        while later <= min(until, start + self.length if self.length else until):
            found += [(later, 0.85)] if later > now else []
            later += usual
        return found


class Independent:
    """The simulation of one feed with one price."""

    def __init__(self, played: Played, price: float, result: Result) -> None:
        self._played = played
        self._price = price
        self._result = result
        self._habits: dict[int, Habit] = {}
        self._changes: list[float] = []
        self._first = self._fetched = 0.0
        self._rate = self._lifetime = 0.0
        self._due: float | None = None

    def run(self) -> None:
        """Simulate the feed's polls."""
        for now, reader in self._played.polls:
            while self._due is not None and self._due <= now:
                self._decide(self._due)
            self._result.polls += 1
            habit = self._habits.setdefault(reader, Habit())
            if not self._fetched:
                self._fetch(now)
            else:
                age = now - self._fetched
                waits = age > self._lifetime and self._staleness(age) > max(2 * HOUR, 3 * self._price)
                self._result.waited += waits
                if not waits:
                    self._result.miss(self._played.changes, self._fetched, now)
                if age > self._lifetime:
                    self._fetch(now)
            habit.poll(now)
            if len(habit.gaps) < 2 or any(abs(gap - habit.usual) > TOGETHER for gap in habit.gaps):
                self._decide(now)

    def _fetch(self, now: float) -> None:
        self._result.requests += 1
        if not self._fetched:
            self._first, self._changes = now, list(self._played.dates)
        elif any(self._fetched < at <= now for at in self._played.changes):
            self._changes += [at for at in self._played.published if self._fetched < at <= now] or [now]
        self._fetched = now
        recent = self._changes[-32:]
        begin = min([*recent[:1], self._first])
        weights = sum(math.exp((at - now) / MONTH) for at in recent if at != begin)
        self._rate = (0.25 + weights) / (1.5 * HOUR + MONTH * (1 - math.exp((begin - now) / MONTH)))
        low, high = 60.0, DAY
        while high - low > 1:  # by bisection
            middle = (low + high) / 2
            low, high = (middle, high) if self._staleness(middle) < WAIT * self._price else (low, middle)
        self._lifetime = low
        self._decide(now)

    def _staleness(self, age: float) -> float:
        return age - (1 - math.exp(-self._rate * age)) / self._rate if age > 0 else 0.0

    def _decide(self, now: float) -> None:
        self._due = self._plan(now)
        if self._due is not None and self._due <= now:
            self._due = None
            self._fetch(now)

    def _plan(self, now: float) -> float | None:
        """Return the instant of the first refresh of the cheapest plan, or None if the plan has no refresh."""
        forecasts = [habit.forecast(now, now + 30 * HOUR) for habit in self._habits.values()]
        polls: list[list[float]] = []
        for at, weight in sorted(itertools.chain.from_iterable(forecasts)):
            if polls and at - polls[-1][0] <= TOGETHER:
                polls[-1][1] += weight
            else:
                polls.append([at, weight])
        del polls[POLLS:]
        permitted = max(now, self._fetched + 60)

        @functools.cache
        def best(number: int, copy: float) -> tuple[float, float | None]:
            """Return the least cost from poll `number` on, with a copy made at the instant `copy`, and the instant of
            the first refresh or None.
            """
            if number == len(polls):
                return 0.0, None
            at, weight = polls[number]
            if at >= copy + self._lifetime:
                # The reader waits, and its request renews the copy. If the poll is improbable, the plan assumes that it
                # does not come.
                later, first = best(number + 1, at if weight > 0.5 else copy)
                cost = later + min(1.0, weight) * WAIT * self._price
            else:
                later, first = best(number + 1, copy)
                cost = later + weight * self._staleness(at - copy)
            refresh = max(permitted, at - LEAD)
            if copy < refresh <= at:
                with_refresh = self._price + weight * self._staleness(at - refresh) + best(number + 1, refresh)[0]
                if with_refresh < cost:
                    return with_refresh, refresh
            return cost, first

        return best(0, self._fetched)[1]


def play(worlds: list[Played], price: float) -> Result:
    """Return the result for a price."""
    result = Result()
    for played in worlds:
        Independent(played, price, result).run()
    return result


def main() -> None:
    """Print both results for each price."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="modern", choices=PROFILES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--readers", type=int, default=6)
    parser.add_argument("--days", type=float, default=2.0)
    parser.add_argument("--price", type=float, nargs="+", default=(300.0, 1800.0))
    asked = parser.parse_args()
    worlds = world(asked.profile, asked.seed, asked.readers, asked.days)
    for price in asked.price:
        product, independent = polling.play(worlds, price), play(worlds, price)
        print(product.line(f"product, {price:.0f}"))
        print(independent.line(f"independent, {price:.0f}"))
        requests, stale = independent.requests / product.requests, independent.stale / product.stale
        print(f"  ratio: requests {requests:.2f}, staleness {stale:.2f}", flush=True)


if __name__ == "__main__":
    main()
