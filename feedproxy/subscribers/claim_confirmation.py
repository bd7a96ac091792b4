"""Confirmation of the subscriber numbers that fetchers claim (docs/explanation/subscribers.md).

The growth of a claim is measured from the claim of an hour ago, so that many small steps do not evade the confirmation.
All claims for a feed together may grow only as fast as one claim, because a client can invent fetchers
(`room_for_claims`). Of a fetcher's confirmed claims in the last `window` seconds, the largest counts.
"""

import math
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.clock import Instant, Seconds

CONFIRMATION: Seconds = 3600
"""A claim that has increased suddenly is confirmed if it is repeated at least this many seconds later."""

FIRST_MAX = 10_000
"""A fetcher's first claim counts at once if it names at most this many subscribers, and at most `room`
(`update_claim`)."""

PEAKS_MAX = 8
"""At most this many confirmed claims are stored for one fetcher (`ClaimState.peaks`)."""


class ClaimState(Struct, frozen=True):
    """The claims of one fetcher for one feed.

    - `peaks`: confirmed claims with the instants of their last requests, the earliest first. The largest claim counts.
      Therefore an earlier claim is kept only if it is larger than all later claims.
    - `anchor`: the claim from which growth is measured, and its instant.
    - `unconfirmed`: the claim that waits for confirmation, and the instant of its first request.
    - `last`: the instant of the last request with a claim.
    - `times`: the number of requests with a claim.
    """

    peaks: tuple[tuple[int, Instant], ...]
    anchor: tuple[int, Instant]
    unconfirmed: tuple[int, Instant] | None
    last: Instant
    times: int


def current_claim(claim_state: ClaimState, now: Instant, window: Seconds) -> int:
    """Return the largest confirmed claim of the last `window` seconds, or 0 if there is none."""
    return next((count for count, at in claim_state.peaks if now - at < window), 0)


def clamp_times(claim_state: ClaimState, now: Instant) -> ClaimState:
    """Return the state with future instants replaced by `now`. Such instants occur after the clock was set back."""
    return replace(
        claim_state,
        peaks=tuple((count, min(at, now)) for count, at in claim_state.peaks),
        anchor=(claim_state.anchor[0], min(claim_state.anchor[1], now)),
        unconfirmed=(claim_state.unconfirmed[0], min(claim_state.unconfirmed[1], now))
        if claim_state.unconfirmed
        else None,
        last=min(claim_state.last, now),
    )


def unconfirmed_claim(claim_state: ClaimState, now: Instant, window: Seconds) -> int | None:
    """Return the claim that waits for confirmation, or None if no such claim was made in the last `window` seconds."""
    return claim_state.unconfirmed[0] if claim_state.unconfirmed and now - claim_state.unconfirmed[1] < window else None


def sum_of_claims(claims: Iterable[tuple[str, int]], claim_max: int) -> int:
    """Return the sum of the claims for a feed, given as pairs of a fetcher and a number. All claims of one fetcher
    together count at most `claim_max`."""
    by_fetcher: Counter[str] = Counter()
    for fetcher, count in claims:
        by_fetcher[fetcher] += count
    return sum(min(count, claim_max) for count in by_fetcher.values())


def room_for_claims(total: int, anchor: int, jump: float) -> float:
    """Return the number by which all claims of a feed together may grow without confirmation. `total` is the present
    sum of the claims, and `anchor` the sum an hour ago. `jump` is explained in `update_claim`."""
    return max(FIRST_MAX, jump * anchor) - total if jump else math.inf


def update_claim(
    claim_state: ClaimState | None,
    count: int,
    now: Instant,
    *,
    window: Seconds,
    jump: float,
    room: float = math.inf,
) -> ClaimState:
    """Return the state after another claim of `count` subscribers. A claim above a limit must be repeated before it
    counts:

    * A claim may be at most `jump` times the claim of an hour ago.
    * It may exceed the confirmed claim of the last `window` seconds by at most `room` subscribers.
    * A first claim may be at most FIRST_MAX and at most `room`.

    If `jump` is 0, no limit applies.
    """
    if claim_state is None or now - claim_state.last >= window:
        times = 1 if claim_state is None else claim_state.times + 1
        if jump and count > min(FIRST_MAX, room):
            return ClaimState(((1, now),), (0, now), (count, now), now, times)
        return ClaimState(((count, now),), (count, now), None, now, times)
    standing = current_claim(claim_state, now, window)
    anchor = claim_state.anchor if now - claim_state.anchor[1] < CONFIRMATION else (standing, now)
    updated = replace(claim_state, anchor=anchor, last=now, times=claim_state.times + 1)
    if not jump or count <= max(standing, min(jump * anchor[0] or FIRST_MAX, standing + room)):
        return replace(updated, peaks=_with_peak(claim_state.peaks, count, now, window))
    # This request of the fetcher also renews its confirmed claim.
    updated = replace(updated, peaks=_with_peak(claim_state.peaks, standing, now, window))
    unconfirmed = claim_state.unconfirmed
    if unconfirmed is None or now - unconfirmed[1] >= window or count > jump * unconfirmed[0]:
        return replace(updated, unconfirmed=(count, now))
    if now - unconfirmed[1] < CONFIRMATION:
        return updated
    return replace(updated, peaks=_with_peak(updated.peaks, count, now, window), anchor=(count, now), unconfirmed=None)


def _with_peak(
    peaks: tuple[tuple[int, Instant], ...], count: int, now: Instant, window: Seconds
) -> tuple[tuple[int, Instant], ...]:
    larger = [peak for peak in peaks if peak[0] > count and now - peak[1] < window]
    return (*larger[: PEAKS_MAX - 1], (count, now))
