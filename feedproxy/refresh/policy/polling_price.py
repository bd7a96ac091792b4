"""The next refresh of a feed that saves more staleness than a request costs.

A request costs `price` seconds of staleness. A refresh saves staleness at all polls that it serves, until the next
refresh. The savings follow from the expected polls (subscribers/poll_rhythms.py) and the rate at which the feed changes
(feed/change_rate.py). Expected polls close together form a *cluster*, which counts as one poll. Dynamic programming
over the clusters finds the cheapest plan. Only its first refresh is carried out, shortly before the first poll that it
serves.

A copy may answer as long as HTTP and the feed's hints permit, or for the lifetime that `lifetime_for` returns. After
that time, a poll causes a request to the origin in any case. A refresh before a likely late poll costs no further
request, and spares the reader the wait.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.change_rate import age_for, expected_staleness
from feedproxy.subscribers.poll_rhythms import ExpectedPoll

LEAD: Seconds = 60
"""Seconds between a refresh and the first poll that it serves."""

CLUSTER_LENGTH: Seconds = 90
"""Longest time between the first and the last poll of a cluster, in seconds."""

DISTANT_CLUSTER_SHARE = 0.1
"""Longest time between the first and the last poll of a cluster, as a fraction of the time until the first poll.

The longer of this limit and CLUSTER_LENGTH applies, because distant polls are less predictable.
"""

CLUSTERS_MAX = 32
"""Maximum number of clusters in a plan: usually more than a day. Polls after the last cluster are ignored."""

HORIZON: Seconds = 30 * 3600
"""Seconds from now to the last expected poll that a plan considers.

After the last poll of a day, a plan over thirty hours includes the first poll of the next day.
"""

MARGIN = 0.02
"""Fraction of a lifetime, at its end, in which an expected poll counts as too late.

Readers often poll at the interval that the feed states as its lifetime, and their intervals vary.
"""

MARGIN_MAX = 30.0
"""Upper limit of the time that MARGIN gives, in seconds."""

RENEWED = 0.06
"""Probability that no poll has renewed an expired copy, below which a plan takes the copy as renewed.

The value is just above 5 %, because one expected poll comes with a probability of 95 % (subscribers/poll_rhythms.py).
"""

WAIT_PRICE = 2.0
"""Cost of a reader's wait for the origin, as a multiple of the price of a request.

In a simulated week, one poll in thirty waited with the value 0, and one in two hundred with 2.
"""


@dataclass(frozen=True, slots=True)
class Copy:
    """The current copy of a feed, and a function for the last instant at which a later copy may answer."""

    refreshed: Instant
    expires: Instant
    """Last instant at which the copy may answer."""
    until: Callable[[Instant], Instant]
    """Function that returns the last instant at which a copy made at a given instant may answer."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned refresh at the instant `at`."""

    at: Instant
    readers: float
    """Expected number of polls that the refresh serves."""
    by: Instant
    """Instant of the last poll that the refresh serves."""
    worth: Seconds
    """Expected saving of staleness, in seconds summed over the polls that the refresh serves."""
    anticipates: bool
    """True if the present copy cannot answer one of the polls that the refresh serves."""


UNEXPECTED_HOURLY: Seconds = 45 * 60
"""Longest lifetime of a feed that changes once an hour and has no expected polls, in seconds.

The limit applies if neither HTTP nor the feed states a lifetime. `lifetime_for` adapts it to other rates of change.
"""


def lifetime_for(
    per_second: float, price: Seconds, *, minimum: Seconds, maximum: Seconds, is_expected: bool = True
) -> Seconds:
    """Return the seconds for which a copy may answer if neither HTTP nor the feed states a lifetime.

    The lifetime ends when the expected staleness at a poll costs as much as a request and a reader's wait. Without
    expected polls (`is_expected` is false), the lifetime is also limited in proportion to the cube root of the mean gap
    between changes.

    The cube root is the best distribution of requests among feeds: a feed that changes every T seconds and is fetched
    every L seconds is late by L²/6T on average, and costs 1/L requests per second.
    """
    lifetime = age_for(per_second, (1 + WAIT_PRICE) * price)
    if not is_expected:
        lifetime = min(lifetime, UNEXPECTED_HOURLY * math.cbrt(1 / (3600 * per_second)))
    return min(max(lifetime, minimum), maximum)


def margin(refreshed: Instant, expires: Instant) -> Seconds:
    """Return the seconds at the end of a copy's lifetime in which a poll counts as too late (MARGIN)."""
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
    """Return the next refresh of the cheapest plan, or None without a refresh.

    `polls` are in order of time. The feed changes `per_second` times per second. `permitted` returns the first instant,
    from a given one on, at which the origin may be asked.
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
    """Mean instant of the polls in the cluster, by weight."""


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
    """The search for the cheapest plan by dynamic programming over clusters of polls (CLUSTER_LENGTH).

    The refresh *for* cluster n is the one with n as the first cluster that it serves. It is made at the instant
    `at[n]`, about LEAD seconds before the first poll of the cluster.
    """

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
        """The least cost of each cluster and all later clusters, with a refresh for the cluster.

        The cost is infinite if the origin may not be asked in time.
        """
        self._nexts = [len(clusters)] * len(clusters)
        """The number of the cluster with the next refresh, after a refresh for each cluster.

        Without a further refresh, the number is the number of clusters.
        """

    def solve(self, number: int) -> None:
        """Compute the least cost of cluster `number` and all later clusters, with a refresh for `number`.

        The caller solves later clusters first.
        """
        at = self._at[number]
        if at <= self._clusters[number].last:
            cost, self._nexts[number] = self.cheapest(at, self._until(at), number)
            self._costs[number] = self._price + cost

    def cheapest(self, refreshed: Instant, expires: Instant, number: int, *, before: bool = False) -> tuple[float, int]:
        """Return the least total cost of the clusters from `number` on, and the number of the cluster with the next
        refresh.

        Until that refresh, polls get the copy from the instant `refreshed`, which expires at `expires`. With `before`,
        the next refresh may be the one for cluster `number`.
        """
        clusters, costs, per_second = self._clusters, self._costs, self._per_second
        cost, best, next_cluster = 0.0, math.inf, len(clusters)
        due = 0.0
        too_late = expires - margin(refreshed, expires)
        for index in range(number, len(clusters)):
            if (before or index > number) and cost + costs[index] < best:
                best, next_cluster = cost + costs[index], index
            cluster = clusters[index]
            middle = cluster.middle
            if not due and middle >= too_late:
                due = 1.0
            if due:
                # One of the following polls renews the copy, and its reader waits for the response.
                renewing = min(due, cluster.weight)
                cost += renewing * (1 + WAIT_PRICE) * self._price
                due -= renewing
                if due < RENEWED:
                    due, refreshed, expires = 0.0, middle, self._until(middle)
                    too_late = expires - margin(refreshed, expires)
            else:
                cost += cluster.weight * expected_staleness(per_second, middle - refreshed)
            if cost >= best:
                return best, next_cluster
        return (cost, len(clusters)) if cost < best else (best, next_cluster)

    def end_of_served(self, number: int) -> int:
        """Return the number of the first later cluster that the refresh for cluster `number` does not serve."""
        return self._nexts[number]

    def staleness(self, refreshed: Instant, served: Sequence[_Cluster]) -> Seconds:
        """Return the expected staleness in seconds, summed over the polls in `served`, with a copy from `refreshed`."""
        return sum(
            cluster.weight * expected_staleness(self._per_second, cluster.middle - refreshed) for cluster in served
        )
