"""The next refresh of a feed for its expected polls, made if it saves more staleness than a request costs.

A request costs `price` seconds of staleness. A refresh saves staleness at all polls up to the next refresh. Expected
polls (subscribers/poll_rhythms.py) that are close together form a *cluster*. The plan with the least cost over all
clusters is computed, and its first refresh is carried out.

A copy may answer as long as HTTP and the feed's hints permit. If both state no lifetime, `lifetime_for` sets it. A poll
after the lifetime always causes a request to the origin. A refresh shortly before such a poll costs no further request,
and spares the reader the wait.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.change_rate import age_for, expected_staleness
from feedproxy.subscribers.poll_rhythms import ExpectedPoll

LEAD: Seconds = 60
"""A refresh is planned this many seconds before the first poll that it serves."""

CLUSTER_LENGTH: Seconds = 90
"""Longest time between the first and the last poll of a cluster, in seconds."""

DISTANT_CLUSTER_SHARE = 0.1
"""Maximum length of a cluster of distant polls, as a fraction of the time until the cluster's first poll. The maximum
is never below CLUSTER_LENGTH. It grows with the time, because distant polls are less predictable."""

CLUSTERS_MAX = 32
"""A plan has at most this many clusters of expected polls. Polls after the last cluster are ignored."""

HORIZON: Seconds = 30 * 3600
"""A plan considers the polls that are expected within this many seconds from now. Thirty hours from the last poll of a
day include the first poll of the next day."""

MARGIN = 0.02
"""The last part of a copy's lifetime, as a fraction of the lifetime. A poll expected in this part is planned as if it
came after the lifetime, because readers' intervals vary."""

MARGIN_MAX = 30.0
"""Maximum length, in seconds, of the last part of a lifetime that MARGIN determines."""

RENEWED = 0.06
"""After the lifetime, the first poll renews the copy. A plan assumes the renewal as soon as the probability that no
poll has come is below this value. One poll that is expected with a probability of 95 % is enough."""

WAIT_PRICE = 2.0
"""Cost of a reader's wait for the origin, as a multiple of the price of a request. In a simulated week, one poll in
thirty waited if the value was 0, and one in two hundred if it was 2."""


class Copy(Struct, frozen=True):
    """The current copy of a feed, and a function that returns how long a later copy may answer."""

    refreshed: Instant
    expires: Instant
    """Last instant at which the copy may answer."""
    until: Callable[[Instant], Instant]
    """Function that returns the last instant at which a copy made at a given instant may answer."""


class Planned(Struct, frozen=True):
    """A planned refresh at the instant `at`."""

    at: Instant
    readers: float
    """Expected number of polls that the refresh serves."""
    by: Instant
    """Instant of the last poll that the refresh serves."""
    worth: Seconds
    """Staleness that the refresh is expected to save, in seconds, summed over the polls that it serves."""
    anticipates: bool
    """True if the refresh serves at least one poll that the present copy must not answer."""


UNEXPECTED_HOURLY: Seconds = 45 * 60
"""Maximum lifetime, in seconds, of a copy if no poll is expected and the feed changes once an hour. `lifetime_for`
derives the maximum for other rates of change."""


def lifetime_for(
    per_second: float, price: Seconds, *, minimum: Seconds, maximum: Seconds, is_expected: bool = True
) -> Seconds:
    """Return the seconds for which a copy may answer if neither HTTP nor the feed states a lifetime.

    The feed changes `per_second` times per second, and a request costs `price` seconds of staleness. The lifetime ends
    when the expected staleness at a poll equals the cost of a request plus the cost of a reader's wait. The result lies
    between `minimum` and `maximum`.

    If no poll is expected (`is_expected` is false), there is a second maximum. It grows with the cube root of the mean
    time between changes, and is UNEXPECTED_HOURLY at one change an hour. With a cube root, a given number of requests
    leads to the least total staleness of all feeds.
    """
    lifetime = age_for(per_second, (1 + WAIT_PRICE) * price)
    if not is_expected:
        lifetime = min(lifetime, UNEXPECTED_HOURLY * math.cbrt(1 / (3600 * per_second)))
    return min(max(lifetime, minimum), maximum)


def margin(refreshed: Instant, expires: Instant) -> Seconds:
    """Return the length of the last part of a copy's lifetime (MARGIN), in seconds. The copy is made at the instant
    `refreshed`, and may answer until `expires`."""
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
    """Return the next refresh of the cheapest plan, or None if the plan has no refresh.

    `polls` are in order of time. The feed changes `per_second` times per second. `permitted` returns the first instant,
    at or after its argument, at which the origin may be asked.
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
    latest, length_max, horizon = None, 0.0, now + HORIZON
    for expected_at, weight in polls:
        if expected_at > horizon:
            break
        if weight <= 0:
            continue
        at = max(expected_at, now)
        if latest is not None and at - latest.first <= length_max:
            latest.last = at
            latest.middle += (at - latest.middle) * weight / (latest.weight + weight)
            latest.weight += weight
        elif len(clusters) == CLUSTERS_MAX:
            break
        else:
            latest, length_max = _Cluster(at, at, weight, at), max(CLUSTER_LENGTH, DISTANT_CLUSTER_SHARE * (at - now))
            clusters.append(latest)
    return clusters


class _PlanSearch:
    """The search for the cheapest plan by dynamic programming over clusters of polls.

    The refresh *for* a cluster serves the cluster and possibly later clusters, but no earlier cluster. The refresh for
    cluster n is made at the instant `at[n]`.
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
        """For each cluster: the least cost of the cluster and all later clusters if the refresh for the cluster is
        made. The cost is infinite if no request to the origin is permitted in time."""
        self._nexts = [len(clusters)] * len(clusters)
        """Item n is the number of the cluster that gets the next refresh after the refresh for cluster n. An item that
        equals the number of clusters means that no further refresh follows."""

        self._after_renewal: list[tuple[float, int] | None] = [None] * len(clusters)
        """For each cluster: the result of `_cheapest_after_renewal`, or None if it has not been computed yet."""

    def solve(self, number: int) -> None:
        """Compute the least cost of cluster `number` and all later clusters if the refresh for cluster `number` is
        made. The cost is stored in `_costs`. The caller must have called `solve` for all later clusters."""
        at = self._at[number]
        if at <= self._clusters[number].last:
            cost, self._nexts[number] = self.cheapest(at, self._until(at), number)
            self._costs[number] = self._price + cost

    def cheapest(self, refreshed: Instant, expires: Instant, number: int, *, before: bool = False) -> tuple[float, int]:
        """Return two values: the least cost of the clusters from `number` on, and the number of the cluster that gets
        the next refresh.

        Up to the next refresh, polls get the copy that was made at `refreshed` and expires at `expires`. The next
        refresh is for a cluster after `number`, or also for `number` itself if `before` is true. If no refresh follows,
        the second value is the number of all clusters.
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
                    later_cost, later_refresh = self._cheapest_after_renewal(index)
                    cost += later_cost
                    return (cost, later_refresh) if cost < best else (best, next_cluster)
            else:
                cost += cluster.weight * expected_staleness(per_second, middle - refreshed)
            if cost >= best:
                return best, next_cluster
        return (cost, len(clusters)) if cost < best else (best, next_cluster)

    def _cheapest_after_renewal(self, number: int) -> tuple[float, int]:
        """Return the two values of `cheapest` for the clusters after `number`, if a poll in cluster `number` renews the
        copy."""
        result = self._after_renewal[number]
        if result is None:
            at = self._clusters[number].middle
            result = self._after_renewal[number] = self.cheapest(at, self._until(at), number + 1, before=True)
        return result

    def end_of_served(self, number: int) -> int:
        """Return the number of the first later cluster that the refresh for cluster `number` does not serve."""
        return self._nexts[number]

    def staleness(self, refreshed: Instant, served: Sequence[_Cluster]) -> Seconds:
        """Return the expected staleness of a copy that is made at `refreshed`, in seconds, summed over the polls of the
        clusters `served`."""
        return sum(
            cluster.weight * expected_staleness(self._per_second, cluster.middle - refreshed) for cluster in served
        )
