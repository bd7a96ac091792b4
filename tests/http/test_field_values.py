"""Lists, quoted strings and parameters (RFC 9110, section 5.6)."""

import pytest

from feedproxy.http.field_values import is_token, parse_parameters, quote, split_list, unquote


def test_list_is_split_at_commas_without_empty_members() -> None:
    assert split_list("a, b ,\tc") == ["a", "b", "c"]
    assert split_list(", ,a,,b,") == ["a", "b"]
    assert split_list("") == []


def test_list_is_not_split_at_comma_within_quoted_string() -> None:
    assert split_list('no-cache="a, b", x') == ['no-cache="a, b"', "x"]
    assert split_list(r'a="\",", b') == [r'a="\","', "b"]


def test_list_is_split_after_unclosed_quotation_mark() -> None:
    assert split_list('max-age="60, no-store') == ['max-age="60', "no-store"]
    assert split_list('"ok, so", private="x, no-store') == ['"ok, so"', 'private="x', "no-store"]


def test_list_of_hostile_quotes_is_split_in_linear_time() -> None:
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
def test_quoted_string_is_unquoted(value: str, text: str) -> None:
    assert unquote(value) == text


def test_quoted_string_rejects_line_break() -> None:
    with pytest.raises(ValueError, match="expected no NUL, CR or LF"):
        quote("a\r\nSet-Cookie: b")


def test_parameters_have_lower_case_names() -> None:
    assert parse_parameters('Text/HTML; Charset="utf-8" ;x') == ("text/html", {"charset": "utf-8", "x": ""})
    assert parse_parameters('a; title="x;y"') == ("a", {"title": "x;y"})


def test_parameters_with_equal_names_keep_the_first() -> None:
    assert parse_parameters("text/xml; charset=a; charset=b") == ("text/xml", {"charset": "a"})


def test_parameters_without_preceding_value_have_an_empty_value() -> None:
    assert parse_parameters("; charset=a") == ("", {"charset": "a"})
    assert parse_parameters("") == ("", {})


def test_token_contains_no_separators() -> None:
    assert is_token("x-gzip")
    assert not is_token("a b")
    assert not is_token("")
