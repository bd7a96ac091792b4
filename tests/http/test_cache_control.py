"""Cache-Control: lenient in form, strict in meaning (RFC 9111, section 5.2; RFC 9213)."""

import math
from typing import Any

import pytest

from feedproxy.http.cache_control import CacheControl, parse_targeted
from feedproxy.http.message import Fields


def read(*lines: str) -> CacheControl:
    return CacheControl.from_fields(Fields(("Cache-Control", line) for line in lines))


def test_directives_of_all_lines_are_combined_in_any_case() -> None:
    control = read("Public, MAX-AGE=60", "s-maxage=30 , must-revalidate, x-own=1")

    assert control == CacheControl(public=True, max_age=60, s_maxage=30, must_revalidate=True)


@pytest.mark.parametrize(
    ("directive", "attribute"),
    [
        ("no-store", "no_store"),
        ("no-cache", "no_cache"),
        ("private", "private"),
        ("public", "public"),
        ("must-revalidate", "must_revalidate"),
        ("proxy-revalidate", "proxy_revalidate"),
        ("must-understand", "must_understand"),
        ("no-transform", "no_transform"),
        ("only-if-cached", "only_if_cached"),
    ],
)
def test_directive_without_argument_is_parsed(directive: str, attribute: str) -> None:
    said: dict[str, Any] = {attribute: True}
    assert read(directive) == CacheControl(**said)


@pytest.mark.parametrize(
    ("directive", "attribute"),
    [
        ("max-age", "max_age"),
        ("s-maxage", "s_maxage"),
        ("stale-while-revalidate", "stale_while_revalidate"),
        ("stale-if-error", "stale_if_error"),
        ("min-fresh", "min_fresh"),
        ("max-stale", "max_stale"),
    ],
)
def test_cache_control_directive_with_duration_is_parsed(directive: str, attribute: str) -> None:
    said: dict[str, Any] = {attribute: 12.0}
    assert read(f"{directive}=12") == CacheControl(**said)


@pytest.mark.parametrize("separated", ["max-age=60; no-store", "no-store max-age=60", "max-age=60,,no-store,"])
def test_directives_are_separated_by_semicolon_space_or_commas(separated: str) -> None:
    assert read(separated) == CacheControl(max_age=60, no_store=True)


def test_directive_after_unclosed_quotation_mark_is_parsed() -> None:
    assert read('max-age="60, no-store') == CacheControl(max_age=0, no_store=True)


def test_directive_within_a_quoted_string_is_ignored() -> None:
    assert read('extension="max-age=3600, no-store", max-age=1').max_age == 1
    assert not read('extension="max-age=3600, no-store", max-age=1').no_store


@pytest.mark.parametrize(
    ("argument", "seconds"),
    [
        ("60", 60),
        ('"60"', 60),
        ("003600", 3600),
        ("2147483647", 2147483647),
        ("2147483648", 2147483648),
        ("99999999999", 2147483648),
        ("9" * 400, 2147483648),
        ("9" * 4000, 2147483648),
    ],
)
def test_duration_is_parsed_and_limited_to_2_to_the_31(argument: str, seconds: int) -> None:
    assert read(f"max-age={argument}").max_age == seconds


@pytest.mark.parametrize("argument", ["=", "", "=-1", "=a60", "=60a", "=60.0", "='60'", "= 60", " =60", "=٦"])
def test_duration_that_is_invalid_is_zero(argument: str) -> None:
    assert read(f"max-age{argument}").max_age == 0


@pytest.mark.parametrize("value", ["max-age=1800, max-age=1", "max-age=1, max-age=1800"])
def test_duration_of_conflicting_duplicates_is_the_most_restrictive(value: str) -> None:
    assert read(value).max_age == 1
    assert read(*value.split(", ")).max_age == 1


def test_duration_of_duplicate_min_fresh_is_the_larger() -> None:
    assert read("min-fresh=5, min-fresh=50").min_fresh == 50


def test_duration_of_max_stale_without_argument_is_unlimited() -> None:
    assert read("max-stale").max_stale == math.inf
    assert read("max-stale, max-stale=5").max_stale == 5


def test_directive_with_field_names_applies_to_these_fields() -> None:
    control = read('no-cache="Set-Cookie, X-A", private=x-b, private="X-C"')

    assert control.no_cache_fields == {"set-cookie", "x-a"}
    assert control.private_fields == {"x-b", "x-c"}
    assert not control.no_cache
    assert not control.private


@pytest.mark.parametrize("argument", ['=""', "=", '=", "', '="a b"', '="a'])
def test_directive_with_invalid_field_names_applies_without_qualification(argument: str) -> None:
    assert read(f"private{argument}").private
    assert read(f"no-cache{argument}").no_cache


def test_directives_of_absent_field_are_empty() -> None:
    assert read() == CacheControl()


def test_pragma_applies_only_to_requests_without_cache_control() -> None:
    assert CacheControl.from_request(Fields([("Pragma", "No-Cache")])).no_cache
    assert not CacheControl.from_request(Fields([("Pragma", "x=no-cache")])).no_cache
    assert not CacheControl.from_request(Fields([("Pragma", "no-cache"), ("Cache-Control", "max-age=5")])).no_cache
    assert not CacheControl.from_fields(Fields([("Pragma", "no-cache")])).no_cache


def targeted(*lines: str) -> CacheControl | None:
    return parse_targeted(Fields(("CDN-Cache-Control", line) for line in lines), "cdn-cache-control")


def test_targeted_field_is_a_dictionary_whose_parameters_are_ignored() -> None:
    assert targeted('max-age=60;x=1, no-cache="a"', "private; y, foo=(1 2), no-store=?0") == CacheControl(
        max_age=60, no_cache_fields=frozenset({"a"}), private=True
    )


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "max-age=60, &&&",
        "MaX-aGe=60",
        "max-age =60",
        "max-age= 60",
        "max-age=60,",
        "no-store no-cache",
    ],
)
def test_targeted_field_that_is_empty_or_invalid_is_ignored(value: str) -> None:
    assert targeted(value) is None
    assert targeted() is None


@pytest.mark.parametrize(
    "value", ['max-age="60"', "max-age=-60", "max-age=60.5", "max-age=sixty", "max-age", "max-age=(60)"]
)
def test_targeted_field_duration_of_another_type_is_zero(value: str) -> None:
    assert targeted(value) == CacheControl(max_age=0)
