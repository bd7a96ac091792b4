"""A short run of the feeds that are mutated at random (feeds.py)."""

from tests.fuzz import feeds


def test_mutated_feeds_are_read_converted_and_compared_within_their_promises() -> None:
    assert feeds.run(seed=1, seconds=3) > 0
