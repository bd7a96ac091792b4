"""A short run of fuzzing with mutated feeds (feeds.py)."""

from tests.fuzz import feeds


def test_mutated_feeds_keep_the_properties_of_feeds() -> None:
    assert feeds.run(seed=1, seconds=3) > 0
