"""The cost of the store: encoding, memory, disk. `python -m benchmarks.store [number of targets to list]`.

A feed has 60 KB, is stored with gzip, br and zstd (100 KB in total), and has 20 field lines, eight of which no other
feed has. Times are the best of several runs. Memory is measured by tracemalloc.
"""

import asyncio
import gc
import os
import sys
import tempfile
import time
import timeit
import tracemalloc
from collections.abc import Callable

from benchmarks.lines import COMMON
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.feed.channel import Channel, Kind, Schedule, SelfLink
from feedproxy.http.message import Fields
from feedproxy.store.packing.memory_entry import memory_size
from feedproxy.store.resource import Resource
from feedproxy.store.resource_codec import dump, load
from feedproxy.store.store_location import open_store

SIZES = {"identity": 61_000, "gzip": 12_300, "br": 12_000, "zstd": 13_000}


def a_feed(number: int, share: float = 1.0) -> Resource:
    """Return a feed that differs from all others. `share` is the size of its bodies as a fraction of the usual size."""
    target = f"https://blog{number}.example.com/feed/rss.xml"
    own = [
        ("Date", f"Mon, 01 Jan 2024 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02} GMT"),
        ("Expires", f"Tue, 02 Jan 2024 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02} GMT"),
        (
            "Last-Modified",
            f"Sun, 31 Dec 2023 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02} GMT",
        ),
        ("ETag", f'"{number:x}abcdef123456"'),
        ("Link", f'<https://blog{number}.example.com/wp-json/>; rel="https://api.w.org/"'),
        ("CF-Ray", f"{number * 7919:016x}-FRA"),
        ("X-Request-Id", f"{number * 104729:032x}"),
        ("Report-To", f'{{"endpoints":[{{"url":"https://a.nel.example/report?s={number}"}}]}}'),
    ]
    bodies = Bodies({coding: os.urandom(int(size * share) + 1) for coding, size in SIZES.items()})
    content = Content(bodies, tag=f"{number:032x}", media_type="application/rss+xml", feed=True)
    stored = StoredResponse(target, 200, Fields([*COMMON, *own]), content, 1.7e9 + number, 1.7e9 + number + 0.25)
    link = SelfLink("self", target, "application/rss+xml", "http://www.w3.org/2005/Atom")
    channel = Channel(
        Kind.RSS, "2.0", True, f"Blog {number}", f"https://blog{number}.example.com/", Schedule(ttl=60),
        (link,), items=20, content_digest=f"{number:064x}",
    )  # fmt: skip
    return Resource(target, (stored,), channel, (1.7e9 - number,), 1.7e9 + number)


def best(act: Callable[[], object], times: int = 300) -> float:
    """Return the best time of several runs in microseconds."""
    return min(timeit.repeat(act, number=times, repeat=5)) / times * 1e6


def form() -> None:
    feed = a_feed(1)
    data = dump(feed)
    print(f"form       {len(data)} bytes, {len(data) - feed.size()} of them no body")
    print(f"           dump {best(lambda: dump(feed)):.1f} us, load {best(lambda: load(data)):.1f} us")


def memory() -> None:
    written = [dump(a_feed(number, 0)) for number in range(5000)]
    tracemalloc.start()
    loaded = [load(each) for each in written]
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"memory     {taken / 5000:.0f} bytes a feed in addition to its bodies; estimate {memory_size(loaded[0])}")


async def disk() -> None:
    feeds = [a_feed(number) for number in range(500)]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        store = open_store(folder, memory_max=1, disk_max=2**32)
        print(f"open       {(time.perf_counter() - start) * 1e3:.0f} ms, a new folder")
        start = time.perf_counter()
        for feed in feeds:
            await store.put(feed)
        put = time.perf_counter() - start
        await store.flush()
        written = time.perf_counter() - start
        print(f"put        {put / 500 * 1e6:.1f} us, written after {written / 500 * 1e6:.0f} us each")
        await store.close()

        start = time.perf_counter()
        store = open_store(folder, memory_max=1, disk_max=2**32)
        print(f"open       {(time.perf_counter() - start) * 1e3:.0f} ms")
        from_disk = best(lambda: [store.get(feed.target) for feed in feeds], 1) / 500
        absent = best(lambda: [store.get(feed.target + "?") for feed in feeds], 1) / 500
        await store.close()
        store = open_store(folder, memory_max=2**30, disk_max=2**32)
        for feed in feeds:
            store.get(feed.target)
        hot = best(lambda: [store.get(feed.target) for feed in feeds], 1) / 500
        await store.close()
        print(f"get        {hot:.2f} us from memory, {from_disk:.0f} us from disk, {absent:.1f} us of nothing")


async def listing(many: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder, memory_max=1, disk_max=2**32)
        for number in range(many):
            await store.put(a_feed(number, 0.001))
        await store.flush()
        start = last = time.perf_counter()
        longest = 0.0
        for _ in store.targets():
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        print(f"targets    {many} in {(last - start) * 1e3:.0f} ms, longest step {longest * 1e3:.2f} ms")
        await store.close()


if __name__ == "__main__":
    form()
    memory()
    asyncio.run(disk())
    asyncio.run(listing(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
