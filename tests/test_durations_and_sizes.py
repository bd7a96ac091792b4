"""Durations and sizes with units, as in the configuration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.durations_and_sizes import Unit, exact_span, format_quantity, parse, span


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("90", "s", 90),
        ("30m", "s", 1800),
        ("1h30m", "s", 5400),
        ("1h 30min", "s", 5400),
        ("2D", "s", 172_800),
        ("1w", "s", 604_800),
        ("2000ms", "s", 2),
        ("250", "ms", 250),
        ("1s", "ms", 1000),
        ("4GiB", "B", 2**32),
        ("4 GB", "B", 4_000_000_000),
        ("64k", "B", 65_536),
        ("10MB", "B", 10_000_000),
        ("1.5MiB", "B", 1_572_864),
        ("0", "B", 0),
    ],
)
def test_quantity_is_parsed_in_the_options_unit(text: str, unit: Unit, number: int) -> None:
    assert parse(text, unit) == number


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("soon", "s"),
        ("", "s"),
        ("-3", "s"),
        ("1e3", "s"),
        ("1.5h", "s"),
        ("500ms", "s"),
        ("30m1h", "s"),
        ("1h1h", "s"),
        ("5 parsec", "s"),
        ("4GiB", "s"),
        ("30m", ""),
        ("1.5", "B"),
        ("4i", "B"),
        ("4GiBs", "B"),
    ],
)
def test_invalid_quantity_is_refused(text: str, unit: Unit) -> None:
    assert parse(text, unit) is None


@given(number=st.integers(0, 10**15), unit=st.sampled_from(["s", "ms", "B"]))
def test_displayed_quantity_parses_to_the_same_number(number: int, unit: Unit) -> None:
    assert parse(format_quantity(number, unit), unit) == number


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"), (59, "59 s"), (60, "1 min"), (90, "1 min 30 s"), (599, "9 min 59 s"),
        (2100, "35 min"), (2101, "35 min"),
        (3600, "1 h"), (3900, "1 h 5 min"), (86_400, "24 h"), (172_800, "2 days"), (180_000, "2 days 2 h"),
        (-5, "0 s"), (59.6, "1 min"), (1799.9, "30 min"),
    ],
)  # fmt: skip
def test_description_of_duration_uses_common_units(seconds: float, words: str) -> None:
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"), (0.95, "0 s"), (59.6, "59 s"), (1790, "29 min 50 s"), (1800, "30 min"), (3620, "1 h 20 s"),
        (86_400, "24 h"), (172_799, "47 h 59 min 59 s"), (172_800, "2 days"), (173_101, "2 days 5 min 1 s"),
    ],
)  # fmt: skip
def test_exact_description_of_duration_never_reaches_the_next_second(seconds: float, words: str) -> None:
    assert exact_span(seconds) == words
