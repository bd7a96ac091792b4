"""A single range of bytes (RFC 9110, section 14)."""

import pytest

from feedproxy.http.ranges import Unsatisfiable, select


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
