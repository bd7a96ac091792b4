"""Negotiation of content codings and media types (RFC 9110, section 12)."""

import pytest

from feedproxy.http.content_negotiation import choose_coding, choose_media_type

OURS = ("zstd", "br", "gzip", "identity")


@pytest.mark.parametrize(
    ("accept_encoding", "coding"),
    [
        (None, "identity"),
        ("", "identity"),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        ("gzip, deflate, br", "br"),
        ("gzip,deflate", "gzip"),
        ("gzip;deflate", "gzip"),
        ("gzip;q=1.0, br;q=0.5", "gzip"),
        ("gzip;q=0.5, br;q=.8", "br"),
        ("br;q=0, gzip", "gzip"),
        ("*", "zstd"),
        ("gzip;q=0.3, *;q=0.2", "gzip"),
        ("identity;q=1, gzip;q=0.5", "identity"),
        ("identity, gzip", "gzip"),
        ("gzip;q=0.001", "gzip"),
        ("compress", "identity"),
        ("dcb, dcz", "identity"),
        ("gzip;q=0", "identity"),
        ("gzip, gzip;q=0", "identity"),
        ("br;q=nonsense, gzip", "gzip"),
        ("gzip;q=", "identity"),
        ("*;q=0, gzip", "gzip"),
        ("identity;q=0, br", "br"),
        ("identity;q=0", None),
        ("*;q=0", None),
        ("*;q=0, identity", "identity"),
        ("gzip ; Q=0 , br ; q = 1", "br"),
    ],
)
def test_coding_of_greatest_weight_is_chosen(accept_encoding: str | None, coding: str | None) -> None:
    assert choose_coding(accept_encoding, OURS) == coding


def test_coding_identity_has_the_preference_of_its_position() -> None:
    assert choose_coding("*", ["identity", "gzip"]) == "identity"
    assert choose_coding("*", ["gzip", "identity"]) == "gzip"


@pytest.mark.parametrize("accept_encoding", [None, "", "br", "identity", "gzip;q=0, *"])
def test_coding_that_is_unavailable_is_not_chosen(accept_encoding: str | None) -> None:
    assert choose_coding(accept_encoding, ["gzip"]) is None
    assert choose_coding(accept_encoding, []) is None


def test_coding_is_chosen_from_field_too_long_to_cache() -> None:
    assert choose_coding("x, " * 1000 + "gzip", OURS) == "gzip"


@pytest.mark.parametrize(
    ("accept", "best"),
    [
        (None, "text/html"),
        ("", "text/html"),
        ("*/*", "text/html"),
        ("*; q=.2", "text/html"),
        ("application/json", "application/json"),
        ("APPLICATION/*;q=0.5, text/*;q=0.4", "application/json"),
        ("text/html;q=0.5, application/json;q=0.9", "application/json"),
        ("*/*, text/html;q=0", "application/json"),
        ("text/html;level=1, application/json;q=0.1", "application/json"),
        ("text/html;q=x, application/json;q=0.1", "application/json"),
        ("text/html, image/webp, *; q=.2, */*; q=.2", "text/html"),
        ("image/*", None),
        ("*/*;q=0", None),
        ("text", None),
    ],
)
def test_media_type_of_greatest_weight_is_chosen(accept: str | None, best: str | None) -> None:
    assert choose_media_type(accept, ["text/html", "application/json"]) == best


def test_media_type_weight_comes_from_most_specific_range() -> None:
    accept = "text/*;q=0.9, text/html;q=0.1, text/html;level=1;q=0.5"

    assert choose_media_type(accept, ["text/html", "text/html;level=1"]) == "text/html;level=1"
    assert choose_media_type(accept, ["text/html;level=1", "text/plain"]) == "text/plain"


def test_media_type_without_offers_is_none() -> None:
    assert choose_media_type("*/*", []) is None
    assert choose_media_type(None, []) is None
