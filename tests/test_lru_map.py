"""The map with a limit in bytes."""

from feedproxy.lru_map import ENTRY_OVERHEAD, LRU


def test_lru_evicts_the_least_recently_used_entry_above_its_limit() -> None:
    held: LRU[str, bytes] = LRU(3 * (100 + ENTRY_OVERHEAD))
    for name in "abc":
        held.put(name, b"x" * 100, 100)

    held.get("a")
    held.put("d", b"x" * 100, 100)

    assert [name for name in "abcd" if name in held] == ["a", "c", "d"]
    assert held.size == 3 * (100 + ENTRY_OVERHEAD)


def test_lru_evicts_several_entries_for_a_large_one() -> None:
    held: LRU[int, None] = LRU(10_000)
    for number in range(10):
        held.put(number, None, 400)

    held.put(10, None, 8_000)

    assert [number for number in range(11) if number in held] == [9, 10]
    assert held.size <= 10_000


def test_lru_counts_empty_entries() -> None:
    held: LRU[int, None] = LRU(10 * ENTRY_OVERHEAD)

    for number in range(1000):
        held.put(number, None)

    assert len(held) == 10


def test_lru_rejects_an_entry_larger_than_its_limit_without_evicting() -> None:
    held: LRU[str, bytes] = LRU(2000)
    held.put("small", b"x", 1)

    held.put("large", b"x" * 2000, 2000)

    assert "small" in held
    assert held.get("large") is None


def test_lru_counts_a_replaced_value_once() -> None:
    held: LRU[str, bytes] = LRU(100_000)
    for size in (5000, 10):
        held.put("a", b"x" * size, size)

    assert (len(held), held.size) == (1, 10 + ENTRY_OVERHEAD)

    held.drop("a")
    assert (len(held), held.size) == (0, 0)


def test_lru_limits_the_number_of_entries() -> None:
    held: LRU[int, int] = LRU(100_000, 2)
    for number in range(3):
        held.put(number, number)

    assert [number for number in range(3) if number in held] == [1, 2]


def test_lru_evicts_when_its_limit_is_lowered() -> None:
    held: LRU[int, int] = LRU(100_000)
    for number in range(20):
        held.put(number, number)

    held.resize(5 * ENTRY_OVERHEAD)

    assert [number for number in range(20) if number in held] == [15, 16, 17, 18, 19]
