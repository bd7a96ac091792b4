"""Partial content: storing parts, answering ranges, requesting missing bytes, combining (RFC 9111, section 3.4)."""

from typing import Any

import pytest

from feedproxy.cache.freshness import explicit_lifetime
from feedproxy.cache.partial_content import (
    PARTS_MAX,
    Extent,
    combine,
    extent_of,
    range_to_fetch,
    reason_not_to_store_part,
    respond_with_part,
    strong_validator,
    with_part,
)
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response

NOW = 1_750_000_000.0
TARGET = "https://example.com/file.bin"
WHOLE = b"0123456789"


def fields(**lines: Any) -> Fields:
    return Fields((name.replace("_", "-"), value) for name, value in lines.items())


def said(first: int, last: int, length: int | str = len(WHOLE), **lines: Any) -> Fields:
    given = {"cache_control": "max-age=60", "date": format_http_date(NOW), **lines}
    return fields(content_range=f"bytes {first}-{last}/{length}", **given)


def part(first: int, last: int, length: int | str = len(WHOLE), **lines: Any) -> StoredResponse:
    """Return a 206 response with the bytes `first` to `last` of WHOLE."""
    body = Content(Bodies({"identity": WHOLE[first : last + 1]}))
    return StoredResponse(TARGET, 206, said(first, last, length, **lines), body, NOW, NOW)


def cut_to(stored_part: StoredResponse, value: str, **lines: Any) -> bytes | None:
    piece = respond_with_part(stored_part, fields(range=value, **lines))
    return None if piece is None else piece.content.bodies["identity"]


# -- which part it is


@pytest.mark.parametrize(
    ("value", "size", "extent"),
    [
        ("bytes 0-4/10", 5, Extent(0, 5, 10)),
        ("bytes 5-9/*", 5, Extent(5, 10, None)),
        ("BYTES 0-0/1", 1, Extent(0, 1, 1)),
        ("bytes 4-9/10", 5, Extent(4, 9, 9)),  # counted wrong, but it came whole and ends the content
        ("bytes 0-4/10", 4, None),
        ("bytes 0-4/10", 6, None),
        ("bytes 4-0/10", 5, None),
        ("bytes 0-4/4", 5, None),
        ("bytes */10", 5, None),
        ("lines 0-4/10", 5, None),
        ("bytes 0-4/10, bytes 5-9/10", 5, None),
        ("bytes 0-" + "9" * 5000 + "/*", 5, None),
        ("", 5, None),
    ],
)
def test_part_extent_requires_agreement_of_content_range_and_length(
    value: str, size: int, extent: Extent | None
) -> None:
    assert extent_of(fields(content_range=value), size) == extent


# -- may it be kept?


def kept(*, asked: Fields | None = None, body: bytes = b"01234", coding: str = "identity", **lines: Any) -> Any:
    given = {"content_range": "bytes 0-4/10", "cache_control": "max-age=60", **lines}
    stored = StoredResponse(TARGET, 206, fields(**given), Content(Bodies({coding: body})), NOW, NOW)
    return reason_not_to_store_part(Request("GET", TARGET, asked or fields(range="bytes=0-4")), stored)


def test_part_with_explicit_freshness_is_stored() -> None:
    assert kept() is None
    assert kept(content_type="audio/mpeg", etag='W/"weak"') is None


@pytest.mark.parametrize(
    ("because", "lines"),
    [
        ("a part without explicit freshness", {"cache_control": "public"}),
        ("a part without explicit freshness", {"cache_control": "max-age=0"}),
        ("no-store", {"cache_control": "max-age=60, no-store"}),
        ("private", {"cache_control": "max-age=60, private"}),
        ("Vary: *", {"vary": "*"}),
        ("it may be a part of a feed", {"content_type": "application/rss+xml"}),
        ("it may be a part of a feed", {"content_type": "application/feed+JSON; charset=utf-8"}),
        ("a part with a content coding cannot be served to clients of other codings", {"content_encoding": "gzip"}),
        ("the Content-Range of the part is missing or invalid", {"body": b"0123"}),
        ("a 206 to a request without Range", {"asked": fields(accept="*/*")}),
        (
            "the request carried Authorization, and the response does not allow sharing",
            {"asked": fields(range="bytes=0-4", authorization="x")},
        ),
    ],
)
def test_part_that_is_not_stored_has_a_reason(because: str, lines: dict[str, Any]) -> None:
    assert kept(**lines) == because


def test_part_above_the_maximum_replaces_the_oldest() -> None:
    parts: tuple[StoredResponse, ...] = ()
    for first in (0, 3, 6, 8):
        parts = with_part(parts, part(first, first + 1))

    assert len(parts) == PARTS_MAX
    assert [each.fields.get("content-range") for each in parts] == ["bytes 6-7/10", "bytes 8-9/10"]


def test_part_replaces_contained_parts_and_other_versions() -> None:
    assert len(with_part((part(2, 3),), part(0, 5))) == 1
    assert len(with_part((part(0, 1, etag='"a"'),), part(5, 6, etag='"b"'))) == 1
    assert len(with_part((part(0, 1),), part(5, 6, 11))) == 1
    assert len(with_part((part(0, 1, etag='"a"'),), part(5, 6, etag='"a"'))) == 2


# -- whom does it answer?


@pytest.mark.parametrize(
    ("value", "bytes_"),
    [
        ("bytes=4-9", b"456789"),
        ("bytes=6-8", b"678"),
        ("bytes=6-", b"6789"),
        ("bytes=6-99", b"6789"),
        ("bytes=-1", b"9"),
        ("bytes=-6", b"456789"),
        ("bytes=-7", None),
        ("bytes=3-5", None),
        ("bytes=0-", None),
        ("bytes=10-", None),
        ("bytes=4-5, 7-8", None),
        ("lines=4-5", None),
    ],
)
def test_part_containing_the_range_answers_it(value: str, bytes_: bytes | None) -> None:
    assert cut_to(part(4, 9), value) == bytes_


def test_part_response_has_content_range_and_no_content_digest() -> None:
    piece = respond_with_part(
        part(4, 9, content_digest="sha-256=:x:", repr_digest="sha-256=:y:"), fields(range="bytes=6-8")
    )

    assert piece is not None
    assert piece.fields.get_all("content-range") == ["bytes 6-8/10"]
    assert "content-digest" not in piece.fields  # it spoke of other bytes
    assert "repr-digest" in piece.fields


def test_part_of_unknown_complete_length_answers_only_explicit_contained_range() -> None:
    stored_part = part(4, 9, "*")

    assert cut_to(stored_part, "bytes=5-7") == b"567"
    assert [cut_to(stored_part, value) for value in ("bytes=5-", "bytes=-2", "bytes=8-10")] == [None, None, None]


def test_part_answers_if_range_only_with_its_strong_tag() -> None:
    stored_part = part(4, 9, etag='"a"')

    assert cut_to(stored_part, "bytes=5-5", if_range='"a"') == b"5"
    assert cut_to(stored_part, "bytes=5-5", if_range='"b"') is None
    assert cut_to(part(4, 9, etag='W/"a"'), "bytes=5-5", if_range='W/"a"') is None


# -- what is missing?


def lacks(stored_part: StoredResponse, value: str | None = None, *, fresh: bool = True, size_max: int = 100) -> Any:
    asked = fields() if value is None else fields(range=value)
    found = range_to_fetch(stored_part, asked, fresh=fresh, size_max=size_max)
    return None if found is None else (found.range, found.condition)


def test_missing_range_of_a_part_is_its_absent_end_or_beginning() -> None:
    assert lacks(part(0, 4, etag='"a"')) == ("bytes=5-", '"a"')
    assert lacks(part(4, 9, etag='"a"')) == ("bytes=0-3", '"a"')
    assert lacks(part(4, 9, etag='"a"'), fresh=False) == ("bytes=0-3", '"a"')


def test_missing_range_of_a_larger_range_is_the_absent_bytes() -> None:
    assert lacks(part(2, 5, etag='"a"'), "bytes=4-7") == ("bytes=6-7", '"a"')
    assert lacks(part(2, 5, etag='"a"'), "bytes=0-3") == ("bytes=0-1", '"a"')
    assert lacks(part(2, 5, etag='"a"'), "bytes=5-") == ("bytes=6-", '"a"')


@pytest.mark.parametrize(
    ("stored_part", "value"),
    [
        (part(2, 5, etag='"a"'), None),  # both ends are missing
        (part(0, 1, etag='"a"'), "bytes=8-9"),  # not adjacent
        (part(0, 4, etag='"a"'), "bytes=2-3"),  # nothing is missing
        (part(0, 4, "*", etag='"a"'), None),  # the size is unknown
        (part(0, 4, etag='"a"'), "bytes=0-1,4-8"),
    ],
)
def test_missing_range_of_an_unusable_part_is_none(stored_part: StoredResponse, value: str | None) -> None:
    assert lacks(stored_part, value) is None


def test_missing_range_of_content_above_size_limit_is_not_requested() -> None:
    assert range_to_fetch(part(0, 4, etag='"a"'), fields(), fresh=True, size_max=9) is None


def test_missing_range_without_strong_validator_has_at_most_the_stored_length() -> None:
    assert lacks(part(0, 4)) == ("bytes=5-", None)
    assert lacks(part(0, 4), fresh=False) is None
    assert lacks(part(0, 3)) is None


@pytest.mark.parametrize(
    ("lines", "validator"),
    [
        ({"etag": '"a"'}, '"a"'),
        ({"etag": 'W/"a"'}, None),
        ({"etag": "a"}, None),
        ({"last_modified": format_http_date(NOW - 60)}, format_http_date(NOW - 60)),
        ({"last_modified": format_http_date(NOW - 59)}, None),
        ({"last_modified": format_http_date(NOW - 60), "etag": 'W/"a"'}, None),
        ({}, None),
    ],
)
def test_strong_validator_is_strong_tag_or_date_a_minute_old(lines: dict[str, str], validator: str | None) -> None:
    assert strong_validator(fields(date=format_http_date(NOW), **lines)) == validator


# -- what goes together?


def together(stored_part: StoredResponse, first: int, last: int, length: int | str = len(WHOLE), **lines: Any) -> Any:
    news = Response(206, said(first, last, length, **lines), WHOLE[first : last + 1])
    return combine(stored_part, news)


@pytest.mark.parametrize(("first", "last"), [(5, 9), (3, 9), (0, 9)])
def test_combine_with_equal_strong_validator_yields_200(first: int, last: int) -> None:
    whole = together(part(0, 4, etag='"a"'), first, last, etag='"a"')

    assert (whole.status, whole.body) == (200, WHOLE)
    assert "content-range" not in whole.fields


def test_combine_of_incomplete_parts_yields_larger_part() -> None:
    larger = together(part(4, 5, etag='"a"'), 2, 3, etag='"a"')

    assert (larger.status, larger.body) == (206, b"2345")
    assert larger.fields.get("content-range") == "bytes 2-5/10"


def test_combine_replaces_fields_that_the_new_part_has_and_keeps_the_others() -> None:
    whole = together(part(0, 4, etag='"a"', a="1", b="1", age="9"), 5, 9, etag='"a"', a="2")

    assert (whole.fields.get("a"), whole.fields.get("b")) == ("2", "1")
    assert "age" not in whole.fields


@pytest.mark.parametrize(
    ("stored_part", "news"),
    [
        (part(0, 4), part(5, 9)),  # no strong validator
        (part(0, 4, etag='"a"'), part(5, 9, etag='"b"')),
        (part(0, 4, etag='W/"a"'), part(5, 9, etag='W/"a"')),
        (part(0, 4, 11, etag='"a"'), part(5, 9, etag='"a"')),  # the complete lengths differ
        (part(0, 3, etag='"a"'), part(5, 9, etag='"a"')),  # a gap
        (part(0, 4, etag='"a"'), part(5, 9, etag='"a"', content_encoding="gzip")),
    ],
)
def test_combine_rejects_incompatible_parts(stored_part: StoredResponse, news: StoredResponse) -> None:
    assert combine(stored_part, Response(206, news.fields, news.content.bodies["identity"])) is None


def test_combine_rejects_parts_that_differ_in_their_overlap() -> None:
    stored_part, news = part(0, 4, etag='"a"'), said(4, 9, etag='"a"')

    assert combine(stored_part, Response(206, news, b"xxxxxx")) is None


def test_combine_rejects_part_with_corrected_length() -> None:
    body = Content(Bodies({"identity": WHOLE[5:]}))
    (stored_part,) = with_part((), StoredResponse(TARGET, 206, said(4, 9, etag='"a"'), body, NOW, NOW))

    assert stored_part.fields.get("content-range") == "bytes 4-8/9"
    assert together(stored_part, 0, 3, etag='"a"') is None


def test_part_has_its_explicit_lifetime() -> None:
    assert explicit_lifetime(part(0, 4).fields, part(0, 4).response_time) is not None
