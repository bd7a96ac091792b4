"""The limits derived from `memory_max`."""

import re
from pathlib import Path

import msgspec.structs
import pytest

from feedproxy.memory_max_shares import DIVISORS, MemoryLimits
from feedproxy.settings import Settings

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "memory.md"


@pytest.mark.parametrize("memory_max", [0, 1, 4096, 2**24, 2**28, 3 * 2**30 + 7])
def test_derived_caches_together_are_at_most_as_large_as_the_stored_responses(memory_max: int) -> None:
    limits = msgspec.structs.asdict(Settings(memory_max=memory_max).memory)

    assert limits["responses"] == memory_max
    assert sum(limits[name] for name in DIVISORS) <= memory_max
    assert set(limits) == {*DIVISORS, "responses", "models"}


def test_every_limit_follows_memory_max() -> None:
    small, large = (msgspec.structs.astuple(MemoryLimits.of(size)) for size in (2**24, 2**26))

    assert [4 * each for each in small] == list(large)


def test_memory_page_names_the_share_of_each_cache() -> None:
    rows = re.findall(r"^\| .*? \| 1/(\d+) \| ([\d.]+) MiB \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    default = Settings().memory_max
    assert sorted(int(divisor) for divisor, _ in rows) == sorted(DIVISORS.values())
    assert all(float(size) * 2**20 == default / int(divisor) for divisor, size in rows)


@pytest.mark.parametrize(("memory_max", "feeds"), [(2**24, 200_000), (2**28, 200_000), (2**31, 1_000_000)])
def test_number_of_feeds_with_counted_readers_follows_memory_max(memory_max: int, feeds: int) -> None:
    assert MemoryLimits.of(memory_max).feeds >= feeds
