"""Change rate: the estimate of how often a feed's content changes, from its observed changes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.feed.change_rate import (
    PRIOR_CHANGES,
    PRIOR_EXPOSURE,
    ChangeRate,
    age_for,
    expected_staleness,
    from_changes,
    load,
)

HOUR, DAY = 3600.0, 86_400.0
NOW = 1_795_176_000.0
RATES = st.floats(min_value=1e-9, max_value=1.0)
AGES = st.floats(min_value=0.0, max_value=90 * DAY)


def test_change_rate_without_history_is_that_of_the_prior() -> None:
    assert from_changes((), NOW).per_second == pytest.approx(PRIOR_CHANGES / PRIOR_EXPOSURE)


@pytest.mark.parametrize("gap", [600.0, HOUR, 5 * HOUR, 2 * DAY])
def test_change_rate_follows_regular_changes(gap: float) -> None:
    rate = from_changes((NOW - number * gap for number in range(32)), NOW)
    assert rate.usual_gap == pytest.approx(gap, rel=0.35)


def test_change_rate_falls_while_the_feed_is_quiet() -> None:
    lively = from_changes((NOW - number * HOUR for number in range(32)), NOW)
    assert lively.observe(0, NOW + 30 * DAY).per_second < lively.per_second / 10


def test_change_rate_rises_when_the_feed_becomes_livelier() -> None:
    rate = from_changes((NOW - number * 30 * DAY for number in range(12)), NOW)
    before = rate.usual_gap
    for hour in range(1, 25):
        rate = rate.observe(1, NOW + hour * HOUR)
    assert rate.usual_gap < before / 5


def test_change_rate_ignores_dates_in_the_future() -> None:
    assert from_changes((NOW - DAY, NOW + DAY), NOW) == from_changes((NOW - DAY,), NOW)


def test_change_rate_observed_in_steps_equals_one_observed_at_once() -> None:
    rate = from_changes((NOW - DAY, NOW), NOW)
    steps = rate
    for minute in range(1, 61):
        steps = steps.observe(0, NOW + 60 * minute)
    assert steps.per_second == pytest.approx(rate.observe(0, NOW + HOUR).per_second)


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
    sooner = from_changes(changes, NOW + quiet, since=since)
    later = from_changes(changes, NOW + quiet + more, since=since)
    if ages or since is not None:
        assert later.per_second <= sooner.per_second * (1 + 1e-9)


@given(st.lists(st.floats(min_value=0, max_value=400 * DAY), min_size=1, max_size=20))
def test_change_rate_from_a_history_equals_the_one_observed(ages: list[float]) -> None:
    changes = sorted({NOW - age for age in ages})
    rate = ChangeRate(at=changes[0])
    for change in changes[1:]:
        rate = rate.observe(1, change)
    assert from_changes(changes, NOW).per_second == pytest.approx(rate.observe(0, NOW).per_second, rel=1e-6)


def test_change_rate_counts_quiet_from_the_first_sight() -> None:
    assert from_changes((), NOW, since=NOW - 10 * DAY).per_second < from_changes((), NOW).per_second / 20
    assert from_changes((NOW - DAY,), NOW, since=NOW - 10 * DAY).changes > 0.9


@given(st.lists(st.floats(min_value=0, max_value=400 * DAY), max_size=64))
def test_change_rate_is_positive_and_survives_being_written(ages: list[float]) -> None:
    rate = from_changes((NOW - age for age in ages), NOW)
    assert 0 < rate.per_second < math.inf
    assert load(rate.dump()) == rate


@pytest.mark.parametrize("data", [b"", b"\x00" * 23, ChangeRate(math.nan, 0, 0).dump(), ChangeRate(-1, 0, 0).dump()])
def test_change_rate_rejects_damaged_bytes(data: bytes) -> None:
    with pytest.raises(ValueError, match="change rate"):
        load(data)


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
