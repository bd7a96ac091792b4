"""The next refresh of a feed, decided by one price: the staleness that a refresh saves against the cost of a request.

A request costs `price` seconds of staleness. A refresh saves staleness at all polls that it serves, until the next
refresh. Both are computed for the expected polls (subscribers/poll_rhythms.py), with the rate at which the feed changes
(feed/change_rate.py). Dynamic programming over clusters of expected polls finds the cheapest plan. Only its first
refresh is carried out. Then a new plan is made. All functions are pure.

A refresh comes shortly before the first poll that it serves. At any other time it would cost the same and save less.

A copy may answer as long as HTTP and the feed's hints permit, or for the lifetime that `lifetime_for` returns. A later
poll causes a request anyway, and its reader waits for it. A poll that is likely to come later is therefore anticipated
by a refresh.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.change_rate import age_for, expected_staleness
from feedproxy.subscribers.poll_rhythms import ExpectedPoll

LEAD: Seconds = 60
"""Seconds between a refresh and the first poll that it serves: time for a slow origin, and for other refreshes in the
same lane."""

CLUSTER_LENGTH: Seconds = 90
"""Longest time in seconds between polls that one refresh serves. Little is published in that time."""

DISTANT_CLUSTER_SHARE = 0.1
"""Length of a distant cluster as a fraction of its distance, if that is longer. Distant polls are less predictable."""

CLUSTERS_MAX = 32
"""Largest number of clusters in a plan. They cover more than a day, unless readers poll all the time."""

HORIZON: Seconds = 30 * 3600
"""Seconds from now within which polls are considered: at the last poll of a day, the first one of the next day."""

MARGIN = 0.02
"""Fraction of a copy's lifetime at its end within which a poll counts as too late. The interval of a reader varies, and
often equals the lifetime that the feed states."""

MARGIN_MAX = 30.0
"""The same margin as a largest number of seconds."""

RENEWED = 0.06
"""Probability below which an expired copy counts as renewed by a poll. A reader's poll is expected with a probability
of 95 % (subscribers/poll_rhythms.py)."""

WAIT_PRICE = 2.0
"""Cost of a reader's wait for the origin, in prices of a request. In the simulated week, one poll in thirty waits with
0, and one in two hundred with 2. From 10 on, no further request is saved."""


@dataclass(frozen=True, slots=True)
class Copy:
    """The current copy of a feed, and a function for the lifetime of the next one."""

    refreshed: Instant
    expires: Instant
    """Last instant at which it may answer."""
    until: Callable[[Instant], Instant]
    """Returns the last instant at which a copy made at a given instant may answer."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned refresh at the instant `at`."""

    at: Instant
    readers: float
    """Number of expected polls that it serves."""
    by: Instant
    """Instant of the last of these polls."""
    worth: Seconds
    """Staleness in seconds that it is expected to save, summed over these polls."""
    anticipates: bool
    """True if the present copy may not answer one of these polls, so that a reader would have to wait."""


UNEXPECTED_HOURLY: Seconds = 45 * 60
"""Longest lifetime of an hourly feed without expected polls, if neither HTTP nor the feed states one."""


def lifetime_for(
    per_second: float, price: Seconds, *, minimum: Seconds, maximum: Seconds, is_expected: bool = True
) -> Seconds:
    """Return the seconds for which a copy may answer if neither HTTP nor the feed states a lifetime.

    The lifetime ends when the expected staleness of one unexpected poll costs as much as a request and a wait. Without
    expected polls (`is_expected` is false), no refresh precedes a poll. Then the lifetime is at most proportional to
    the cube root of the usual gap between changes. For a given number of requests, this gives many feeds the least
    staleness: a feed that changes every T seconds and is fetched every L seconds is late by L²/6T on average, and costs
    1/L requests.
    """
    lifetime = age_for(per_second, (1 + WAIT_PRICE) * price)
    if not is_expected:
        lifetime = min(lifetime, UNEXPECTED_HOURLY * math.cbrt(1 / (3600 * per_second)))
    return min(max(lifetime, minimum), maximum)


def margin(refreshed: Instant, expires: Instant) -> Seconds:
    """Return the seconds before the end of a copy's lifetime within which a poll counts as too late."""
    return min(MARGIN_MAX, MARGIN * max(0.0, expires - refreshed))


def plan(
    polls: Sequence[ExpectedPoll],
    now: Instant,
    copy: Copy,
    *,
    per_second: float,
    price: Seconds,
    permitted: Callable[[Instant], Instant],
) -> Planned | None:
    """Return the next refresh of the cheapest plan, or None if all polls are served best without one.

    `polls` are in order of time; those later than HORIZON are ignored. The feed changes `per_second` times per second.
    `permitted` returns the first instant, from a given one on, at which the origin may be asked.
    """
    clusters = _clusters(polls, now)
    if not clusters:
        return None
    at = [permitted(max(now, cluster.first - LEAD)) for cluster in clusters]
    search = _PlanSearch(clusters, at, per_second, price, copy.until)
    for number in range(len(clusters) - 1, -1, -1):
        search.solve(number)
    first = search.cheapest(copy.refreshed, copy.expires, 0, before=True)[1]
    if first == len(clusters):
        return None
    served = clusters[first : search.end_of_served(first)]
    return Planned(
        at[first],
        sum(cluster.weight for cluster in served),
        served[-1].last,
        search.staleness(copy.refreshed, served) - search.staleness(at[first], served),
        any(cluster.middle >= copy.expires - margin(copy.refreshed, copy.expires) for cluster in served),
    )


@dataclass(slots=True)
class _Cluster:
    first: Instant
    last: Instant
    weight: float
    middle: Instant
    """Mean instant of its polls."""


def _clusters(polls: Sequence[ExpectedPoll], now: Instant) -> list[_Cluster]:
    clusters: list[_Cluster] = []
    for poll in polls:
        if poll.at > now + HORIZON:
            break
        if poll.weight <= 0:
            continue
        at, weight = max(poll.at, now), poll.weight
        latest = clusters[-1] if clusters else None
        if latest is not None and at - latest.first <= max(
            CLUSTER_LENGTH, DISTANT_CLUSTER_SHARE * (latest.first - now)
        ):
            latest.last = at
            latest.middle += (at - latest.middle) * weight / (latest.weight + weight)
            latest.weight += weight
        elif len(clusters) == CLUSTERS_MAX:
            break
        else:
            clusters.append(_Cluster(at, at, weight, at))
    return clusters


class _PlanSearch:
    """The dynamic programming. `at[n]` is the instant of a refresh before cluster n."""

    def __init__(
        self,
        clusters: Sequence[_Cluster],
        at: Sequence[Instant],
        per_second: float,
        price: Seconds,
        until: Callable[[Instant], Instant],
    ) -> None:
        self._clusters = clusters
        self._at = at
        self._per_second = per_second
        self._price = price
        self._until = until
        self._costs = [math.inf] * len(clusters)
        """Least cost from each cluster on with a refresh just before it, or infinity if the refresh cannot come in
        time."""
        self._nexts = [len(clusters)] * len(clusters)
        """For each cluster with a refresh just before it: the cluster before which the next refresh comes."""

    def solve(self, number: int) -> None:
        """Compute the least cost from this cluster on with a refresh just before it. Later clusters are computed
        first."""
        at = self._at[number]
        if at <= self._clusters[number].last:
            cost, self._nexts[number] = self.cheapest(at, self._until(at), number)
            self._costs[number] = self._price + cost

    def cheapest(self, refreshed: Instant, expires: Instant, number: int, *, before: bool = False) -> tuple[float, int]:
        """Return the least cost from cluster `number` on with this copy, and the cluster before which the next refresh
        comes.

        With `before`, the next refresh may come before `number` itself.
        """
        cost, best, next_cluster = 0.0, math.inf, len(self._clusters)
        due = 0.0
        for index in range(number, len(self._clusters)):
            if (before or index > number) and cost + self._costs[index] < best:
                best, next_cluster = cost + self._costs[index], index
            cluster = self._clusters[index]
            if not due and cluster.middle >= expires - margin(refreshed, expires):
                due = 1.0
            if due:
                # One poll renews the copy, and its reader waits for that. It may be any of the following polls.
                renewing = min(due, cluster.weight)
                cost += renewing * (1 + WAIT_PRICE) * self._price
                due -= renewing
                if due < RENEWED:
                    due, refreshed, expires = 0.0, cluster.middle, self._until(cluster.middle)
            else:
                cost += cluster.weight * expected_staleness(self._per_second, cluster.middle - refreshed)
            if cost >= best:
                return best, next_cluster
        return (cost, len(self._clusters)) if cost < best else (best, next_cluster)

    def end_of_served(self, number: int) -> int:
        """Return the first cluster that a refresh before `number` does not serve any more."""
        return self._nexts[number]

    def staleness(self, refreshed: Instant, served: Sequence[_Cluster]) -> Seconds:
        """Return the expected staleness in seconds of these polls with a copy from the instant `refreshed`, summed."""
        return sum(
            cluster.weight * expected_staleness(self._per_second, cluster.middle - refreshed) for cluster in served
        )
