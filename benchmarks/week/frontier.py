"""Staleness at equal numbers of requests to the origin: tables and plot.

One table is for the feeds that state no lifetime, another for all feeds that HTTP permits a cache to store. Each system
is played with several settings. The peers store everything for a fixed lifetime. feedproxy is played with several
prices of a request (`polling`), with the feeds' hints and without them. A budget is the number of requests that nginx
makes with one of the lifetimes. The staleness of another system at this budget is interpolated linearly between its
settings. The oracle makes the fewest requests with which no poll is stale.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from benchmarks.week.history import History
from benchmarks.week.model import Feed, Poll
from benchmarks.week.play import STEP

type Figures = dict[str, Any]
type Point = tuple[float, float]
"""Requests to the origin, and mean staleness in seconds."""

LIFETIMES = (300, 900, 3600, 10_800, 21_600)
"""Seconds for which the peers store everything. The requests of nginx with each lifetime are a budget."""

PRICES = ("1min", "5min", "30min", "2h", "8h", "24h")
"""Values of `polling` with which feedproxy is played without the feeds' hints."""

PRICES_WITH_HINTS = ("5min", "2h")
"""Values of `polling` with which feedproxy is played with the feeds' hints, in addition to the default of 30
minutes.
"""

OURS, WITHOUT_HINTS = "feedproxy", "feedproxy without hints"

PEERS = ("nginx", "Varnish", "Squid")

WAITED_MAX = 0.01
"""Of the polls for which HTTP permits a copy, at most this fraction may wait for the origin."""

AIM = 0.45
"""Target at every budget: feedproxy's staleness as a fraction of the best peer's."""


def oracle(
    feeds: Sequence[Feed], histories: Sequence[History], polls: Sequence[Poll], counts: Callable[[Feed], bool]
) -> int:
    """Return the fewest requests with which no poll is stale: one before each poll that would be stale otherwise. Only
    feeds for which `counts` returns True count.
    """
    fetched: dict[int, int] = {}
    requests = 0
    for poll in polls:
        if counts(feeds[poll.feed]):
            revision = histories[poll.feed].revision((poll.at // STEP + 1) * STEP)
            if fetched.get(poll.feed) != revision:
                fetched[poll.feed] = revision
                requests += 1
    return requests


def of_silent(figures: Figures) -> Point:
    """Return the requests and the staleness of a run, for the feeds that state no lifetime."""
    return figures["origin_by_kind"]["silent"]["requests"], figures["silent_stale_mean"]


def of_kept(figures: Figures) -> Point:
    """Return the requests and the staleness of a run, for all feeds that HTTP permits a cache to store."""
    return figures["origin_requests"] - figures["origin_requests_withheld"], figures["kept_stale_mean"]


def curves(systems: Sequence[Figures], point: Callable[[Figures], Point]) -> dict[str, list[Point]]:
    """Return the points of each system, in order of requests."""
    found: dict[str, list[Point]] = {}
    for figures in systems:
        found.setdefault(figures["system"].split(",")[0], []).append(point(figures))
    return {name: sorted(points) for name, points in found.items()}


def staleness_at(points: Sequence[Point], requests: float) -> float | None:
    """Return the staleness at this number of requests, interpolated linearly between two played settings.

    If every setting makes more requests, return None. If every setting makes fewer, return the staleness of the setting
    with the most requests.
    """
    ordered = sorted(points)
    if not ordered or requests < ordered[0][0]:
        return None
    for (left, before), (right, after) in pairwise(ordered):
        if left <= requests <= right:
            return before + (after - before) * (requests - left) / max(1, right - left)
    return ordered[-1][1]


def table(systems: Sequence[Figures], oracle_requests: int, point: Callable[[Figures], Point]) -> str:
    """Return the table of budgets as Markdown.

    A setting of a peer counts only if at most WAITED_MAX of its polls waited: a cache that asks the origin at each poll
    has no staleness.
    """
    quick = [figures for figures in systems if figures["system"].startswith(OURS) or _waited(figures) <= WAITED_MAX]
    found = curves(quick, point)
    lines = [
        "| requests to the origin (nginx's lifetime) | best peer | feedproxy without hints | ÷ best peer "
        "| feedproxy with hints | ÷ best peer |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    names = {figures["system"]: point(figures) for figures in systems}
    for seconds in LIFETIMES:
        at = names.get(f"nginx, {seconds // 60} min")
        if at is None:
            continue
        peers = [(staleness_at(found[name], at[0]), name) for name in PEERS if name in found]
        best, name = min((staleness, name) for staleness, name in peers if staleness is not None)
        cells = []
        for ours in (staleness_at(found.get(each, []), at[0]) for each in (WITHOUT_HINTS, OURS)):
            cells += ["–", "–"] if ours is None else [f"{ours:,.0f} s", f"{ours / max(best, 1e-9):.2f}"]
        lines.append(f"| {at[0]:,} ({seconds // 60} min) | {best:,.0f} s ({name}) | {' | '.join(cells)} |")
    if oracle_requests:
        lines.append(f"| {oracle_requests:,} (oracle: no poll is stale) | | 0 s | | | |")
    return "\n".join(lines) + "\n"


def _waited(figures: Figures) -> float:
    return 1 - float(figures["not_waited_share_where_allowed"])


def settings(systems: Sequence[Figures]) -> str:
    """Return every setting that was played, as Markdown, in order of requests."""
    lines = [
        "| system and its setting | requests for feeds without hint or lifetime | their mean staleness "
        "| requests for all feeds that a cache may store | their mean staleness | polls that waited |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for figures in sorted(systems, key=of_silent):
        points = (of_silent(figures), of_kept(figures))
        cells = " | ".join(f"{requests:,.0f} | {staleness:,.0f} s" for requests, staleness in points)
        lines.append(f"| {figures['system']} | {cells} | {100 * _waited(figures):.2f} % |")
    return "\n".join(lines) + "\n"


# -- the plot

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 420, 70, 50, 40, 20
COLOURS = {WITHOUT_HINTS: "#c2410c", "nginx": "#15803d", "Varnish": "#1d4ed8", "Squid": "#7e22ce"}


def plot(title: str, systems: Sequence[Figures], oracle_requests: int) -> str:
    """Return the curves as SVG: requests across, mean staleness upwards, both logarithmic."""
    found = curves(systems, of_silent)
    points = [each for name in COLOURS for each in found.get(name, ())]
    across = _axis([requests for requests, _ in points] + [oracle_requests], LEFT, WIDTH - RIGHT)
    upwards = _axis([max(1.0, staleness) for _, staleness in points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{title}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{title}</text>',
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 10}" text-anchor="end">requests to the origin</text>',
        f'<text transform="translate(14 {TOP}) rotate(-90)" text-anchor="end">mean staleness of a poll</text>',
    ]
    for value, label in ((each, f"{each:,}") for each in _ticks(across.low, across.high)):
        x = across(value)
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e5e5e5"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>')
    for value in _ticks(upwards.low, upwards.high):
        y = upwards(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#e5e5e5"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,} s</text>')
    for number, (name, colour) in enumerate(COLOURS.items()):
        placed = [(across(requests), upwards(max(1.0, staleness))) for requests, staleness in found.get(name, ())]
        if placed:
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in placed]
            x, y = placed[0]
            beside = 15 if number % 2 else -6  # the curves of nginx and Varnish begin at the same place
            parts.append(f'<text x="{x + 7:.1f}" y="{y + beside:.1f}" fill="{colour}">{name.split()[0]}</text>')
    x = across(oracle_requests)
    parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#525252" stroke-dasharray="4 4"/>')
    parts.append(f'<text x="{x + 5:.1f}" y="{HEIGHT - BOTTOM - 6}" fill="#525252">oracle: 0 s</text>')
    return "\n".join([*parts, "</svg>\n"])


class _Axis:
    def __init__(self, low: float, high: float, place: Callable[[float], float]) -> None:
        self.low, self.high, self._place = low, high, place

    def __call__(self, value: float) -> float:
        return self._place(value)


def _axis(values: Sequence[float], start: float, end: float) -> _Axis:
    low, high = 0.8 * min(values), 1.25 * max(values)
    scale = (end - start) / (math.log(high) - math.log(low))
    return _Axis(low, high, lambda value: start + (math.log(value) - math.log(low)) * scale)


def _ticks(low: float, high: float) -> list[int]:
    values = [digit * 10**power for power in range(7) for digit in (1, 2, 5)]
    return [value for value in values if low <= value <= high]
