"""A single range of bytes, with If-Range (RFC 9110, sections 14 and 13.1.5)."""

import pytest

from feedproxy.http.date import format_http_date
from feedproxy.http.etag import EntityTag
from feedproxy.http.message import Fields
from feedproxy.http.ranges import Unsatisfiable, if_range_holds, select

NOW = 1795176000.0
MODIFIED = NOW - 86400


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("bytes=0-499", (0, 499)),
        ("bytes=500-999", (500, 999)),
        ("bytes=500-", (500, 999)),
        ("bytes=0-", (0, 999)),
        ("bytes=-1", (999, 999)),
        ("bytes=-5000", (0, 999)),
        ("bytes=999-99999999999999999999999", (999, 999)),
        ("Bytes= 0-0 ", (0, 0)),
        ("bytes=00-007", (0, 7)),
        ("bytes=0-0,", (0, 0)),
    ],
)
def test_range_selects_its_part_of_content(value: str, part: tuple[int, int]) -> None:
    assert select(value, 1000) == part


@pytest.mark.parametrize("value", ["bytes=1000-", "bytes=1000-2000", "bytes=-0", "bytes=" + "9" * 5000 + "-"])
def test_range_beyond_end_is_unsatisfiable(value: str) -> None:
    assert select(value, 1000) == Unsatisfiable(1000)
    assert Unsatisfiable(1000).content_range == "bytes */1000"


@pytest.mark.parametrize(
    "value",
    [None, "", "bytes", "bytes=", "bytes=-", "bytes=5-4", "bytes=a-b", "bytes=0-1, 5-6", "items=0-1", "0-1",
     "bytes=--1", "bytes=0x1-2", "bytes=٠-٩", "bytes 0-1"],
)  # fmt: skip
def test_range_that_is_invalid_or_multiple_selects_whole_content(value: str | None) -> None:
    assert select(value, 1000) is None


def test_range_with_suffix_of_empty_content_selects_whole_content() -> None:
    assert select("bytes=-5", 0) is None
    assert select("bytes=0-", 0) == Unsatisfiable(0)


def ranged(value: str | None, **given: float | None) -> bool:
    fields = Fields([("If-Range", value)] if value is not None else [])
    return if_range_holds(fields, EntityTag("s"), given.get("last_modified", MODIFIED), given.get("date", NOW))


def test_if_range_with_tag_applies_only_by_strong_comparison() -> None:
    assert ranged(None)
    assert ranged('"s"')
    assert not ranged('"s-gzip"')
    assert not ranged('W/"s"')
    assert not if_range_holds(Fields([("If-Range", 'W/"s"')]), EntityTag("s", weak=True), None)
    assert not if_range_holds(Fields([("If-Range", '"s"')]), None, MODIFIED)


def test_if_range_with_date_applies_only_if_date_is_equal_and_strong() -> None:
    same = format_http_date(MODIFIED)

    assert ranged(same)
    assert not ranged(format_http_date(MODIFIED + 1))
    assert not ranged(same, last_modified=None)
    assert not ranged(same, date=MODIFIED)
    assert not ranged("nonsense")
