"""What is believed of a fetcher's claim to so many subscribers.

Claims are words: anybody can send `1000000 subscribers`. So each is capped, and one that has grown too fast, or is very
large from the start, counts only when it is made again an hour after it was made first. Meanwhile the last one that
was believed stands. Growth is reckoned from what stood an hour ago, since a claim could else climb by small jumps
within a minute.

A fetcher comes from several machines that have not all heard the same number, so what counts is the largest
claim that is current, that is, believed and made within the window, never the sum.
"""

from dataclasses import dataclass, replace

from feedproxy.clock import Instant, Seconds

CONFIRMATION: Seconds = 3600
"""How long a sudden claim waits to be believed."""

FIRST_MAX = 10_000
"""Subscribers that a fetcher's first claim may name to be believed at once. Few feeds have more at one service.
A larger claim counts when it is made again an hour later, as a sudden jump does."""

PEAKS_MAX = 8
"""Claims remembered of one fetcher: a falling number leaves a trail, of which the middle matters least."""


@dataclass(frozen=True, slots=True)
class ClaimState:
    """What one fetcher has said of one feed.

    `peaks` are believed claims and when they were last made, each smaller and later than the one before: only
    such can become the largest current one. `anchor` is what stood at most an hour ago, and since when it is
    the anchor. `held` is a claim not yet believed, and when it was first made. `times` counts what was heard.
    """

    peaks: tuple[tuple[int, Instant], ...]
    anchor: tuple[int, Instant]
    held: tuple[int, Instant] | None
    last: Instant
    times: int


def current_claim(belief: ClaimState, now: Instant, window: Seconds) -> int:
    """The largest believed claim made less than `window` ago; 0 where there is none."""
    return next((count for count, made in belief.peaks if now - made < window), 0)


def clamp_times(belief: ClaimState, now: Instant) -> ClaimState:
    """The belief without instants of a clock that was ahead: they are now."""
    return replace(
        belief,
        peaks=tuple((count, min(made, now)) for count, made in belief.peaks),
        anchor=(belief.anchor[0], min(belief.anchor[1], now)),
        held=(belief.held[0], min(belief.held[1], now)) if belief.held else None,
        last=min(belief.last, now),
    )


def unconfirmed_claim(belief: ClaimState, now: Instant, window: Seconds) -> int | None:
    """The claim that waits to be believed, if there is one."""
    return belief.held[0] if belief.held and now - belief.held[1] < window else None


def update_claim(belief: ClaimState | None, count: int, now: Instant, *, window: Seconds, jump: float) -> ClaimState:
    """What is believed once this claim has been made. `jump` is the growth that is too fast; 0 believes
    everything."""
    if belief is None or now - belief.last >= window:
        times = 1 if belief is None else belief.times + 1
        if jump and count > FIRST_MAX:
            return ClaimState(((1, now),), (0, now), (count, now), now, times)
        return ClaimState(((count, now),), (count, now), None, now, times)
    standing = current_claim(belief, now, window)
    anchor = belief.anchor if now - belief.anchor[1] < CONFIRMATION else (standing, now)
    heard = replace(belief, anchor=anchor, last=now, times=belief.times + 1)
    if not jump or count <= (jump * anchor[0] or FIRST_MAX):
        return replace(heard, peaks=_with_peak(belief.peaks, count, now, window))
    # Somebody has asked for this fetcher, so what it is believed to have is current.
    heard = replace(heard, peaks=_with_peak(belief.peaks, standing, now, window))
    held = belief.held
    if held is None or now - held[1] >= window or count > jump * held[0]:
        return replace(heard, held=(count, now))
    if now - held[1] < CONFIRMATION:
        return heard
    return replace(heard, peaks=_with_peak(heard.peaks, count, now, window), anchor=(count, now), held=None)


def _with_peak(
    peaks: tuple[tuple[int, Instant], ...], count: int, now: Instant, window: Seconds
) -> tuple[tuple[int, Instant], ...]:
    larger = [peak for peak in peaks if peak[0] > count and now - peak[1] < window]
    return (*larger[: PEAKS_MAX - 1], (count, now))
