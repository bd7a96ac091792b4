"""The next refresh of a feed, weighed by one price: the staleness it saves against a request. Pure.

A request costs `price` seconds of staleness. A refresh is worth what it saves: the staleness of all polls that it
serves, until the next refresh. Both are weighed over the polls that are expected (subscribers/poll_rhythms.py), with
the rate at which the feed changes (feed/change_rate.py). The cheapest plan is found by a dynamic programme over
clusters of expected polls; only its first refresh is carried out, and everything is weighed anew afterwards.

A refresh comes shortly before the first poll it serves. At any other time it would cost the same and save less.

A copy answers as long as HTTP and the feed's hints grant, or for `lifetime_for`. A poll beyond that costs a request
anyway, and the reader waits for it: so one that is likely to come is anticipated.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.change_rate import age_for, expected_staleness
from feedproxy.subscribers.poll_rhythms import ExpectedPoll

LEAD: Seconds = 60
"""Seconds between a refresh and its poll: time for a slow origin, and for other refreshes in the same lane."""

CLUSTER: Seconds = 90
"""Polls within so many seconds are served by one refresh: little is published in between."""

COARSER = 0.1
"""Clusters further ahead are longer, by this part of their distance: their instants are not known so well."""

CLUSTERS_MAX = 32
"""Clusters that are weighed. They reach beyond a day, unless readers come all the time."""

HORIZON: Seconds = 30 * 3600
"""Polls further ahead are not weighed: tomorrow's first poll is, when today's last is over."""

MARGIN, MARGIN_MAX = 0.02, 30.0
"""The part of a copy's time, and the seconds at most, that are left out at its end: a reader's interval varies, and is
often the very lifetime that the feed states."""

RENEWED = 0.06
"""Probability that no poll has renewed an expired copy, below which the plan counts it as renewed: a reader's poll is
expected with a probability of 95 % (subscribers/poll_rhythms.py)."""

WAIT_PRICE = 2.0
"""The cost of a reader that waits for the origin, in prices of a request. (In the simulated week 0 makes one poll in
thirty wait, 2 one in two hundred, and 10 saves no request any more.)"""


@dataclass(frozen=True, slots=True)
class Copy:
    """The current copy, and how long the next one is valid."""

    refreshed: Instant
    expires: Instant
    """The instant until which it may answer."""
    until: Callable[[Instant], Instant]
    """Returns until when a copy made at an instant may answer."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A refresh at `at`, and why."""

    at: Instant
    readers: float
    """Expected polls that it serves."""
    by: Instant
    """The last of them."""
    worth: Seconds
    """The staleness that it is expected to save, summed over these polls."""
    anticipates: bool
    """True if the copy may not answer one of these polls, so that a reader would have to wait."""


UNEXPECTED_HOURLY: Seconds = 45 * 60
"""Longest lifetime of an hourly feed without expected polls, if neither HTTP nor the feed states one."""


def lifetime_for(
    per_second: float, price: Seconds, *, minimum: Seconds, maximum: Seconds, is_expected: bool = True
) -> Seconds:
    """Return how long a copy may answer if neither HTTP nor the feed states a lifetime.

    The lifetime ends when the expected staleness of one unexpected poll costs as much as a request and a wait. If no
    poll is expected (`is_expected`), no refresh comes ahead of one either. Then the lifetime is at most proportional to
    the cube root of the usual gap between changes, which gives many feeds the least staleness for a number of requests:
    a feed that changes every T and is fetched every L is late by L²/6T on average and costs 1/L requests.
    """
    lifetime = age_for(per_second, (1 + WAIT_PRICE) * price)
    if not is_expected:
        lifetime = min(lifetime, UNEXPECTED_HOURLY * math.cbrt(1 / (3600 * per_second)))
    return min(max(lifetime, minimum), maximum)


def margin(refreshed: Instant, expires: Instant) -> Seconds:
    """Return the seconds before the end of a copy's time within which a poll is not relied on to come in time."""
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
    """Return the next refresh of the cheapest plan; None where every poll is served best without one.

    `polls` are in order, those later than HORIZON are left out. The feed changes `per_second` times. `permitted` gives
    the first moment from an instant on at which the origin may be asked.
    """
    clusters = _clusters(polls, now)
    if not clusters:
        return None
    at = [permitted(max(now, cluster.first - LEAD)) for cluster in clusters]
    weighing = _Weighing(clusters, at, per_second, price, copy.until)
    for number in range(len(clusters) - 1, -1, -1):
        weighing.weigh(number)
    first = weighing.cheapest(copy.refreshed, copy.expires, 0, before=True)[1]
    if first == len(clusters):
        return None
    served = clusters[first : weighing.reach(first)]
    return Planned(
        at[first],
        sum(cluster.weight for cluster in served),
        served[-1].last,
        weighing.staleness(copy.refreshed, served) - weighing.staleness(at[first], served),
        any(cluster.middle >= copy.expires - margin(copy.refreshed, copy.expires) for cluster in served),
    )


@dataclass(slots=True)
class _Cluster:
    first: Instant
    last: Instant
    weight: float
    middle: Instant
    """The mean instant of its polls."""


def _clusters(polls: Sequence[ExpectedPoll], now: Instant) -> list[_Cluster]:
    clusters: list[_Cluster] = []
    for poll in polls:
        if poll.at > now + HORIZON:
            break
        if poll.weight <= 0:
            continue
        at, weight = max(poll.at, now), poll.weight
        latest = clusters[-1] if clusters else None
        if latest is not None and at - latest.first <= max(CLUSTER, COARSER * (latest.first - now)):
            latest.last = at
            latest.middle += (at - latest.middle) * weight / (latest.weight + weight)
            latest.weight += weight
        elif len(clusters) == CLUSTERS_MAX:
            break
        else:
            clusters.append(_Cluster(at, at, weight, at))
    return clusters


class _Weighing:
    """The dynamic programme. `at[n]` is when a refresh for cluster n would come."""

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
        """The least cost from a cluster on with a refresh just before it; infinite where it may not come in time."""
        self._nexts = [len(clusters)] * len(clusters)
        """Before which cluster the refresh after that one comes."""

    def weigh(self, number: int) -> None:
        """Find the least cost from this cluster on with a refresh just before it; later ones are weighed already."""
        at = self._at[number]
        if at <= self._clusters[number].last:
            cost, self._nexts[number] = self.cheapest(at, self._until(at), number)
            self._costs[number] = self._price + cost

    def cheapest(self, refreshed: Instant, expires: Instant, number: int, *, before: bool = False) -> tuple[float, int]:
        """Return the least cost from cluster `number` on with this copy, and before which cluster a refresh comes.

        A refresh may come before `number` itself where `before` is true.
        """
        spent, best, where = 0.0, math.inf, len(self._clusters)
        due = 0.0
        for index in range(number, len(self._clusters)):
            if (before or index > number) and spent + self._costs[index] < best:
                best, where = spent + self._costs[index], index
            cluster = self._clusters[index]
            if not due and cluster.middle >= expires - margin(refreshed, expires):
                due = 1.0
            if due:
                # One poll renews the copy, and its reader waits for that. It may be any of the next ones.
                renewing = min(due, cluster.weight)
                spent += renewing * (1 + WAIT_PRICE) * self._price
                due -= renewing
                if due < RENEWED:
                    due, refreshed, expires = 0.0, cluster.middle, self._until(cluster.middle)
            else:
                spent += cluster.weight * expected_staleness(self._per_second, cluster.middle - refreshed)
            if spent >= best:
                return best, where
        return (spent, len(self._clusters)) if spent < best else (best, where)

    def reach(self, number: int) -> int:
        """Return the first cluster that a refresh before `number` serves no longer."""
        return self._nexts[number]

    def staleness(self, refreshed: Instant, served: Sequence[_Cluster]) -> Seconds:
        """Return the expected staleness of these polls with a copy of that time, summed."""
        return sum(
            cluster.weight * expected_staleness(self._per_second, cluster.middle - refreshed) for cluster in served
        )
