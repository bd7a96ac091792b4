"""HTTP-date: three forms are read, one is written (RFC 9110, section 5.6.7)."""

import pytest

from feedproxy.http.date import format_http_date, parse_http_date

NOVEMBER_1994 = 784111777.0
NOVEMBER_2026 = 1795176000.0


@pytest.mark.parametrize(
    "value",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "sun, 06 nov 1994 08:49:37 gmt",
        "  Sun, 06 Nov 1994 08:49:37 GMT\t",
        "Wed, 06 Nov 1994 08:49:37 GMT",  # the day's name is wrong, and decides nothing
    ],
)
def test_http_date_parser_accepts_three_forms_in_any_case(value: str) -> None:
    assert parse_http_date(value) == NOVEMBER_1994


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0",
        "-1",
        "now",
        "784111777",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 EST",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06-Nov-1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun 06 Nov 1994 08:49:37 GMT",
        "Sun,  06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08.49.37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 25:61:00 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, ٠٦ Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        "1994-11-06T08:49:37Z",
    ],
)
def test_http_date_parser_rejects_other_forms(value: str) -> None:
    assert parse_http_date(value) is None


def test_http_date_with_two_digit_year_is_at_most_50_years_ahead() -> None:
    assert parse_http_date("Friday, 20-Nov-76 11:59:59 GMT", NOVEMBER_2026) == parse_http_date(
        "Fri, 20 Nov 2076 11:59:59 GMT"
    )
    assert parse_http_date("Saturday, 20-Nov-76 12:00:01 GMT", NOVEMBER_2026) == parse_http_date(
        "Sat, 20 Nov 1976 12:00:01 GMT"
    )
    assert parse_http_date("Friday, 20-Nov-26 12:00:00 GMT", NOVEMBER_2026) == NOVEMBER_2026


def test_http_date_with_two_digit_year_uses_century_of_now() -> None:
    in_2090 = parse_http_date("Wed, 01 Jan 2090 00:00:00 GMT")
    assert in_2090 is not None
    assert parse_http_date("Sunday, 01-Jan-10 00:00:00 GMT", in_2090) == parse_http_date(
        "Wed, 01 Jan 2110 00:00:00 GMT"
    )


def test_http_date_with_two_digit_year_accepts_29_february_of_leap_year_only() -> None:
    assert parse_http_date("Tuesday, 29-Feb-00 00:00:00 GMT") == 951782400.0
    assert parse_http_date("Tuesday, 29-Feb-01 00:00:00 GMT") is None


def test_http_date_leap_second_equals_next_minute() -> None:
    assert parse_http_date("Sat, 31 Dec 2016 23:59:60 GMT") == parse_http_date("Sun, 01 Jan 2017 00:00:00 GMT")


def test_http_date_is_formatted_as_imf_fixdate_without_fraction() -> None:
    assert format_http_date(NOVEMBER_1994) == "Sun, 06 Nov 1994 08:49:37 GMT"
    assert format_http_date(NOVEMBER_1994 + 0.999) == "Sun, 06 Nov 1994 08:49:37 GMT"
    assert format_http_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT"
    assert format_http_date(-0.5) == "Wed, 31 Dec 1969 23:59:59 GMT"


def test_http_date_outside_calendar_is_not_formatted() -> None:
    with pytest.raises(OverflowError):
        format_http_date(1e15)
