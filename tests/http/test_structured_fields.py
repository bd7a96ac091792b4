"""Structured fields: all or nothing (RFC 9651)."""

import pytest

from feedproxy.http.structured_fields import Token, parse_dictionary


def test_dictionary_parser_reads_every_type_without_parameters() -> None:
    value = ' a=1, b=-2.5;x="y" ,\tc="d \\"e\\"", f=?0;g, h, i=tok/en:*, j=:aGk=:, k=(1  "2";q=3 t), l=() '

    assert parse_dictionary(value) == {
        "a": 1,
        "b": -2.5,
        "c": 'd "e"',
        "f": False,
        "h": True,
        "i": Token("tok/en:*"),
        "j": b"hi",
        "k": (1, "2", Token("t")),
        "l": (),
    }


def test_dictionary_parser_keeps_last_value_of_repeated_key() -> None:
    assert parse_dictionary("a=1, a=2") == {"a": 2}


@pytest.mark.parametrize(
    "value",
    ["A=1", "a=", "a=1,", ",a=1", "a=1 b=2", "a==1", 'a="x', "a=1.", "a=1.2345", "a=1234567890123456", "a=(1",
     "a=(1,2)", 'a=("1""2")', "a=é", "a;B=1", "a=?2", "a=:x", "\ta=1", "a=1\t", "a=--1", 'a="\\x"'],
)  # fmt: skip
def test_dictionary_parser_rejects_invalid_dictionaries(value: str) -> None:
    assert parse_dictionary(value) is None
