"""Bar charts over time: the heights of the columns, and the labels. web/chart.html draws them as SVG."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from feedproxy.clock import DAY, HOUR, Instant, Seconds
from feedproxy.telemetry.traffic_history import NO_TRAFFIC, History, TrafficCounts
from feedproxy.web.display_formats import number, size

VISIBLE_HEIGHT = 0.8
"""Minimum height of a visible part of a column, in percent of the height of the chart. A part of zero is not
visible."""


class Span(Struct, frozen=True):
    """A period that a chart can show: the last `count` hours or days.

    `unit` is the duration of an hour or day in seconds. A column shows `units_per_column` hours or days, and is called
    `column_name`. `name` is the period's name in the query, and `label` its name on the page.
    """

    name: str
    label: str
    unit: Seconds
    count: int
    units_per_column: int = 1
    column_name: str = ""


SPANS = (
    Span("day", "24 hours", HOUR, 24, column_name="hour"),
    Span("month", "30 days", DAY, 30, column_name="day"),
    Span("year", "a year", DAY, 371, 7, column_name="week"),
)


class TrafficPeriod(Struct, frozen=True):
    """The traffic in the period that one column shows."""

    at: Instant
    label: str
    tally: TrafficCounts


class Column(Struct, frozen=True):
    """The column of one period: requests or bytes from the store at the bottom, and those from origins above.

    Heights are in percent of the height of the chart. `text` states the period and its numbers.
    """

    store_height: float
    origin_height: float
    text: str


class Chart(Struct, frozen=True):
    """A chart. `top` and `middle` label the lines of the scale. `first` and `last` label the outer columns. `text`
    takes the place of the drawing for screen readers."""

    columns: tuple[Column, ...]
    top: str
    middle: str
    first: str
    last: str
    text: str


def find_span(name: str) -> Span:
    """Return the span with this name, or 30 days for an unknown name."""
    return next((span for span in SPANS if span.name == name), SPANS[1])


def periods_of_span(history: History, span: Span, now: Instant) -> list[TrafficPeriod]:
    """Return the traffic for each column of a span, in order of time. The last period is the current one."""
    units, count = list(history.last(span.unit, span.count, now)), span.units_per_column
    grouped = [units[start : start + count] for start in range(0, len(units), count)]
    return [
        TrafficPeriod(group[0][0], _label(group[0][0], span), sum((tally for _, tally in group), NO_TRAFFIC))
        for group in grouped
    ]


def requests_chart(periods: Sequence[TrafficPeriod], span: Span) -> Chart:
    """Return the chart of requests. The lower part of a column shows the requests that the store answered, the upper
    part those that needed an origin."""

    def parts(tally: TrafficCounts) -> tuple[int, int]:
        return tally.hits, tally.requests - tally.hits

    def describe(tally: TrafficCounts) -> str:
        return f"{number(tally.requests)} requests, {number(tally.hits)} from the store"

    return _chart(periods, span, parts, describe, number)


def traffic_chart(periods: Sequence[TrafficPeriod], span: Span) -> Chart:
    """Return the chart of bytes sent to clients. The lower part of a column shows the bytes from the
    store, the upper part those from origins."""

    def parts(tally: TrafficCounts) -> tuple[int, int]:
        return tally.bytes_spared, tally.received

    def describe(tally: TrafficCounts) -> str:
        return f"{size(tally.sent)} to readers, {size(tally.received)} from origins"

    return _chart(periods, span, parts, describe, size)


def _chart(
    periods: Sequence[TrafficPeriod],
    span: Span,
    parts: Callable[[TrafficCounts], tuple[int, int]],
    describe: Callable[[TrafficCounts], str],
    format_value: Callable[[float], str],
) -> Chart:
    top = _round_number(max(sum(parts(period.tally)) for period in periods))
    columns = []
    for period in periods:
        store, origin = (max(VISIBLE_HEIGHT, 100 * count / top) if count else 0.0 for count in parts(period.tally))
        columns.append(Column(store, origin, f"{period.label}: {describe(period.tally)}"))
    total = sum((period.tally for period in periods), NO_TRAFFIC)
    busiest = max(periods, key=lambda period: sum(parts(period.tally)))
    text = f"Columns for the last {span.label}, one for each {span.column_name}: {describe(total)} in all"
    if sum(parts(total)):
        at = "at" if span.unit == HOUR else "on"
        text += f"; most {at} {busiest.label}: {describe(busiest.tally)}"
    return Chart(
        tuple(columns),
        format_value(top),
        format_value(top / 2),
        periods[0].label,
        periods[-1].label,
        f"{text}.",
    )


def _label(at: Instant, span: Span) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    if span.unit == HOUR:
        return f"{moment:%H:%M}"
    return f"{moment.day} {moment:%b}" if span.units_per_column == 1 else f"week of {moment.day} {moment:%b}"


def _round_number(largest: float) -> float:
    """Return the top of the scale: the smallest round number that is at least `largest` and at least 2. Round numbers
    are 1, 2, 4, 6 or 8 times a power of ten."""
    if largest <= 2:
        return 2.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(factor * power for factor in (1, 2, 4, 6, 8, 10) if factor * power >= largest)
