"""A million feeds: memory, start, scheduled fetches per second, their delay, and hits at the same time.

    python -m benchmarks.million [--feeds 1000000] [--seconds 120] [--price 8] [--polls 0] [--folder DIR]

The product's own code writes the world (million_world.py) into a store. feedproxy fetches four feeds, and the others
are copies under other names, with plausible times and tags. The product's code also counts readers and their rhythms.
Then feedproxy is started with that store. For the given time,

* its schedule fetches due feeds, with a clock that continues from the time of writing,
* a part of the readers poll at their times (`--polls`, from 0 to 1; million_readers.py),
* and a hit is requested each millisecond over one more connection, as in benchmarks/latency.py.

`--price` is the option `polling` in seconds. With the default, the schedule has to fetch more than AIM_RATE times a
second. The store is kept in `--folder` (build/million-FEEDS) and used again. The run uses a copy of it.
"""

import argparse
import asyncio
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import filterfalse
from pathlib import Path

from msgspec.structs import replace

from benchmarks.aim import Aim
from benchmarks.client import connected, get
from benchmarks.latency import EVERY, corrected, hits, percentile
from benchmarks.load import cpu_seconds, pinned, resident, split_cpus
from benchmarks.million_world import (
    DAY,
    SLOW,
    SPACING,
    World,
    agent,
    batches,
    changed,
    gap_of,
    hints,
    interval_of,
    share,
    tag,
)
from benchmarks.peers import ROOT
from benchmarks.table import aims as table_of
from conformance.process import free_port, started
from feedproxy.errors import StoreError
from feedproxy.store import writer_thread_pauses
from feedproxy.store.disk import DiskStore
from feedproxy.store.resource import Resource
from feedproxy.subscribers.reader_pseudonyms import Identifier
from feedproxy.subscribers.subscriber_counts import SubscriberCounts

AIM_RATE = 150
MEMORY_MAX, STORE_MAX = 2**31, 2**36
BATCH = 4000
"""Number of resources that are written together."""

HISTORY_DAYS = 60
"""In the written store, feedproxy has known each feed for this many days."""

SLICE = 10.0
"""Seconds of hits between two measurements of memory."""


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of the store, the ports of the proxy and of the admin listener, and the price."""

    folder: Path
    port: int
    admin: int
    price: float


def command(place: Place, world: World) -> list[str]:
    """Return the arguments of `feedproxy`."""
    values = {
        "confdir": place.folder / "ca",
        "memory_max": MEMORY_MAX,
        "store_max": STORE_MAX,
        "allow_networks": "127.0.0.0/8",
        "allow_ports": world.port,
        "polling": f"{place.price:g}s",
        "feed_min_interval": 0,
        # The slow site begins its responses after SLOW seconds. The limit is half of this option.
        "fetch_timeout": int(3 * SLOW),
        "drain_timeout": 5,
    }
    options = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    listen = ["--listen", f"127.0.0.1:{place.port}", "--admin", f"127.0.0.1:{place.admin}"]
    return ["serve", *listen, "--store", str(place.folder / "store"), *options]


@contextmanager
def running(place: Place, world: World, offset: float, cpus: set[int] | None) -> Iterator[int]:
    """Run feedproxy, and yield its process id."""
    late = [str(place.folder / "late"), str(offset)]
    run = [sys.executable, "-m", "benchmarks.lateness", *late, *command(place, world)]
    with pinned(cpus):
        began = started(run, place.port, log=place.folder / "feedproxy.log", cwd=ROOT)
        process = began.__enter__()
    try:
        yield process.pid
    finally:
        began.__exit__(None, None, None)


def first_of_kinds(world: World) -> dict[tuple[bool, bool], int]:
    """Return the first feed of each combination of hints."""
    found: dict[tuple[bool, bool], int] = {}
    for number in filterfalse(world.is_slow, range(world.feeds)):
        found.setdefault(hints(number), number)
        if len(found) == 4:
            break
    return found


def fetched(target: str, port: int) -> bytes:
    """Return a feed through the gateway. Raises ValueError."""
    with connected(port) as connection:
        answer = get(connection, f"/{target}", {"Host": "localhost", "Accept-Encoding": "gzip"})
    if answer.status != 200:
        raise ValueError(f"{target}: {answer.status}")
    return answer.content


def resource_of(number: int, like: Resource, world: World, now: float, price: float) -> Resource:
    """Return the resource that feedproxy would store for the feed `number`, made from the fetched resource `like`.

    The time of the last refresh is random, within the period that the schedule leaves between two refreshes.
    """
    gap, interval = gap_of(number), interval_of(number // 100)
    period = min(DAY, max(interval, (2 * price * gap) ** 0.5))
    at = now - share(number, "refreshed") * period
    target = world.target(number)
    variant = like.variants[0]
    variant = replace(
        variant,
        target=target,
        fields=variant.fields.with_field("ETag", tag(number, at)),
        request_time=at - 0.2,
        response_time=at,
    )
    history = (changed(number, ago, at) for ago in range(7, -1, -1))
    changes = [instant for instant in history if instant > now - 2 * HISTORY_DAYS * DAY]
    return replace(
        like,
        target=target,
        variants=(variant,),
        changes=changes,
        fetched=at,
        first_seen=now - HISTORY_DAYS * DAY,
        backfill_pending=False,  # the second of its fetches has read the dates of the first document
    )


def fill(folder: Path, world: World, originals: dict[tuple[bool, bool], int], now: float, price: float) -> None:
    """Write the feeds, the counts of readers and their rhythms."""
    # Nothing else runs meanwhile, so that the writes need no pauses.
    writer_thread_pauses.PAUSE_MIN = math.inf
    disk = DiskStore(folder / "store", size_max=STORE_MAX, on_failure=_fail)
    likes = {kind: found[0] for kind, number in originals.items() if (found := disk.read(world.target(number)))}
    for batch in batches(range(world.feeds), BATCH):
        disk.write_all(
            [resource_of(number, likes[hints(number)], world, now, price) for number in batch], lambda *_: None
        )
    secret = disk.read_state("reader-secret")
    assert secret is not None
    identifier = Identifier(secret)
    counts = SubscriberCounts(window=1000 * DAY, feeds_max=2 * world.feeds, entries_max=20 * world.feeds)
    for reader in sorted(range(world.readers), key=lambda each: world.last_poll(each, now)):
        interval, last = interval_of(reader), world.last_poll(reader, now)
        pseudonym = identifier.pseudonym("127.0.0.1", agent(reader), "", now)
        for place, number in enumerate(world.feeds_of(reader)):
            at = last + SPACING * place
            at -= interval * (at > now)
            for before in range(3, 0, -1):
                counts.rhythms.record(world.target(number), pseudonym, at - before * interval)
            counts.record_read(world.target(number), pseudonym, agent(reader), at)
    disk.write_state("counts", asyncio.run(counts.dump()))
    disk.write_state("rhythms", asyncio.run(counts.rhythms.dump()))
    disk.close()


def _fail(error: StoreError) -> None:
    raise error


def made(folder: Path, feeds: int, price: float) -> tuple[World, float]:
    """Return the world in a folder, and the time at which its store was written. If the folder has no world, write
    one."""
    note = folder / "world.json"
    if note.exists():
        known = json.loads(note.read_text(encoding="utf-8"))
        return World(known["feeds"], known["port"]), known["written"]
    world = World(feeds, free_port())
    shutil.rmtree(folder / "store", ignore_errors=True)  # an earlier run was interrupted
    place = Place(folder, free_port(), free_port(), price)
    with origin(folder, world, 0.0, None), running(place, world, 0.0, None):
        originals = first_of_kinds(world)
        for number in originals.values():
            fetched(world.target(number), place.port)
    now = time.time()
    fill(folder, world, originals, now, price)
    note.write_text(json.dumps({"feeds": feeds, "port": world.port, "written": now}), encoding="utf-8")
    return world, now


@contextmanager
def origin(folder: Path, world: World, offset: float, cpus: set[int] | None) -> Iterator[None]:
    """Run the origin in this context."""
    run = [sys.executable, "-m", "benchmarks.million_world", str(world.port), str(offset)]
    with pinned(cpus):
        began = started(run, world.port, log=folder / "origin.log", cwd=ROOT)
        began.__enter__()
    try:
        yield
    finally:
        began.__exit__(None, None, None)


def asked(world: World) -> tuple[int, int]:
    """Return the number of requests to the origin, and the number of its 304 responses."""
    with connected(world.port) as connection:
        all_of_them, unmodified = get(connection, "/asked", {}).content.split()
    return int(all_of_them), int(unmodified)


def play(folder: Path, world: World, written: float, seconds: float, price: float, polls_share: float) -> list[Aim]:
    """Start feedproxy with the store, and return the figures of the run."""
    server, others = split_cpus()
    offset = written - time.time()
    place = Place(folder, free_port(), free_port(), price)
    with origin(folder, world, offset, others):
        hot = world.target(max(filterfalse(world.is_slow, range(min(world.feeds, 10_000))), key=gap_of))
        began = time.monotonic()
        with running(place, world, offset, server) as pid:
            fetched(hot, place.port)
            start = time.monotonic() - began
            memory_at_start = resident(pid)
            readers = [sys.executable, "-m", "benchmarks.million_readers", str(place.port), str(world.port)]
            readers += [str(world.feeds), str(offset), str(seconds), str(polls_share)]
            with pinned(others), subprocess.Popen(readers, cwd=ROOT, stdout=subprocess.PIPE, text=True) as polling:
                try:
                    figures = hits_of(place, world, pid, hot, seconds)
                    polls = json.loads(polling.communicate(timeout=60)[0])
                finally:
                    polling.kill()
    late = [line.split() for line in (folder / "late").read_text(encoding="utf-8").splitlines()]
    at_slow_site = {world.target(number) for number in filter(world.is_slow, range(world.feeds))}
    lateness = sorted(float(delay) for _, delay, target in late if target not in at_slow_site)
    slow = sorted(float(delay) for _, delay, target in late if target in at_slow_site)
    rate = figures.fetches / figures.seconds
    million = f"{world.feeds:,} feeds"
    return [
        Aim(f"{million}: memory", max(figures.memory, memory_at_start) / 2**30, "GiB", "≤", 3 * 1e9 / 2**30),
        Aim(f"{million}: start to first hit", start, "s", "≤", 15),
        Aim(f"{million}: scheduled fetches", rate, "a second", "≥", AIM_RATE),
        Aim("… of these answered with 304", 100 * figures.unmodified / max(1, figures.fetches), "%"),
        Aim("lateness of fetches against plan: p50", percentile(lateness or [0.0], 0.5), "s"),
        Aim("lateness of fetches against plan: p99", percentile(lateness or [0.0], 0.99), "s", "≤", 60),
        Aim(f"… at the site that answers after {SLOW:.0f} s: p99", percentile(slow or [0.0], 0.99), "s"),
        Aim("hits meanwhile: p99", figures.p99, "ms", "≤", 2),
        Aim("hits meanwhile: longest", figures.longest, "ms"),
        Aim("polls of the feeds' readers meanwhile", polls["polls"] / seconds, "a second"),
        Aim("… their p99", polls["p99"], "ms"),
        Aim("… not answered with 200", polls["failed"], "polls"),
        Aim("CPU of feedproxy", 100 * figures.cpu / figures.seconds, "% of one core"),
    ]


@dataclass(frozen=True, slots=True)
class Figures:
    """The measured figures of a run: times in seconds, memory in bytes, fetches, and times of hits in milliseconds."""

    seconds: float
    cpu: float
    memory: int
    fetches: int
    unmodified: int
    p99: float
    longest: float


def hits_of(place: Place, world: World, pid: int, hot: str, seconds: float) -> Figures:
    """Request a hit each millisecond, and measure the process."""
    taken: list[float] = []
    memory, began, cpu = 0, time.monotonic(), cpu_seconds(pid)
    before = asked(world)
    wanted = (
        f"GET /{hot} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Hot/1\r\nAccept-Encoding: gzip\r\n"
        f"If-None-Match: {tag_of(hot, place.port)}\r\n\r\n"
    ).encode()
    while (left := began + seconds - time.monotonic()) > 0:
        taken += hits(place.port, wanted, min(SLICE, left))
        memory = max(memory, resident(pid))
    lasted = time.monotonic() - began
    after = asked(world)
    cpu = cpu_seconds(pid) - cpu
    ordered = [each * 1000 for each in corrected(taken, EVERY)]
    fetches, unmodified = after[0] - before[0], after[1] - before[1]
    return Figures(lasted, cpu, memory, fetches, unmodified, percentile(ordered, 0.99), ordered[-1])


def tag_of(target: str, port: int) -> str:
    """Return the ETag of a feed at the gateway."""
    with connected(port) as connection:
        return get(connection, f"/{target}", {"Host": "localhost", "Accept-Encoding": "gzip"}).fields["etag"]


def measure(feeds: int, seconds: float, price: float, polls_share: float, folder: Path) -> list[Aim]:
    """Write the world unless the folder contains one, and run on a copy of it. Return the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    world, written = made(folder, feeds, price)
    with tempfile.TemporaryDirectory(prefix="feedproxy-bench-") as temporary:
        played = Path(temporary) / "played"
        shutil.copytree(folder, played)
        return play(played, world, written, seconds, price, polls_share)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.million")
    parser.add_argument("--feeds", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--price", type=float, default=8)
    parser.add_argument("--polls", type=float, default=0.0)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args(arguments)
    folder = args.folder or Path("build") / f"million-{args.feeds}"
    figures = measure(args.feeds, args.seconds, args.price, args.polls, folder)
    print(table_of([asdict(aim) for aim in figures]))


if __name__ == "__main__":
    main()
