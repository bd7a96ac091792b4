"""Previous contents: the last eight, stored as differences and identified by their hash."""

import gzip
import hashlib
import random
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.http.coding.compression_dictionary import compress
from feedproxy.store.packing.memory_entry import MemoryEntry
from feedproxy.store.resource import Resource
from feedproxy.store.versions_for_dictionaries import CONTENT_BYTES_MAX, CONTENTS_MAX, NO_CONTENTS, PreviousContents

WORDS = random.Random(9842)
ITEMS = [b"<item><title>%s</title></item>\n" % WORDS.randbytes(200).hex().encode() for _ in range(60)]
ALL = 1_000_000


def version(number: int) -> bytes:
    return b"<rss><channel>" + b"".join(ITEMS[number : number + 30]) + b"</channel></rss>"


def digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def history(numbers: list[int], size_max: int = ALL) -> PreviousContents:
    held = NO_CONTENTS
    for old, new in pairwise(numbers):
        held = held.with_content(version(old), version(new), size_max=size_max)
    return held


def test_previous_contents_return_last_eight_by_hash() -> None:
    held = history(list(range(12)))

    for number in range(3, 11):
        assert held.content(digest(version(number)), [version(11)]) == version(number)
        assert digest(version(number)) in held
    assert held.content(digest(version(2)), [version(11)]) is None
    assert len(list(held)) == CONTENTS_MAX == 8


def test_previous_contents_take_less_than_one_gzip_content() -> None:
    assert len(history(list(range(12))).data) < len(gzip.compress(version(11)))


def test_previous_contents_drop_the_oldest_above_the_bound() -> None:
    held = history(list(range(12)), size_max=1000)

    assert 0 < len(list(held)) < 8
    assert len(held.data) <= 1000
    assert held.content(digest(version(10)), [version(11)]) == version(10)


def test_previous_contents_drop_content_with_nothing_in_common() -> None:
    held = history([0, 1]).with_content(version(1), b"x" * 10, size_max=100)

    assert held == NO_CONTENTS


def test_previous_contents_without_the_content_that_is_current_again() -> None:
    there = history([0, 1, 0])
    assert there.content(digest(version(1)), [version(0)]) == version(1)
    assert digest(version(0)) not in there

    back = there.with_content(version(0), version(2), size_max=ALL)
    assert back.content(digest(version(0)), [version(2)]) == version(0)
    assert back.content(digest(version(1)), [version(2)]) == version(1)


def test_previous_contents_ignore_the_same_content() -> None:
    held = history([0, 1])

    assert held.with_content(version(1), version(1), size_max=ALL) is held


def test_previous_contents_decode_from_any_variant() -> None:
    german, english = b"de" * 50, b"en" * 50
    held = NO_CONTENTS.with_content(b"altes " + german, german, size_max=ALL)
    held = held.with_content(b"older " + english, english, size_max=ALL)

    assert held.content(digest(b"altes " + german), [english, german]) == b"altes " + german
    assert held.content(digest(b"older " + english), [english, german]) == b"older " + english
    assert held.content(digest(b"altes " + german), [english]) is None


def test_previous_contents_discard_damaged_content() -> None:
    held = history([0, 1, 2])
    damaged = PreviousContents(held.data[:-3] + b"\0\0\0")

    assert damaged.content(digest(version(1)), [version(2)]) is None


@given(st.binary(max_size=300))
def test_previous_contents_refuse_invalid_bytes(data: bytes) -> None:
    try:
        held = PreviousContents(data)
    except ValueError:
        return
    for entry in held:
        held.content(entry.hash, [b""])


@pytest.mark.parametrize("count", [9, 20])
def test_previous_contents_refuse_more_than_eight(count: int) -> None:
    one = history([0, 1]).data

    with pytest.raises(ValueError, match="too many previous contents"):
        PreviousContents(one * count)


def test_previous_contents_survive_packing() -> None:
    held = history([0, 1, 2])
    entry = MemoryEntry(Resource("https://example.com/", fetched=1.0, previous=held))

    entry.pack()

    assert entry.size > len(held.data)
    assert entry.resource("https://example.com/").previous == held


def test_previous_contents_refuse_content_above_the_bound() -> None:
    large = b"\0" * (CONTENT_BYTES_MAX + 1)
    bomb = struct.pack(">32s32sII", digest(large), digest(b"x"), len(large), len(compress(large, b"x", level=1)))
    held = PreviousContents(bomb + compress(large, b"x", level=1))

    assert NO_CONTENTS.with_content(large, b"x", size_max=ALL) == NO_CONTENTS
    assert held.content(digest(large), [b"x"]) is None
