"""When a failed delivery is tried again, and for how long."""

from feedproxy.clock import DAY, Instant, Seconds

RETRY_DELAY_MIN: Seconds = 10
"""Delay before the first retry, in seconds. Each failure doubles the delay, up to RETRY_DELAY_MAX. A random fraction of
up to one half is subtracted from each delay."""

RETRY_DELAY_MAX: Seconds = 7_200
"""Longest delay between two retries, in seconds."""

RETRY_PERIOD: Seconds = DAY
"""A failing delivery is retried for this many seconds. "The publisher should keep retrying for a minimum of a 24 hour
period, with a minimum of 1 retry at the end of that period" (CNWS)."""


def next_try(
    tries: int, since: Instant, now: Instant, *, jitter: float, not_before: Instant | None = None
) -> Instant | None:
    """Return the instant of the next try after `tries` failures, or None after the last try.

    The last try is RETRY_PERIOD seconds after `since`. `jitter` is a random number in [0, 1): the value 0 halves the
    delay, and a value near 1 leaves it unchanged. `not_before` is the earliest instant that the receiver permits, or
    None if it states none. Only the last try can be earlier.
    """
    end = since + RETRY_PERIOD
    if now >= end:
        return None
    pause = min(RETRY_DELAY_MAX, RETRY_DELAY_MIN * 2.0 ** min(tries - 1, 16))
    # The jitter of up to a half separates deliveries that failed at the same time.
    planned = now + pause / 2 * (1 + jitter)
    return min(end, planned if not_before is None else max(planned, not_before))
