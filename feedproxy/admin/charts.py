"""Columns over time, as geometry: the page draws them as SVG, and has the same numbers as a table.

The picture is stretched to whatever width there is, so nothing in it is text or has a line's width: words stand
around it in HTML, where they keep their size on a phone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from feedproxy.clock import Instant, Seconds
from feedproxy.telemetry.history import DAY, HOUR, NO_TRAFFIC, History, TrafficCounts
from feedproxy.web.templates import number, size

HEIGHT = 100
"""Of the picture, in its own units."""
STEP, GAP = 10.0, 2.0
"""Width of a column with the gap beside it, and of the gap."""

KINDS = ("store", "origin")
"""Parts of a column from the ground up: what the store did, and what origins had to."""


@dataclass(frozen=True, slots=True)
class Span:
    """A choice of how far back to look."""

    name: str
    words: str
    unit: Seconds
    count: int
    each: int = 1
    """Units that a column sums up."""
    per: str = ""


SPANS = (
    Span("day", "24 hours", HOUR, 24, per="hour"),
    Span("month", "30 days", DAY, 30, per="day"),
    Span("year", "a year", DAY, 371, 7, per="week"),
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A stretch of time and what happened in it."""

    at: Instant
    label: str
    tally: TrafficCounts


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a column."""

    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    """One slot: its parts from the ground up, and what it says."""

    x: float
    boxes: tuple[Box, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Chart:
    """All that is drawn. `top` and `middle` are what the lines of the scale stand for."""

    width: float
    columns: tuple[Column, ...]
    top: str
    middle: str
    first: str
    last: str
    words: str


def find_span(name: str) -> Span:
    """The span of this name; 30 days for any other."""
    return next((each for each in SPANS if each.name == name), SPANS[1])


def make_slots(book: History, span: Span, now: Instant) -> list[Slot]:
    """What is shown, the current one at the end."""
    found = list(book.last(span.unit, span.count, now))
    grouped = [found[at : at + span.each] for at in range(0, len(found), span.each)]
    return [
        Slot(group[0][0], _label(group[0][0], span), sum((one for _, one in group), NO_TRAFFIC)) for group in grouped
    ]


def requests_chart(shown: Sequence[Slot], span: Span) -> Chart:
    """Readers' requests: those that the store answered below, those that it did not above."""

    def parts(tally: TrafficCounts) -> tuple[int, int]:
        return tally.hits, tally.requests - tally.hits

    def words(tally: TrafficCounts) -> str:
        return f"{number(tally.requests)} requests, {number(tally.hits)} from the store"

    return _chart(shown, span, parts, words, number)


def traffic_chart(shown: Sequence[Slot], span: Span) -> Chart:
    """Bytes to readers: those that were spared the origins below, those that they sent above."""

    def parts(tally: TrafficCounts) -> tuple[int, int]:
        return tally.bytes_spared, tally.received

    def words(tally: TrafficCounts) -> str:
        return f"{size(tally.sent)} to readers, {size(tally.received)} from origins"

    return _chart(shown, span, parts, words, size)


def _chart(
    shown: Sequence[Slot],
    span: Span,
    parts: Callable[[TrafficCounts], tuple[int, int]],
    words: Callable[[TrafficCounts], str],
    written: Callable[[float], str],
) -> Chart:
    top = _round_number(max((sum(parts(each.tally)) for each in shown), default=0))
    columns = []
    for at, slot in enumerate(shown):
        x, ground, boxes = at * STEP, float(HEIGHT), []
        for kind, count in zip(KINDS, parts(slot.tally), strict=True):
            # What is not nothing can be seen.
            height = round(max(0.8, HEIGHT * count / top), 2) if count else 0.0
            ground = round(ground - height, 2)
            if height:
                boxes.append(Box(kind, x + GAP / 2, ground, STEP - GAP, height))
        columns.append(Column(x, tuple(boxes), f"{slot.label}: {words(slot.tally)}"))
    total = sum((each.tally for each in shown), NO_TRAFFIC)
    busiest = max(shown, key=lambda each: sum(parts(each.tally)))
    told = f"Columns for the last {span.words}, one for each {span.per}: {words(total)} in all"
    if sum(parts(total)):
        told += (
            f"; most, {words(busiest.tally)}, at {busiest.label}"
            if span.unit == HOUR
            else (f"; most on {busiest.label}: {words(busiest.tally)}")
        )
    return Chart(
        STEP * len(shown), tuple(columns), written(top), written(top / 2), shown[0].label, shown[-1].label, f"{told}."
    )


def _label(at: Instant, span: Span) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    if span.unit == HOUR:
        return f"{moment:%H:%M}"
    return f"{moment.day} {moment:%b}" if span.each == 1 else f"week of {moment.day} {moment:%b}"


def _round_number(most: float) -> float:
    """The least of 1, 2, 4, 6, 8 times a power of ten that is no less, and that has a half one can read."""
    if most <= 2:
        return 2.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(each * power for each in (1, 2, 4, 6, 8, 10) if each * power >= most)
