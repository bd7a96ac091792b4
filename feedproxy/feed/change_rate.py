"""The rate at which a feed's content changes, with a prior for feeds with a short history.

Changes are modelled as a Poisson process with a Gamma prior for its rate. An observation has the weight exp(-age /
MEMORY), so old observations count less.
"""

import math
from collections.abc import Iterable

from feedproxy.clock import Instant, Seconds

PRIOR_CHANGES = 0.25
PRIOR_EXPOSURE: Seconds = 1.5 * 3600
"""Each feed starts as if it had been observed for this many seconds, with a quarter of a change (PRIOR_CHANGES).

This prior is a rate of one change in six hours. One in five of the feeds surveyed in May 2026 changes more often.
PRIOR_EXPOSURE is short, so that a few observed changes outweigh the prior.
"""

MEMORY: Seconds = 30 * 86_400
"""The weight of an observation falls to 1/e in this many seconds: a month, to average over weekdays and weekends."""


def changes_per_second(instants: Iterable[Instant], now: Instant, *, since: Instant | None = None) -> float:
    """Return the expected number of changes per second. `instants` are the dates of items, or of observed changes.

    Observation begins at `since`, the instant of the feed's first fetch. If `since` is None or later than the oldest
    change, observation begins at the oldest change. This change is then not counted.
    """
    past = sorted({instant for instant in instants if instant <= now})
    begin = min([*past[:1], now if since is None else min(since, now)])
    observed = past[1:] if past and past[0] == begin else past
    changes = sum(math.exp((instant - now) / MEMORY) for instant in observed)
    exposure = -MEMORY * math.expm1((begin - now) / MEMORY)
    return (PRIOR_CHANGES + changes) / (PRIOR_EXPOSURE + exposure)


def expected_staleness(per_second: float, age: Seconds) -> Seconds:
    """Return the expected staleness, in seconds, of a copy that was fetched `age` seconds ago.

    The staleness is the time since the first change that the copy lacks. `per_second` is the feed's rate of changes.

    With a rate of r changes per second, the time t from the copy to the first change has the density r exp(-r t). The
    mean of max(0, age - t) is therefore age - (1 - exp(-r age)) / r.
    """
    if age <= 0:
        return 0.0
    expected = per_second * age
    if expected < 1e-4:
        return expected * age / 2  # the difference below would consist of rounding errors
    return age + math.expm1(-expected) / per_second


def age_for(per_second: float, staleness: Seconds) -> Seconds:
    """Return the age in seconds at which the expected staleness of a copy reaches `staleness` seconds. `per_second`,
    the feed's rate of changes, must be greater than 0."""
    if staleness <= 0:
        return 0.0
    # Newton's method for an increasing, convex function converges monotonically from above. The function is above its
    # asymptote age - 1 / r, which gives the first bound, and below r age^2 / 2.
    age = staleness + 1 / per_second
    for _ in range(60):
        slope = -math.expm1(-per_second * age)
        step = (expected_staleness(per_second, age) - staleness) / slope
        age -= step
        if step < 1e-6 * age:
            break
    return age
