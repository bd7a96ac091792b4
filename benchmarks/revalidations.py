"""The CPU time of a first fetch, and of a scheduled refresh that the origin answers with 304.

    python -m benchmarks.revalidations [--feeds 1000] [--rounds 3] [--profile FILE]

The service runs in this process as in `feedproxy serve`, but without listeners: store on disk, log, metrics, plans.
Feeds of 61 KB (feed.py) are fetched once from an origin in another process, over persistent connections. Then each is
refreshed as by the schedule. A refresh begins with the decision that the feed is due, and ends when the result is
written and the next refresh is planned. The time is that of this process and its helper processes, with all threads,
divided by the number of refreshes.

Other programs on the machine lengthen the time by a half, although their own time does not count. The lowest time of a
part of the run depends less on them. The number of calls of Python functions in the event loop does not depend on the
machine at all. Two versions can be compared by these figures.
"""

import argparse
import asyncio
import cProfile
import itertools
import logging
import math
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from benchmarks import feed
from benchmarks.aim import Aim
from benchmarks.load import cpu_seconds
from benchmarks.peers import ROOT
from conformance.process import free_port, started
from feedproxy.app import App
from feedproxy.proxy.service import Service
from feedproxy.server.fastpath.gc_policy import freeze_startup_objects
from feedproxy.telemetry.log_stream import LineHandler

CONCURRENT_MIN = 8
AIM_MS = 0.6

AIM_CALLS = 720
"""Target: a refresh that is answered with 304 makes at most this many calls of Python functions."""

PART = 100
"""Number of refreshes in a part of the run. The lowest of the parts' times is a figure of its own."""

COUNTED = 20
"""Number of feeds for which the calls of Python functions are counted."""


async def each(targets: Sequence[str], act: Callable[[str], Awaitable[object]]) -> None:
    """Call `act` for all targets, a few at a time."""
    waiting = iter(targets)

    async def some() -> None:
        for target in waiting:
            await act(target)

    await asyncio.gather(*(some() for _ in range(CONCURRENT_MIN)))


async def scheduled(service: Service, target: str) -> None:
    """Refresh a feed as the schedule does when the feed is due. Raises ValueError if the origin's answer is not 304."""
    service.schedule.scheduler._plan_due(target)
    done = await service.admin.coordinator.refresh(target)
    if done.fwd_status != 304:
        raise ValueError(f"{target}: {done.fwd_status}, not 304: {done.reason}")


async def measure(
    service: Service, targets: Sequence[str], act: Callable[[str], Awaitable[object]], origin: int
) -> tuple[float, float]:
    """Return the CPU milliseconds for each target: the mean, and the lowest of a part of the targets.

    `origin` is a process that is not counted. The lowest time is that of this process, without its helper processes.
    """
    before, lowest = cpu_seconds(os.getpid()) - cpu_seconds(origin), math.inf
    for part in itertools.batched(targets, PART):
        began = time.process_time()
        await each(part, act)
        await service.store.flush()
        lowest = min(lowest, (time.process_time() - began) / len(part) * 1e3)
    mean = (cpu_seconds(os.getpid()) - cpu_seconds(origin) - before) / len(targets) * 1e3
    return mean, lowest


async def count_calls(targets: Sequence[str], act: Callable[[str], Awaitable[object]]) -> float:
    """Return the number of calls of Python functions in the event loop for each target."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        for target in targets:
            await act(target)
    finally:
        sys.setprofile(None)
    return calls / len(targets)


@dataclass(frozen=True, slots=True)
class Cost:
    """The CPU milliseconds (mean and lowest) and the calls of Python functions of a first fetch, and of a refresh with
    304."""

    first_ms: tuple[float, float]
    again_ms: tuple[float, float]
    first_calls: float
    again_calls: float


async def play(folder: Path, origin: int, feeds: int, rounds: int, profile: Path | None, process: int) -> Cost:
    """Measure, and return the cost."""
    app = App()
    values = {"store": str(folder), "upstream": f"http://127.0.0.1:{origin}", "log_format": "text"}
    app.configure({**values, "site_interval": 0, "feed_min_interval": 0, "allow_networks": ["127.0.0.0/8"]})
    service = app.service
    targets = [f"http://127.0.0.1:{origin}{feed.path(str(number))}" for number in range(feeds + COUNTED)]
    targets, counted = targets[:feeds], targets[feeds:]
    first = await measure(service, targets, service.admin.coordinator.refresh, process)
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
    first_calls = await count_calls(counted, service.admin.coordinator.refresh)
    await each(counted, lambda target: scheduled(service, target))
    again_calls = await count_calls(counted, lambda target: scheduled(service, target))
    await app.close()
    return Cost(first, again, first_calls, again_calls)


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
            cost = asyncio.run(play(folder / "store", port, feeds, rounds, profile, process.pid))
    return [
        Aim("a first fetch by the schedule, CPU", cost.first_ms[0], "ms"),
        Aim(f"a first fetch by the schedule, lowest CPU of {PART}", cost.first_ms[1], "ms"),
        Aim("a scheduled refresh that is answered with 304, CPU", cost.again_ms[0], "ms", "≤", AIM_MS),
        Aim(f"a scheduled refresh that is answered with 304, lowest CPU of {PART}", cost.again_ms[1], "ms"),
        Aim("a first fetch by the schedule, calls", cost.first_calls, "calls"),
        Aim("a scheduled refresh that is answered with 304, calls", cost.again_calls, "calls", "≤", AIM_CALLS),
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
