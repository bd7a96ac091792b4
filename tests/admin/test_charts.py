"""Charts: heights, labels and text."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from feedproxy.admin.pages import charts
from feedproxy.clock import DAY
from feedproxy.telemetry.traffic_history import History, TrafficCounts
from tests.stages.admin import NOW


def test_month_chart_has_thirty_columns_the_current_one_last() -> None:
    history = History()
    history.add(TrafficCounts(requests=80, hits=60, sent=5000, received=1000), NOW)
    history.add(TrafficCounts(requests=40, hits=40), NOW - 2 * DAY)
    span = charts.find_span("month")
    periods = charts.periods_of_span(history, span, NOW)

    chart = charts.requests_chart(periods, span)

    assert len(chart.columns) == 30
    assert (chart.first, chart.last) == ("29 Apr", "28 May")
    assert (chart.top, chart.middle) == ("80", "40")
    assert (chart.columns[-1].store_height, chart.columns[-1].origin_height) == (75.0, 25.0)
    assert chart.columns[-1].text == "28 May: 80 requests, 60 from the store"
    assert (chart.columns[-2].store_height, chart.columns[-2].origin_height) == (0.0, 0.0)
    assert chart.text == (
        "Columns for the last 30 days, one for each day: 120 requests, 100 from the store in all; "
        "most on 28 May: 80 requests, 60 from the store."
    )
    assert charts.traffic_chart(periods, span).columns[-1].text == "28 May: 5.0 kB to readers, 1.0 kB from origins"


@pytest.mark.parametrize(("name", "columns", "first"), [("day", 24, "21:00"), ("year", 53, "week of 23 May")])
def test_chart_columns_are_hours_of_a_day_and_weeks_of_a_year(name: str, columns: int, first: str) -> None:
    span = charts.find_span(name)

    chart = charts.requests_chart(charts.periods_of_span(History(), span, NOW), span)

    assert len(chart.columns) == columns
    assert chart.first == first


def test_chart_of_an_unknown_span_shows_thirty_days() -> None:
    assert charts.find_span("nonsense").name == "month"


@given(some.lists(some.tuples(some.integers(0, 10**12), some.integers(0, 10**12)), min_size=1, max_size=30))
def test_chart_columns_stay_in_the_drawing_and_show_every_count(counts: list[tuple[int, int]]) -> None:
    periods = [charts.TrafficPeriod(0, "x", TrafficCounts(requests=hits + more, hits=hits)) for hits, more in counts]

    chart = charts.requests_chart(periods, charts.SPANS[0])

    for column, (hits, more) in zip(chart.columns, counts, strict=True):
        assert ((column.store_height > 0), (column.origin_height > 0)) == (hits > 0, more > 0)
        assert column.store_height + column.origin_height <= 101.7
