"""The hot set is bounded by bytes."""

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from benchmarks.lines import COMMON
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.feed.channel import Channel, Kind, Schedule, SelfLink
from feedproxy.http import message
from feedproxy.http.message import Fields
from feedproxy.store import lru_memory_store, resource_codec
from feedproxy.store.lru_memory_store import MemoryStore
from feedproxy.store.packing import memory_entry
from feedproxy.store.packing.interning import Interner
from feedproxy.store.packing.memory_entry import memory_size
from feedproxy.store.packing.resource_header_compression import compress_header, decompress_header
from feedproxy.store.resource import DeltaBase, Resource, VersionRecord
from feedproxy.store.resource_codec import dump, dump_with_header, header_of, load, load_with_header
from feedproxy.upstream import response_head_parser
from feedproxy.upstream.response_head_parser import parse_head

MakeFeed = Callable[..., Resource]


async def test_memory_store_returns_what_was_put_until_it_is_deleted(a_feed: MakeFeed) -> None:
    store = MemoryStore(1_000_000)
    await store.put(a_feed("https://a.example/"))
    await store.put(a_feed("https://b.example/"))

    await store.delete("https://a.example/")

    assert store.get("https://a.example/") is None
    assert store.get("https://b.example/") == a_feed("https://b.example/")
    assert list(store.targets()) == ["https://b.example/"]


async def test_memory_store_removes_least_recently_used_feed(a_feed: MakeFeed) -> None:
    store = MemoryStore(3 * memory_size(a_feed("https://1.example/", size=10_000)))
    for number in (1, 2, 3):
        await store.put(a_feed(f"https://{number}.example/", size=10_000))

    store.get("https://1.example/")
    await store.put(a_feed("https://4.example/", size=10_000))

    assert sorted(store.targets()) == [f"https://{number}.example/" for number in (1, 3, 4)]


def test_memory_store_of_used_feeds_examines_few_of_them_at_a_time(
    a_feed: MakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lru_memory_store, "MOVED_MAX", 4)
    store = MemoryStore(10**9, 100)
    for number in range(100):
        store.put_now(a_feed(f"https://example.com/{number}"))
        store.get(f"https://example.com/{number}")

    store.put_now(a_feed("https://example.com/new"))

    kept = [*range(5, 100), *range(4)]  # the first four were moved, and the fifth was removed
    assert list(store.targets()) == [*(f"https://example.com/{number}" for number in kept), "https://example.com/new"]


async def test_memory_store_never_exceeds_its_bound(a_feed: MakeFeed) -> None:
    store = MemoryStore(200_000)
    for number in range(300):
        await store.put(a_feed(f"https://{number % 120}.example/", size=number * 37 % 9000))

        assert store.size <= 200_000
        assert store.size == sum(memory_size(store.get(target) or a_feed()) for target in store.targets())


async def test_memory_store_counts_overhead_of_small_feeds(a_feed: MakeFeed) -> None:
    store = MemoryStore(1_000_000)
    for number in range(5000):
        await store.put(a_feed(f"https://{number}.example/", size=2))

    assert len(store) < 500


async def test_memory_store_rejects_feed_larger_than_its_bound(a_feed: MakeFeed) -> None:
    store = MemoryStore(50_000)
    await store.put(a_feed("https://small.example/"))
    await store.put(a_feed("https://large.example/"))

    await store.put(a_feed("https://large.example/", size=100_000))

    assert list(store.targets()) == ["https://small.example/"]


def test_memory_store_is_bounded_by_number(a_feed: MakeFeed) -> None:
    store = MemoryStore(10**9, 3)
    for number in range(5):
        store.put_now(a_feed(f"https://example.com/{number}"))
    store.get("https://example.com/2")
    store.put_now(a_feed("https://example.com/5"))

    assert sorted(store.targets()) == [f"https://example.com/{number}" for number in (2, 4, 5)]
    for target in list(store.targets()):
        store.drop(target)
    assert store.size == 0


def test_weight_is_not_below_memory_of_loaded_feed(a_feed: MakeFeed) -> None:
    written = [dump(a_feed(f"https://{number}.example/feed", says=f"feed {number}")) for number in range(500)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        loaded = [load(data) for data in written]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert sum(map(memory_size, loaded)) >= taken


def a_usual_feed(number: int) -> Resource:
    """Return a feed with a channel, four codings, and twenty field lines, eight of which no other feed has."""
    target = f"https://blog{number}.example/feed/rss.xml"
    fields_of_this_feed = (
        ("Date", f"Mon, 01 Jan 2024 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02} GMT"),
        ("Expires", f"Tue, 02 Jan 2024 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02} GMT"),
        ("Last-Modified", f"Sun, 31 Dec 2023 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02} GMT"),
        ("ETag", f'"{number:x}abcdef123456"'),
        ("Link", f'<https://blog{number}.example/wp-json/>; rel="https://api.w.org/"'),
        ("CF-Ray", f"{number * 7919:016x}-FRA"),
        ("X-Request-Id", f"{number * 104729:032x}"),
        ("Report-To", f'{{"endpoints":[{{"url":"https://a.nel.example/report?s={number}"}}]}}'),
    )
    lines = (*COMMON, *fields_of_this_feed)
    head = "".join(["HTTP/1.1 200 OK\r\n", *(f"{name}: {value}\r\n" for name, value in lines), "\r\n"])
    fields = Fields(parse_head(head.encode()).fields())
    content = Content(
        Bodies(
            {coding: bytes(size) for coding, size in (("identity", 900), ("gzip", 300), ("br", 300), ("zstd", 300))}
        ),
        tag=f"{number:032x}",
        media_type="application/rss+xml",
        feed=True,
    )
    channel = Channel(
        Kind.RSS,
        "2.0",
        well_formed=True,
        title=f"Blog {number}",
        link=f"https://blog{number}.example/",
        schedule=Schedule(ttl=60),
        self_links=(SelfLink("self", target, "application/rss+xml", "http://www.w3.org/2005/Atom"),),
        items=20,
        content_digest=f"{number:064x}",
    )
    stored = StoredResponse(target, 200, fields, content, 1.7e9 + number, 1.7e9 + number + 0.25)
    return Resource(
        target,
        (stored,),
        channel,
        changes=tuple(1.7e9 - number - 3600.5 * change for change in range(8)),
        fetched=1.7e9 + number,
        delta_bases=tuple(
            DeltaBase(f"{number * 4 + version:032x}", 1.7e9 + number, f"{number:016}".encode() * 10)
            for version in range(4)
        ),
        version_records=tuple(
            VersionRecord(1.7e9 + number, 900 + number, version, f"{number * 8 + version:032x}") for version in range(8)
        ),
    )


def empty_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty the caches that feeds share, which do not belong to the size of a feed."""
    monkeypatch.setattr(resource_codec, "_INTERNER", Interner())
    response_head_parser._decode.cache_clear()
    response_head_parser._plain_line.cache_clear()
    message._lower.cache_clear()
    gc.collect()  # also empties the interpreter's lists of free objects, which are not traced


@pytest.mark.parametrize("count", [10, 100, 1000])
@pytest.mark.parametrize("source", ["origin", "disk"])
def test_size_of_unpacked_feeds_is_within_15_percent_of_their_memory(
    source: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = [dump(a_usual_feed(number)) for number in range(count)] if source == "disk" else []
    store = MemoryStore(10**9)
    empty_caches(monkeypatch)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(count):
            store.put_now(load(stored[number]) if stored else a_usual_feed(number))
        empty_caches(monkeypatch)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert abs(store.size - taken) <= 0.15 * taken


@pytest.mark.parametrize(
    ("lines", "name_length", "value_length"), [(7, 8000, 1), (300, 30, 128), (5000, 8, 1), (12, 20, 4000)]
)
def test_size_of_feed_with_unusual_field_lines_is_not_below_nine_tenths_of_its_memory(
    lines: int, name_length: int, value_length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def a_feed_of(number: int) -> Resource:
        fields = Fields(
            (f"X-{number:04}-{line:04}".ljust(name_length, "A"), f"{number * lines + line}".ljust(value_length, "v"))
            for line in range(lines)
        )
        assert f"x-{number}" not in fields  # computes the names in lower case, as each request does
        target = f"https://example.com/{number}"
        return Resource(target, (StoredResponse(target, 200, fields, Content(Bodies({})), 1.7e9, 1.7e9),))

    store = MemoryStore(10**9)
    empty_caches(monkeypatch)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(8):
            store.put_now(a_feed_of(number))
        empty_caches(monkeypatch)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert store.size >= 0.9 * taken


async def test_memory_store_returns_state_by_name(a_feed: MakeFeed) -> None:
    store = MemoryStore(1_000_000)

    await store.put_state("readers", b"\x00\x01")

    assert store.get_state("readers") == b"\x00\x01"
    assert store.get_state("other") is None


async def test_memory_store_packs_unused_resource_without_loss(
    a_feed: MakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lru_memory_store, "UNPACKED_MAX", 2)
    store = MemoryStore(10**9)
    feeds = [replace(a_feed(f"https://{number}.example/", says=f"feed {number}"), last_push=1.5) for number in range(5)]
    bodies = [feed.variants[0].content.bodies["identity"] for feed in feeds]
    expected = [dump(feed) for feed in feeds]
    awake = 0
    while feeds:
        await store.put(feeds[0])
        awake = max(awake, store.size)
        del feeds[0]

    for number, body in enumerate(bodies):
        stamp = store.version(f"https://{number}.example/")
        seen, found = store.peek(f"https://{number}.example/"), store.get(f"https://{number}.example/")
        assert seen is not None
        assert found is not None
        assert (dump(seen), dump(found)) == (expected[number], expected[number])
        assert found.variants[0].content.bodies["identity"] is body
        assert store.version(f"https://{number}.example/") is stamp
        assert store.get(f"https://{number}.example/") is found
    for number in range(5):
        store.drop(f"https://{number}.example/")
    assert store.size == 0


async def test_memory_entry_packs_with_remembered_header(a_feed: MakeFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lru_memory_store, "UNPACKED_MAX", 1)
    made: list[Resource] = []

    def noted(resource: Resource) -> bytes:
        made.append(resource)
        return header_of(resource)

    monkeypatch.setattr(memory_entry, "header_of", noted)
    store = MemoryStore(10_000_000)
    feeds = {target: a_feed(target) for target in ("https://told.example/", "https://new.example/")}
    for target, feed in feeds.items():
        await store.put(feed)
        store.remember_header(a_feed(target) if "new" in target else feed, dump_with_header(feed)[1])
    await store.put(a_feed("https://last.example/"))

    assert [resource.target for resource in made] == ["https://new.example/"], (
        "what was told was told of another version"
    )
    assert {target: store.peek(target) for target in feeds} == feeds


async def test_memory_entry_returns_the_object_that_a_caller_holds(
    a_feed: MakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lru_memory_store, "UNPACKED_MAX", 1)
    store = MemoryStore(10**9)
    await store.put(a_feed("https://held.example/"))
    held = store.get("https://held.example/")
    await store.put(a_feed("https://other.example/"))

    assert store.get("https://held.example/") is held
    await store.put(a_feed("https://held.example/"))
    assert store.get("https://held.example/") is not held


async def test_memory_store_version_changes_with_the_resource(a_feed: MakeFeed) -> None:
    store = MemoryStore(10**9)
    await store.put(a_feed())
    stamp = store.version("https://example.com/feed")
    assert stamp is not None
    assert store.version("https://example.com/feed") is stamp

    await store.put(a_feed())
    assert store.version("https://example.com/feed") is not stamp
    await store.delete("https://example.com/feed")
    assert store.version("https://example.com/feed") is None


async def test_packed_feed_takes_less_than_its_weight(a_feed: MakeFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lru_memory_store, "UNPACKED_MAX", 1)
    store = MemoryStore(10**9)
    written = [dump(a_feed(f"https://{number}.example/feed", says=f"feed {number}")) for number in range(500)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for data in written:
            resource, header = load_with_header(data)
            store.put_now(resource, header=header)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert taken <= store.size < 500 * (1000 + 1000)


async def test_packed_header_takes_no_more_than_its_bytes(a_feed: MakeFeed) -> None:
    header = header_of(a_feed())
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        shrunk = [compress_header(header) for _ in range(100)]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert decompress_header(shrunk[0]) == header
    assert taken < 100 * (len(shrunk[0]) + 64)
