"""Lists, quoted strings and parameters (RFC 9110, section 5.6)."""

import pytest

from feedproxy.http.field_values import is_token, parse_parameters, quote, split_list, unquote


def test_a_list_is_split_at_commas_and_its_empty_members_are_dropped() -> None:
    assert split_list("a, b ,\tc") == ["a", "b", "c"]
    assert split_list(", ,a,,b,") == ["a", "b"]
    assert split_list("") == []


def test_a_comma_within_a_quoted_string_separates_nothing() -> None:
    assert split_list('no-cache="a, b", x') == ['no-cache="a, b"', "x"]
    assert split_list(r'a="\",", b') == [r'a="\","', "b"]


def test_a_quotation_mark_never_closed_hides_nothing_that_follows() -> None:
    assert split_list('max-age="60, no-store') == ['max-age="60', "no-store"]
    assert split_list('"ok, so", private="x, no-store') == ['"ok, so"', 'private="x', "no-store"]


def test_a_long_hostile_list_is_split_in_time_that_grows_with_its_length() -> None:
    assert len(split_list('"\\' * 30_000 + "," * 30_000)) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"a"', "a"),
        ("a", "a"),
        ('"', '"'),
        ('""', ""),
        (r'"a\"b\\c"', 'a"b\\c'),
        ("'a'", "'a'"),
    ],
)
def test_a_quoted_string_is_read_as_its_text(value: str, text: str) -> None:
    assert unquote(value) == text


def test_a_line_break_cannot_be_quoted() -> None:
    with pytest.raises(ValueError, match="expected no NUL, CR or LF"):
        quote("a\r\nSet-Cookie: b")


def test_parameters_are_found_by_name_in_any_case() -> None:
    assert parse_parameters('Text/HTML; Charset="utf-8" ;x') == ("text/html", {"charset": "utf-8", "x": ""})
    assert parse_parameters('a; title="x;y"') == ("a", {"title": "x;y"})


def test_the_first_of_two_parameters_with_one_name_counts() -> None:
    assert parse_parameters("text/xml; charset=a; charset=b") == ("text/xml", {"charset": "a"})


def test_parameters_without_a_value_before_them_belong_to_nothing() -> None:
    assert parse_parameters("; charset=a") == ("", {"charset": "a"})
    assert parse_parameters("") == ("", {})


def test_a_token_has_no_separators() -> None:
    assert is_token("x-gzip")
    assert not is_token("a b")
    assert not is_token("")
