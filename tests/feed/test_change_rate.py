"""Change rate: the estimate of how often a feed's content changes, from its observed changes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.feed.change_rate import (
    PRIOR_CHANGES,
    PRIOR_EXPOSURE,
    age_for,
    changes_per_second,
    expected_staleness,
)

HOUR, DAY = 3600.0, 86_400.0
NOW = 1_795_176_000.0
RATES = st.floats(min_value=1e-9, max_value=1.0)
AGES = st.floats(min_value=0.0, max_value=90 * DAY)


def test_change_rate_without_history_is_that_of_the_prior() -> None:
    assert changes_per_second((), NOW) == pytest.approx(PRIOR_CHANGES / PRIOR_EXPOSURE)


@pytest.mark.parametrize("gap", [600.0, HOUR, 5 * HOUR, 2 * DAY])
def test_change_rate_follows_regular_changes(gap: float) -> None:
    rate = changes_per_second((NOW - number * gap for number in range(32)), NOW)
    assert 1 / rate == pytest.approx(gap, rel=0.35)


def test_change_rate_falls_while_the_feed_is_quiet() -> None:
    changes = [NOW - number * HOUR for number in range(32)]
    assert changes_per_second(changes, NOW + 30 * DAY) < changes_per_second(changes, NOW) / 10


def test_change_rate_rises_when_the_feed_becomes_livelier() -> None:
    quiet = [NOW - number * 30 * DAY for number in range(12)]
    lively = [NOW + hour * HOUR for hour in range(1, 25)]
    assert changes_per_second([*quiet, *lively], lively[-1]) > 5 * changes_per_second(quiet, NOW)


def test_change_rate_ignores_dates_in_the_future() -> None:
    assert changes_per_second((NOW - DAY, NOW + DAY), NOW) == changes_per_second((NOW - DAY,), NOW)


@given(
    st.lists(st.floats(min_value=0, max_value=400 * DAY), max_size=20),
    st.none() | AGES,
    st.floats(min_value=0, max_value=20 * DAY),
    st.floats(min_value=0, max_value=20 * DAY),
)
def test_change_rate_falls_the_longer_a_feed_is_quiet(
    ages: list[float], known: float | None, quiet: float, more: float
) -> None:
    changes, since = [NOW - age for age in ages], None if known is None else NOW - known
    sooner = changes_per_second(changes, NOW + quiet, since=since)
    later = changes_per_second(changes, NOW + quiet + more, since=since)
    if ages or since is not None:
        assert later <= sooner * (1 + 1e-9)


def test_change_rate_counts_quiet_from_the_first_sight() -> None:
    assert changes_per_second((), NOW, since=NOW - 10 * DAY) < changes_per_second((), NOW) / 20
    seen_before_the_change = changes_per_second((NOW - DAY,), NOW, since=NOW - 10 * DAY)
    assert seen_before_the_change > 4 * changes_per_second((), NOW, since=NOW - 10 * DAY)


@given(st.lists(st.floats(min_value=0, max_value=400 * DAY), max_size=64))
def test_change_rate_is_positive_and_finite(ages: list[float]) -> None:
    assert 0 < changes_per_second((NOW - age for age in ages), NOW) < math.inf


@given(RATES, AGES, AGES)
def test_expected_staleness_lies_between_zero_and_the_age_and_grows_with_it(
    rate: float, one: float, two: float
) -> None:
    sooner, later = sorted((one, two))
    assert 0 <= expected_staleness(rate, sooner) <= sooner
    assert expected_staleness(rate, sooner) <= expected_staleness(rate, later) * (1 + 1e-3) + 1e-6


@given(RATES, st.floats(min_value=1.0, max_value=30 * DAY))
def test_age_for_is_the_inverse_of_expected_staleness(rate: float, staleness: float) -> None:
    assert expected_staleness(rate, age_for(rate, staleness)) == pytest.approx(staleness, rel=1e-3)
