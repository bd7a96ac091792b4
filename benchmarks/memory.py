"""Memory of a stored feed without its bodies: `python -m benchmarks.memory [feeds, 10000]`.

A feed has twenty field lines, eight of which no other feed has (dates, tags, lengths, request ids). It has a channel
with a schedule and a self link, eight changes, and the entries of four versions. The feeds are written to a store on
disk, and read into memory as after a start. The result is the growth of the process's resident memory by the second
half of the feeds, without bodies: caches of a fixed size, such as SQLite's pages, are then full. The bodies are small,
so that 100,000 feeds fit into the memory of a laptop.
"""

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.lines import COMMON
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.feed.channel import Channel, Kind, Schedule, SelfLink
from feedproxy.http.message import Fields
from feedproxy.store.resource import DeltaBase, Resource
from feedproxy.store.store_location import open_store

SIZES = {"identity": 2000, "gzip": 600, "br": 500, "zstd": 600}
NOW = 1_790_000_000.0


def a_feed(number: int) -> Resource:
    """Return one of many feeds. They have only those values in common that feeds of different sites share."""
    target = f"https://site-{number}.example/blog/feed/index-{number}.xml"
    lines = (
        ("Date", f"Fri, 20 Nov 2026 12:{number % 60:02}:{number // 60 % 60:02} GMT"),
        ("Last-Modified", f"Thu, 19 Nov 2026 {number % 24:02}:{number % 60:02}:{number // 60 % 60:02} GMT"),
        ("ETag", f'"{number:032x}"'),
        ("X-Request-Id", f"{number * 7919:036x}"),
        ("Link", f'<https://site-{number}.example/wp-json/>; rel="https://api.w.org/"'),
        ("CF-Ray", f"{number * 104729:016x}-FRA"),
        ("Age", str(number % 3600)),
        ("X-Served-By", f"cache-fra-{number:06}-FRA"),
    )
    tag = f"{number:022x}"
    bodies = Bodies({coding: os.urandom(8) + bytes(size - 8) for coding, size in SIZES.items()})
    content = Content(bodies, tag=tag, media_type="application/rss+xml", last_modified=NOW - number, feed=True)
    stored = StoredResponse(
        target,
        200,
        Fields((*COMMON, *lines)),
        content,
        NOW + number,
        NOW + number + 0.25,
        Fields([("Accept-Encoding", "gzip, br, zstd")]),
        own_agent=True,
    )
    channel = Channel(
        Kind.RSS,
        "2.0",
        well_formed=True,
        title=f"The journal of somebody, number {number}",
        link=f"https://site-{number}.example/blog/",
        schedule=Schedule(ttl=60),
        self_links=(SelfLink("self", target, "application/rss+xml", "http://www.w3.org/2005/Atom"),),
        items=10,
        content_digest=f"{number:064x}",
    )
    versions = tuple(DeltaBase(f"{number * 4 + each:022x}", NOW - number - each, os.urandom(160)) for each in range(4))
    changes = tuple(NOW - number - 3600.5 * each for each in range(8))
    return Resource(target, (stored,), channel, changes, fetched=NOW + number, delta_bases=versions)


def resident() -> int:
    """Return the memory of this process in bytes, without mapped files, which belong to the system's cache."""
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(each for each in lines if each.startswith("RssAnon")).split()[1]) * 1024


async def fill(folder: str, many: int) -> None:
    """Write the feeds into a store."""
    store = open_store(folder, memory_max=1, disk_max=2**34)
    for number in range(many):
        await store.put(a_feed(number))
        if number % 500 == 0:
            await store.flush()
    await store.close()


async def measure(folder: str, many: int) -> None:
    """Open the store, read the feeds and print the memory of each."""
    store = open_store(folder, memory_max=2**33, disk_max=2**34)
    targets = list(store.targets())
    half = len(targets) // 2
    for target in targets[:half]:
        store.get(target)
    before, began = resident(), time.perf_counter()
    pause, last, bodies = 0.0, time.perf_counter(), 0
    for target in targets[half:]:
        resource = store.get(target)
        assert resource is not None
        bodies += resource.size()
        now = time.perf_counter()
        pause, last = max(pause, now - last), now
    took = time.perf_counter() - began
    del resource
    measured = len(targets) - half
    each = (resident() - before - bodies) / measured
    print(f"{many:,} feeds: {each:,.0f} bytes each besides {bodies // measured:,} of bodies")
    print(f"read in {took:.2f} s, {took / measured * 1e6:.0f} µs each, the longest {pause * 1000:.1f} ms")
    await store.close()


def main(many: int) -> None:
    """Fill a store in another process, so that this one has no memory to reuse. Then measure."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "benchmarks.memory", "fill", folder, str(many)], check=True)
        asyncio.run(measure(folder, many))


if __name__ == "__main__":
    if sys.argv[1:2] == ["fill"]:
        asyncio.run(fill(sys.argv[2], int(sys.argv[3])))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
