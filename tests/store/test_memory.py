"""The hot set is bounded by bytes."""

import tracemalloc
from collections.abc import Callable

from feedproxy.store.codec import dump, load
from feedproxy.store.memory import MemoryStore, weight
from feedproxy.store.resource import Resource

MakeFeed = Callable[..., Resource]


async def test_what_was_put_is_there_and_what_was_deleted_is_not(a_feed: MakeFeed) -> None:
    store = MemoryStore(1_000_000)
    await store.put(a_feed("https://a.example/"))
    await store.put(a_feed("https://b.example/"))

    await store.delete("https://a.example/")

    assert store.get("https://a.example/") is None
    assert store.get("https://b.example/") == a_feed("https://b.example/")
    assert list(store.targets()) == ["https://b.example/"]


async def test_the_least_recently_used_feed_goes_when_bytes_run_short(a_feed: MakeFeed) -> None:
    store = MemoryStore(3 * weight(a_feed("https://1.example/", size=10_000)))
    for number in (1, 2, 3):
        await store.put(a_feed(f"https://{number}.example/", size=10_000))

    store.get("https://1.example/")
    await store.put(a_feed("https://4.example/", size=10_000))

    assert sorted(store.targets()) == [f"https://{number}.example/" for number in (1, 3, 4)]


async def test_the_bound_is_never_passed(a_feed: MakeFeed) -> None:
    store = MemoryStore(200_000)
    for number in range(300):
        await store.put(a_feed(f"https://{number % 120}.example/", size=number * 37 % 9000))

        assert store.size <= 200_000
        assert store.size == sum(weight(store.get(target) or a_feed()) for target in store.targets())


async def test_many_small_feeds_count_for_what_they_cost_beside_their_bodies(a_feed: MakeFeed) -> None:
    store = MemoryStore(1_000_000)
    for number in range(5000):
        await store.put(a_feed(f"https://{number}.example/", size=2))

    assert len(store) < 500


async def test_a_feed_larger_than_the_whole_bound_is_not_kept_and_drives_nobody_out(a_feed: MakeFeed) -> None:
    store = MemoryStore(50_000)
    await store.put(a_feed("https://small.example/"))
    await store.put(a_feed("https://large.example/"))

    await store.put(a_feed("https://large.example/", size=100_000))

    assert list(store.targets()) == ["https://small.example/"]


def test_the_estimate_is_not_below_what_a_loaded_feed_takes(a_feed: MakeFeed) -> None:
    written = [dump(a_feed(f"https://{number}.example/feed", says=f"feed {number}")) for number in range(500)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        loaded = [load(each) for each in written]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert sum(map(weight, loaded)) >= taken


async def test_state_is_kept_by_name(a_feed: MakeFeed) -> None:
    store = MemoryStore(1_000_000)

    await store.put_state("readers", b"\x00\x01")

    assert store.get_state("readers") == b"\x00\x01"
    assert store.get_state("other") is None
