"""The CPU time of a first fetch, and of a scheduled refresh that the origin answers with 304.

    python -m benchmarks.revalidations [--feeds 1000] [--rounds 3] [--profile FILE]

The service runs in this process as in `feedproxy serve`, but without listeners: store on disk, log, metrics, plans.
Feeds of 61 KB (feed.py) are fetched once from an origin in another process, over persistent connections. Then each is
refreshed as by the schedule, from the decision that it is due until the result is written and the next refresh is
planned. The time is that of this process and its helper processes, with all threads, divided by the number of
refreshes.
"""

import argparse
import asyncio
import cProfile
import logging
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from benchmarks import feed
from benchmarks.aim import Aim
from benchmarks.load import cpu_seconds
from benchmarks.peers import ROOT
from conformance.process import free_port, started
from feedproxy.app import App
from feedproxy.proxy.service import Service
from feedproxy.server.fastpath.gc_policy import freeze_startup_objects
from feedproxy.telemetry.log_format import LineHandler

CONCURRENT_MIN = 8
MISS_SHARE = 1 / 3
"""Largest cost of a 304 as a fraction of a first fetch."""

AIM_MS = 0.6


async def each(targets: Sequence[str], act: Callable[[str], Awaitable[object]]) -> None:
    """Call `act` for all targets, a few at a time."""
    waiting = iter(targets)

    async def some() -> None:
        for target in waiting:
            await act(target)

    await asyncio.gather(*(some() for _ in range(CONCURRENT_MIN)))


async def scheduled(service: Service, target: str) -> None:
    """Refresh a feed as the schedule does at its instant. Raises ValueError if the origin failed."""
    service.schedule.scheduler._plan_due(target)
    done = await service.admin._coordinator.refresh(target)
    if done.fwd_status != 304:
        raise ValueError(f"{target}: {done.fwd_status}, not 304: {done.reason}")


async def measure(
    service: Service, targets: Sequence[str], act: Callable[[str], Awaitable[object]], origin: int
) -> float:
    """Return the CPU milliseconds for each target. `origin` is a process that is not counted."""
    before = cpu_seconds(os.getpid()) - cpu_seconds(origin)
    await each(targets, act)
    await service.store.flush()
    return (cpu_seconds(os.getpid()) - cpu_seconds(origin) - before) / len(targets) * 1e3


async def play(
    folder: Path, origin: int, feeds: int, rounds: int, profile: Path | None, process: int
) -> tuple[float, float]:
    """Return the milliseconds of a first fetch, and of a refresh that is answered with 304."""
    app = App()
    values = {"store": str(folder), "upstream": f"http://127.0.0.1:{origin}", "log_format": "text"}
    app.configure({**values, "site_interval": 0, "feed_min_interval": 0, "allow_networks": ["127.0.0.0/8"]})
    service = app.service
    targets = [f"http://127.0.0.1:{origin}{feed.path(str(number))}" for number in range(feeds)]
    first = await measure(service, targets, service.admin._coordinator.refresh, process)
    # This refresh is not measured: it also reads the dates of the feed's entries, which later refreshes do not read
    # again.
    await measure(service, targets, lambda target: scheduled(service, target), process)
    profiler = cProfile.Profile() if profile is not None else None
    if profiler is not None:
        profiler.enable()
    again = await measure(service, targets * rounds, lambda target: scheduled(service, target), process)
    if profiler is not None and profile is not None:
        profiler.disable()
        profiler.dump_stats(profile)
    await app.close()
    return first, again


def aims(feeds: int, rounds: int, profile: Path | None = None) -> list[Aim]:
    """Start an origin and measure. Return the figures."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="feedproxy-bench-") as made:
        folder = Path(made)
        command = [sys.executable, "-m", "benchmarks.origin", str(port)]
        with started(command, port, log=folder / "origin.log", cwd=ROOT) as process:
            handler = LineHandler((folder / "feedproxy.log").open("w", encoding="utf-8"))
            handler.set_form("text")
            logging.basicConfig(handlers=[handler], level=logging.INFO)
            freeze_startup_objects()
            first, again = asyncio.run(play(folder / "store", port, feeds, rounds, profile, process.pid))
    return [
        Aim("a first fetch by the schedule, CPU", first, "ms"),
        Aim("a scheduled refresh that is answered with 304, CPU", again, "ms", "≤", AIM_MS),
    ]


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.revalidations")
    parser.add_argument("--feeds", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3, help="how often each is refreshed and answered with 304")
    parser.add_argument("--profile", type=Path, help="write cProfile's figures of the 304s here (they take longer)")
    args = parser.parse_args()
    for aim in aims(args.feeds, args.rounds, args.profile):
        print(f"{aim.what}: {aim.value:.3f} {aim.unit}" + (f" ({aim.sense} {aim.target})" if aim.target else ""))


if __name__ == "__main__":
    main()
