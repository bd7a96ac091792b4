"""Distinct readers of a feed are recorded about once an hour, at most READERS_PER_FEED of them."""

import pytest

from feedproxy.subscribers.reader_pseudonyms import Pseudonym
from feedproxy.subscribers.readers_for_public_lists import READERS_PER_FEED, REPEAT_INTERVAL, DistinctReaders

FEED = "https://example.com/feed"
NOON = 1_800_000_000


def reader(number: int) -> Pseudonym:
    return Pseudonym(1, 2, number)


def recorded(readers: DistinctReaders) -> dict[int, int]:
    return dict(readers.since(0)).get(FEED, {})


@pytest.mark.parametrize("number", [1, 2, 3])
def test_reader_is_recorded_again_after_an_hour(number: int) -> None:
    readers = DistinctReaders()
    for each in (1, 2, 3):
        readers.record(FEED, reader(each), NOON)

    readers.record(FEED, reader(number), NOON + REPEAT_INTERVAL - 1)
    assert set(recorded(readers).values()) == {NOON}
    readers.record(FEED, reader(number), NOON + REPEAT_INTERVAL)

    assert recorded(readers)[number] == NOON + REPEAT_INTERVAL
    assert readers.changes == 4


def test_pseudonym_that_equals_an_instant_is_a_further_reader() -> None:
    readers = DistinctReaders()
    readers.record(FEED, reader(1), NOON)

    readers.record(FEED, reader(NOON), NOON + 1)

    assert recorded(readers) == {1: NOON, NOON: NOON + 1}


def test_reader_beyond_the_limit_replaces_the_oldest_only_after_an_hour() -> None:
    readers = DistinctReaders()
    for number in range(1, READERS_PER_FEED + 1):
        readers.record(FEED, reader(number), NOON + number)
    full = recorded(readers)

    readers.record(FEED, reader(99), NOON + REPEAT_INTERVAL)
    assert recorded(readers) == full
    readers.record(FEED, reader(99), NOON + 1 + REPEAT_INTERVAL)

    del full[1]
    assert recorded(readers) == {**full, 99: NOON + 1 + REPEAT_INTERVAL}
