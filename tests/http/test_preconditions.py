"""Conditional requests (RFC 9110, section 13)."""

import pytest

from feedproxy.http.date import format_http_date
from feedproxy.http.etag import own_tag
from feedproxy.http.message import Fields
from feedproxy.http.preconditions import (
    SKEW,
    Outcome,
    evaluate,
    has_preconditions,
)

NOW = 1795176000.0
MODIFIED = NOW - 86400
TAGS = [own_tag("s", coding) for coding in ("identity", "gzip", "br")]


def ask(
    *lines: tuple[str, str],
    method: str = "GET",
    last_modified: float | None = MODIFIED,
    date: float | None = NOW - 60,
    earlier_versions: tuple[float, float] | None = None,
) -> Outcome:
    return evaluate(
        Fields(lines),
        method,
        tags=TAGS,
        own_base="s",
        last_modified=last_modified,
        date=date,
        now=NOW,
        earlier_versions=earlier_versions,
    )


def test_request_without_preconditions_proceeds() -> None:
    assert ask(("Accept", "*/*"), ("If-Range", '"s"')) == Outcome.PROCEED
    assert not has_preconditions(Fields([("Accept", "*/*"), ("If-Range", '"s"')]))


@pytest.mark.parametrize("name", ["If-Match", "if-none-match", "IF-MODIFIED-SINCE", "If-Unmodified-Since"])
def test_preconditions_are_found_in_any_case_of_letters(name: str) -> None:
    assert has_preconditions(Fields([("Accept", "*/*"), (name, "x")]))


@pytest.mark.parametrize(
    "value",
    [
        '"s"',
        'W/"s"',
        '"s-gzip"',
        '"x", "s-br"',
        "s",
        "'s'",
        'w/"s-gzip"',
        '"s-gzip-gzip"',
        '"s;gzip"',
        '"s-zstd"',
        "*",
    ],
)
def test_if_none_match_with_current_tag_of_any_coding_or_suffix_gets_304(value: str) -> None:
    assert ask(("If-None-Match", value)) == Outcome.NOT_MODIFIED
    assert ask(("if-none-match", value), method="HEAD") == Outcome.NOT_MODIFIED


@pytest.mark.parametrize("value", ['"t"', '"s2"', '"S"', "", '"', ",", '"-gzip"', '*, "t"'])
def test_if_none_match_with_another_tag_gets_200(value: str) -> None:
    assert ask(("If-None-Match", value)) == Outcome.PROCEED


def test_if_none_match_lines_are_combined() -> None:
    assert ask(("If-None-Match", '"a"'), ("If-None-Match", '"s"')) == Outcome.NOT_MODIFIED


def test_if_none_match_precedes_if_modified_since() -> None:
    since = ("If-Modified-Since", format_http_date(NOW - 30))

    assert ask(("If-None-Match", '"other"'), since) == Outcome.PROCEED
    assert ask(since, ("If-None-Match", '"s"')) == Outcome.NOT_MODIFIED


def test_if_none_match_fails_for_unsafe_method() -> None:
    assert ask(("If-None-Match", "*"), method="PUT") == Outcome.PRECONDITION_FAILED


@pytest.mark.parametrize("since", [MODIFIED, MODIFIED + 1, NOW])
def test_if_modified_since_of_unchanged_content_gets_304(since: float) -> None:
    assert ask(("If-Modified-Since", format_http_date(since))) == Outcome.NOT_MODIFIED


@pytest.mark.parametrize("value", [format_http_date(MODIFIED - 1), "0", "-1", "", "yesterday", "Thu, 19 Nov 2026"])
def test_if_modified_since_of_changed_content_or_with_invalid_date_gets_200(value: str) -> None:
    assert ask(("If-Modified-Since", value)) == Outcome.PROCEED


def test_if_modified_since_with_two_dates_is_ignored() -> None:
    since = ("If-Modified-Since", format_http_date(NOW))

    assert ask(since, since) == Outcome.PROCEED


def test_if_modified_since_in_future_is_ignored_unless_equal_to_last_modified() -> None:
    tomorrow = ("If-Modified-Since", format_http_date(NOW + 86400))

    assert ask(tomorrow) == Outcome.PROCEED
    assert ask(tomorrow, last_modified=NOW + 86400) == Outcome.NOT_MODIFIED


OTHERS = (MODIFIED, MODIFIED + 3600)


def test_if_modified_since_within_earlier_versions_gets_200() -> None:
    before, after = (("If-Modified-Since", format_http_date(MODIFIED + seconds)) for seconds in (10, 7200))

    assert ask(before, earlier_versions=OTHERS) == Outcome.PROCEED
    assert ask(after, earlier_versions=OTHERS) == Outcome.NOT_MODIFIED
    assert ask(before, earlier_versions=None) == Outcome.NOT_MODIFIED


def test_if_modified_since_before_all_versions_gets_304() -> None:
    since = ("If-Modified-Since", format_http_date(MODIFIED + 10))

    assert ask(since, earlier_versions=(MODIFIED + 20, MODIFIED + 3600)) == Outcome.NOT_MODIFIED


def test_if_modified_since_equal_to_last_modified_gets_304_despite_earlier_versions() -> None:
    since = ("If-Modified-Since", format_http_date(MODIFIED))

    assert ask(since, earlier_versions=OTHERS) == Outcome.NOT_MODIFIED


def test_if_modified_since_of_slightly_slow_clock_gets_304() -> None:
    since = ("If-Modified-Since", format_http_date(MODIFIED + 3600 - SKEW))

    assert ask(since, earlier_versions=OTHERS) == Outcome.NOT_MODIFIED


def test_if_modified_since_ignores_fraction_of_last_modified() -> None:
    since = ("If-Modified-Since", format_http_date(MODIFIED))

    assert ask(since, last_modified=MODIFIED + 0.9) == Outcome.NOT_MODIFIED


def test_if_modified_since_without_last_modified_is_compared_with_date() -> None:
    assert ask(("If-Modified-Since", format_http_date(NOW - 60)), last_modified=None) == Outcome.NOT_MODIFIED
    assert ask(("If-Modified-Since", format_http_date(NOW - 61)), last_modified=None) == Outcome.PROCEED
    assert ask(("If-Modified-Since", format_http_date(NOW)), last_modified=None, date=None) == Outcome.PROCEED


def test_if_modified_since_applies_to_get_and_head_only() -> None:
    assert ask(("If-Modified-Since", format_http_date(NOW)), method="POST") == Outcome.PROCEED


@pytest.mark.parametrize(
    ("value", "holds"),
    [('"s"', True), ('"x", "s-gzip"', True), ("*", True), ('W/"s"', False), ('"x"', False)],
)
def test_if_match_requires_strong_tag_of_current_representation(value: str, *, holds: bool) -> None:
    assert ask(("If-Match", value)) == (Outcome.PROCEED if holds else Outcome.PRECONDITION_FAILED)


def test_if_match_precedes_if_none_match() -> None:
    assert ask(("If-None-Match", '"s"'), ("If-Match", '"x"')) == Outcome.PRECONDITION_FAILED
    assert ask(("If-None-Match", '"s"'), ("If-Match", '"s"')) == Outcome.NOT_MODIFIED


def test_if_unmodified_since_fails_for_changed_content_and_is_ignored_with_if_match() -> None:
    before = ("If-Unmodified-Since", format_http_date(MODIFIED - 1))

    assert ask(before) == Outcome.PRECONDITION_FAILED
    assert ask(("If-Unmodified-Since", format_http_date(MODIFIED))) == Outcome.PROCEED
    assert ask(before, ("If-Match", '"s"')) == Outcome.PROCEED
    assert ask(("If-Unmodified-Since", "nonsense")) == Outcome.PROCEED
    assert ask(before, last_modified=None) == Outcome.PROCEED


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT"])
def test_no_preconditions_apply_to_options_trace_and_connect(method: str) -> None:
    assert ask(("If-Match", '"x"'), method=method) == Outcome.PROCEED
