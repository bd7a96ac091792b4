"""A store of 100,000 small feeds: the time to start feedproxy with it, and the memory of a feed.

feedproxy fetches one feed. While it is stopped, copies of this feed under other names are written into its store. Two
values are measured:

* the memory of a stored feed: the growth of feedproxy's memory from one stored feed to all, divided by their number
* the memory of a requested feed without its bodies. Each feed is requested twice: the second request is answered from a
  template. Half of the feeds are requested before the measurement, so that caches of a fixed size, such as SQLite's
  pages, are full.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path

from msgspec.structs import replace

from benchmarks import feed
from benchmarks.aim import Aim
from benchmarks.client import asked, connected, get
from benchmarks.load import cpu_seconds, resident
from benchmarks.peers import Server, Stage
from benchmarks.rows import ROWS
from feedproxy.cache.stored_response import Bodies
from feedproxy.errors import StoreError
from feedproxy.store.disk import DiskStore

_row = ROWS[1]
ORIGINAL = "small-0"
WARM = 500
"""After this many requests for one feed, further requests for it do not increase the memory of the process."""


def fill(folder: Path, original: str, many: int, seconds: float = 60.0) -> tuple[int, int]:
    """Write copies of the stored resource as /feed/small-N.rss, as many as there is time for.

    `original` is the target of the stored resource, and `many` the number of copies. Return the number of copies
    written, and the size of the bodies of one copy in bytes.
    """
    disk = DiskStore(folder, size_max=2**33, on_failure=_fail)
    try:
        found = disk.read(original)
        if found is None:
            raise ValueError(f"{original} is not stored")
        first, _ = found
        until = time.monotonic() + seconds
        number = 0
        while number < many and time.monotonic() < until:
            number += 1
            target = original.replace(ORIGINAL, f"small-{number}")
            disk.write(replace(first, target=target, variants=tuple(replace(v, target=target) for v in first.variants)))
    finally:
        disk.close()
    held = [each.content.bodies for each in first.variants]
    kept = [body for each in held if isinstance(each, Bodies) for _, body in each.stored]
    return number, sum(len(body) for body in kept if isinstance(body, bytes))


def _fail(error: StoreError) -> None:
    raise error


def touch(server: Server, names: Iterator[str]) -> None:
    """Request these feeds. Raises ValueError for a response other than 200."""
    with connected(server.port) as connection:
        for name in names:
            answer = get(connection, feed.path(name), _row.fields(""))
            if answer.status != 200:
                raise ValueError(f"{answer.status} for {name}")


def settle(pid: int, seconds: float = 30.0) -> None:
    """Wait until the server is idle, at most `seconds`. After its start it examines the store, and starts helpers."""
    until, before = time.monotonic() + seconds, 0.0
    while time.monotonic() < until and (now := cpu_seconds(pid)) - before > 0.02:
        before = now
        time.sleep(0.5)


def play(stage: Stage, many: int, touched: int) -> list[Aim]:
    """Fill the store, start feedproxy, and request feeds. Return the figures."""
    with started(stage) as server:
        touch(server, repeat(ORIGINAL, WARM))
        settle(server.pid)
        alone = resident(server.pid)
    original = f"http://127.0.0.1:{stage.origin}{feed.path(ORIGINAL)}"
    many, bodies = fill(stage.folder / "feedproxy" / "store", original, many)
    touched = min(touched, many)
    before = asked(stage.origin)
    began = time.monotonic()
    with started(stage) as server:
        touch(server, repeat("small-1", 1))
        took = time.monotonic() - began
        touch(server, repeat("small-1", WARM))
        settle(server.pid)
        stored = resident(server.pid)
        half = touched // 2
        for some in (range(1, half + 1), range(half + 1, 2 * half + 1)):
            before_these = resident(server.pid)
            for _ in range(2):
                touch(server, (f"small-{number}" for number in some))
        held = resident(server.pid)
    if origin := asked(stage.origin) - before:
        raise ValueError(f"the origin got {origin} requests for stored feeds")
    index, hot = (stored - alone) / many, (held - before_these) / half - bodies
    what = f"{many:,} feeds stored"
    besides = f"{touched:,} of them asked for: memory of each besides bodies ({bodies} bytes)"
    return [
        Aim(f"{what}: start to first hit", took, "s", "≤", 5),
        Aim(f"{what}: memory of each", index, "bytes"),
        Aim(besides, index + hot, "bytes", "≤", 2048),
    ]


@contextmanager
def started(stage: Stage) -> Iterator[Server]:
    """Yield feedproxy as the only server, always with the same store."""
    with stage.apart():
        yield stage.feedproxy()
